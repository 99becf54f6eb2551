# expect: all: passed: all choices of a block at once, those that no other beats, joined block by block
from itertools import groupby


def undominated(choices):
    """Of (bytes, FLOP saved, traffic saved, records) those that no other one beats, the smallest first."""
    found = []
    for choice in sorted(choices, key=lambda one: (one[0], -one[1], -one[2])):
        if not found or choice[1:3] > found[-1][1:3]:
            found.append(choice)
    return found


def best(operators, budget):
    joined = [(0, 0, 0, ())]
    for _, block in groupby(operators, key=lambda one: one.block):
        block = list(block)
        choices = []
        for mask in range(1 << len(block)):
            kept = [one for number, one in enumerate(block) if mask >> number & 1]
            sums = (sum(one.bytes for one in kept), sum(one.flops for one in kept), sum(one.moved for one in kept))
            choices.append((*sums, tuple((one.block, one.name) for one in kept)))
        choices = undominated(choices)
        joined = undominated(
            (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])
            for a in joined
            for b in choices
            if a[0] + b[0] <= budget
        )
    return list(joined[-1][3])


def policy(operators):
    return [(one.block, one.name) for one in operators if one.flops > 0]


def plan(operators, budget):
    return best(operators, budget)


def plan_for_peak(operators, budget):
    last = operators[-1].block
    before = [one for one in operators if one.block < last]
    return best(before, budget) + [(one.block, one.name) for one in operators if one.block == last]
