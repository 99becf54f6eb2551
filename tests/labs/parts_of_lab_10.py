"""What a learner writes in each part of lab 10, in both languages: by file, what is given and what replaces it."""

CHOOSE = {
    "submission.py": (
        (
            "            chosen[token, choice] = int32(choice)",
            """            best, expert = LOWEST, int32(-1)
            for e in range(scores.shape[1]):
                score = scores[token, e]
                score = score if score == score else LOWEST
                taken = False
                for earlier in range(choice):
                    taken = taken or chosen[token, earlier] == e
                if not taken and (expert < 0 or score > best):
                    best, expert = score, int32(e)
            chosen[token, choice] = expert""",
        ),
    ),
    "submission_cuda.py": (
        (
            "for (int choice = 0; choice < K; ++choice) chosen[token * K + choice] = choice;",
            """for (int choice = 0; choice < K; ++choice) {
        int best = 0x80000000, expert = -1;
        for (int e = 0; e < EXPERTS; ++e) {
            int bits = __float_as_int(scores[token * EXPERTS + e]), magnitude = bits & 0x7fffffff;
            int key = magnitude > 0x7f800000 ? -0x7f800000 : bits < 0 ? -magnitude : magnitude;
            bool taken = false;
            for (int earlier = 0; earlier < choice; ++earlier) taken |= chosen[token * K + earlier] == e;
            if (!taken && (expert < 0 || key > best)) best = key, expert = e;
        }
        chosen[token * K + choice] = expert;
    }""",
        ),
    ),
}
COUNT = {
    "submission.py": (
        (
            """        count[expert] = 1 if chosen[0, 0] == expert else 0
        first[expert] = 1 if chosen[0, 0] < expert else 0""",
            """        mine = before = int32(0)
        for token in range(chosen.shape[0]):
            for choice in range(chosen.shape[1]):
                mine += int32(1 if chosen[token, choice] == expert else 0)
                before += int32(1 if chosen[token, choice] < expert else 0)
        count[expert] = mine
        first[expert] = before""",
        ),
    ),
    "submission_cuda.py": (
        (
            """    count[expert] = chosen[0] == expert;
    first[expert] = chosen[0] < expert;""",
            """    int mine = 0, before = 0;
    for (int row = 0; row < tokens * K; ++row) mine += chosen[row] == expert, before += chosen[row] < expert;
    count[expert] = mine, first[expert] = before;""",
        ),
    ),
}
PLACE = {
    "submission.py": (
        (
            """        for choice in range(chosen.shape[1]):
            if chosen[0, choice] == expert:
                position[0, choice] = first[expert]
                order[first[expert]] = choice""",
            """        to = first[expert]
        for token in range(chosen.shape[0]):
            for choice in range(chosen.shape[1]):
                if chosen[token, choice] == expert:
                    position[token, choice] = to
                    order[to] = token * chosen.shape[1] + choice
                    to += 1""",
        ),
    ),
    "submission_cuda.py": (
        (
            """    for (int row = 0; row < K; ++row)
        if (chosen[row] == expert) position[row] = first[expert], order[first[expert]] = row;""",
            """    int to = first[expert];
    for (int row = 0; row < tokens * K; ++row)
        if (chosen[row] == expert) position[row] = to, order[to++] = row;""",
        ),
    ),
}
