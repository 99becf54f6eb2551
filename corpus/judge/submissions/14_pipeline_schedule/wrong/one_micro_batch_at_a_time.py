# expect: efficiency: below the floor: each micro-batch goes forth and back before the next begins
def one_f_one_b(ranks, micro_batches):
    return [(rank, kind, number, 0) for rank in range(ranks) for number in range(micro_batches) for kind in "FB"]


def interleaved(ranks, micro_batches, chunks):
    records = []
    for rank in range(ranks):
        for number in range(micro_batches):
            records += [(rank, "F", number, chunk) for chunk in range(chunks)]
            records += [(rank, "B", number, chunk) for chunk in reversed(range(chunks))]
    return records


def zero_bubble(ranks, micro_batches):
    return [(rank, kind, number, 0) for rank in range(ranks) for number in range(micro_batches) for kind in "FBW"]
