"""What a learner writes in each part of lab 07, in both languages: by file, what is given and what replaces it."""

FRAGMENTS = {  # part 1 of lab 07, in both languages: what is given and what it should be
    "submission.py": (
        ("return first, first, first, first", """return (
        first,
        ptx.pack_f16(element(a, row + g + 8, p + 2 * q), element(a, row + g + 8, p + 2 * q + 1)),
        ptx.pack_f16(element(a, row + g, p + 2 * q + 8), element(a, row + g, p + 2 * q + 9)),
        ptx.pack_f16(element(a, row + g + 8, p + 2 * q + 8), element(a, row + g + 8, p + 2 * q + 9)),
    )"""),
        ("return nothing, nothing", """return (
        ptx.pack_f16(element(b, p + 2 * q, col + g), element(b, p + 2 * q + 1, col + g)),
        ptx.pack_f16(element(b, p + 2 * q + 8, col + g), element(b, p + 2 * q + 9, col + g)),
    )"""),
    ),
    "submission_cuda.py": (
        ("d[1] = d[2] = d[3] = d[0];", """for (int i = 1; i < 4; ++i) {
        int r = row + g + 8 * (i % 2), s = p + 2 * q + 8 * (i / 2);
        d[i] = pair(element(a, m, k, r, s), element(a, m, k, r, s + 1));
    }"""),
        ("d[0] = d[1] = 0;", """for (int i = 0; i < 2; ++i) {
        int s = p + 2 * q + 8 * i;
        d[i] = pair(element(b, k, n, s, col + g), element(b, k, n, s + 1, col + g));
    }"""),
    ),
}  # fmt: skip
BLOCKS = {  # part 2
    "submission.py": (
        ("row, col = 0, 0", "row, col = cuda.blockIdx.y * M, cuda.blockIdx.x * N"),
        ("blocks = (1, 1)", "blocks = ((n + N - 1) // N, (m + M - 1) // M)"),
    ),
    "submission_cuda.py": (
        ("const int row = 0, col = 0;", "const int row = blockIdx.y * 16, col = blockIdx.x * 8;"),
        ("blocks = (1, 1)", "blocks = ((n + N - 1) // N, (m + M - 1) // M)"),
    ),
}  # fmt: skip
STEPS = {  # part 3
    "submission.py": (
        (
            "    d = product(fragment_a(a, row, 0, g, q), fragment_b(b, 0, col, g, q), d)",
            """    for p in range(0, a.shape[1], K):
        d = product(fragment_a(a, row, p, g, q), fragment_b(b, p, col, g, q), d)""",
        ),
    ),
    "submission_cuda.py": (
        (
            """    fragment_a(of_a, a, m, k, row, 0, g, q);
    fragment_b(of_b, b, k, n, 0, col, g, q);
    multiply(d, of_a, of_b);""",
            """    for (int p = 0; p < k; p += 16) {
        fragment_a(of_a, a, m, k, row, p, g, q);
        fragment_b(of_b, b, k, n, p, col, g, q);
        multiply(d, of_a, of_b);
    }""",
        ),
    ),
}  # fmt: skip
