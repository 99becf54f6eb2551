"""Rung 1: what fits is kept, from the first block on. Right, and within every budget; most FLOP are in what came too
late.

The policy keeps everything, which computes no FLOP again either.
"""


def first_that_fit(operators, budget):
    kept = []
    for one in operators:
        if one.bytes <= budget:
            budget -= one.bytes
            kept.append((one.block, one.name))
    return kept


def policy(operators):
    return [(one.block, one.name) for one in operators]


def plan(operators, budget):
    return first_that_fit(operators, budget)


def plan_for_peak(operators, budget):
    return first_that_fit(operators, budget)
