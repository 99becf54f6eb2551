"""Rung 2: what saves the most FLOP a byte is kept first, and for the peak all of the last block. At the end of the sack
a hole is left that nothing fits.

The policy is the best one.
"""


def most_a_byte(operators, budget):
    kept = []
    for one in sorted(operators, key=lambda one: one.flops / one.bytes, reverse=True):
        if one.bytes <= budget:
            budget -= one.bytes
            kept.append((one.block, one.name))
    return kept


def policy(operators):
    return [(one.block, one.name) for one in operators if one.flops]


def plan(operators, budget):
    return most_a_byte(operators, budget)


def plan_for_peak(operators, budget):
    last = max(one.block for one in operators)
    free = [(one.block, one.name) for one in operators if one.block == last]
    return free + most_a_byte([one for one in operators if one.block != last], budget)
