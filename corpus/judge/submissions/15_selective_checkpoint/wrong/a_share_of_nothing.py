# expect: correctness: host error: divides by a budget of 0
def best(operators, budget):
    found = {0: (0, 0, 0)}  # by bytes: FLOP saved, bytes of traffic saved, a bit for each operator that is kept
    for number, one in enumerate(operators):
        for size, (flops, moved, kept) in list(found.items()):
            total, choice = size + one.bytes, (flops + one.flops, moved + one.moved, kept | 1 << number)
            if total <= budget and choice > found.get(total, (-1,)):
                found[total] = choice
    kept = max(found.values())[2]
    return [(one.block, one.name) for number, one in enumerate(operators) if kept >> number & 1]


def policy(operators):
    return [(one.block, one.name) for one in operators if one.flops > 0]


def plan(operators, budget):
    cheap = [one for one in operators if one.bytes / budget <= 1]
    return best(cheap, budget)


def plan_for_peak(operators, budget):
    last = operators[-1].block
    before = [one for one in operators if one.block < last]
    return best(before, budget) + [(one.block, one.name) for one in operators if one.block == last]
