# expect: efficiency: partial: what fits is kept, from the first block on
def best(operators, budget):
    kept = []
    for one in operators:
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
