# expect: efficiency: partial: what saves the most FLOP a byte leaves a hole that nothing fits
def best(operators, budget):
    kept = []
    for one in sorted(operators, key=lambda one: one.flops / one.bytes, reverse=True):
        if one.bytes <= budget:
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
