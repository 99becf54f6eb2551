"""Lab 15_selective_checkpoint: which operators' results a checkpoint keeps.

An operator has block, name, bytes, flops and moved; a record is (block, name). README.md says what they mean.
"""


# BEGIN SOLUTION
def best(operators, budget):
    """The operators to keep: at most `budget` bytes, the fewest FLOP again, and of equals the fewest bytes moved."""
    # One operator after another. Of all choices so far only those survive that no other one beats: (bytes, FLOP saved,
    # bytes of traffic saved, what is kept as a list linked backwards).
    choices = [(0, 0, 0, None)]
    for one in operators:
        more = [
            (size + one.bytes, flops + one.flops, moved + one.moved, (one, kept))
            for size, flops, moved, kept in choices
            if size + one.bytes <= budget
        ]
        both = sorted(choices + more, key=lambda choice: (choice[0], -choice[1], -choice[2]))
        choices = []
        for choice in both:
            if not choices or choice[1:3] > choices[-1][1:3]:
                choices.append(choice)
    found, left = [], choices[-1][3]
    while left:
        one, left = left
        found.append(one)
    return found


def records(kept):
    return [(one.block, one.name) for one in kept]


# END SOLUTION
def policy(operators):
    """Keep the fewest bytes such that no FLOP are computed again."""
    # BEGIN SOLUTION
    # STARTER: return []
    return records(one for one in operators if one.flops)
    # END SOLUTION


def plan(operators, budget):
    """Keep at most `budget` bytes, such that the fewest FLOP are computed again."""
    # BEGIN SOLUTION
    # STARTER: return []
    return records(best(operators, budget))
    # END SOLUTION


def plan_for_peak(operators, budget):
    """The same, but the budget is what the step's peak may be above that of a full checkpoint."""
    # BEGIN SOLUTION
    # STARTER: return []
    # At the peak the last block is on its way back, with all of its results, kept or made again: there keeping is free.
    last = max(one.block for one in operators)
    free = [one for one in operators if one.block == last]
    return records(free + best([one for one in operators if one.block != last], budget))
    # END SOLUTION
