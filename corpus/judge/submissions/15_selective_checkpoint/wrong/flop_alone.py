# expect: traffic: over budget: what has no FLOP is never kept, though there is room for it
def best(operators, budget):
    found = {0: (0, 0)}  # by bytes: FLOP saved, a bit for each operator that is kept
    for number, one in enumerate(operators):
        for size, (flops, kept) in list(found.items()):
            total = size + one.bytes
            if one.flops and total <= budget and flops + one.flops > found.get(total, (-1, 0))[0]:
                found[total] = flops + one.flops, kept | 1 << number
    least = min(found, key=lambda size: (-found[size][0], size))
    return [(one.block, one.name) for number, one in enumerate(operators) if found[least][1] >> number & 1]


def policy(operators):
    return [(one.block, one.name) for one in operators if one.flops > 0]


def plan(operators, budget):
    return best(operators, budget)


def plan_for_peak(operators, budget):
    last = operators[-1].block
    before = [one for one in operators if one.block < last]
    return best(before, budget) + [(one.block, one.name) for one in operators if one.block == last]
