# expect: all: passed: the best of two halves, of which each is small enough
from bisect import bisect_right


def choices_of(operators):
    """(bytes, saved, kept) of all choices that no other beats; traffic is what decides between equals."""
    choices = [(0, (0, 0), frozenset())]
    for one in operators:
        record = frozenset([(one.block, one.name)])
        choices += [(b + one.bytes, (f + one.flops, m + one.moved), k | record) for b, (f, m), k in choices]
        choices.sort(key=lambda choice: (choice[0], -choice[1][0], -choice[1][1]))
        left = []
        for choice in choices:
            if not left or choice[1] > left[-1][1]:
                left.append(choice)
        choices = left
    return choices


def best(operators, budget):
    half = len(operators) // 2
    left, right = choices_of(operators[:half]), choices_of(operators[half:])
    sizes = [size for size, _, _ in right]
    found = None
    for size, (flops, moved), kept in left:
        if size <= budget:
            _, (more_flops, more_moved), more = right[bisect_right(sizes, budget - size) - 1]
            saved = flops + more_flops, moved + more_moved
            if found is None or saved > found[0]:
                found = saved, kept | more
    return sorted(found[1])


def policy(operators):
    return [(one.block, one.name) for one in operators if one.flops > 0]


def plan(operators, budget):
    return best(operators, budget)


def plan_for_peak(operators, budget):
    last = operators[-1].block
    before = [one for one in operators if one.block < last]
    return best(before, budget) + [(one.block, one.name) for one in operators if one.block == last]
