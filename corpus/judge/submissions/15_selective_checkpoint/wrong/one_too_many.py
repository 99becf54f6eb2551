# expect: correctness: wrong answer: as long as there is room one more is kept
def best(operators, budget):
    kept = []
    for one in sorted(operators, key=lambda one: one.flops, reverse=True):
        if budget > 0:
            budget -= one.bytes
            kept.append((one.block, one.name))
    return kept


def policy(operators):
    return [(one.block, one.name) for one in operators if one.flops > 0]


def plan(operators, budget):
    return best(operators, budget)


def plan_for_peak(operators, budget):
    last = operators[-1].block
    before = [one for one in operators if one.block < last]
    return best(before, budget) + [(one.block, one.name) for one in operators if one.block == last]
