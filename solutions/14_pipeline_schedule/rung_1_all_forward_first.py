"""Rung 1: GPipe. All forward passes, then all backward passes: right, but every micro-batch is held at once.

The interleaved one sends group after group through all chunks. In the last function B and W follow each other, so W
makes the rank before wait.
"""


def one_f_one_b(ranks, micro_batches):
    return [(rank, kind, number, 0) for rank in range(ranks) for kind in "FB" for number in range(micro_batches)]


def interleaved(ranks, micro_batches, chunks):
    records = []
    for rank in range(ranks):
        for kind in "FB":
            for group in range(0, micro_batches, ranks):
                for chunk in range(chunks) if kind == "F" else reversed(range(chunks)):
                    records += [(rank, kind, group + number, chunk) for number in range(ranks)]
    return records


def zero_bubble(ranks, micro_batches):
    records = []
    for rank in range(ranks):
        records += [(rank, "F", number, 0) for number in range(micro_batches)]
        for number in range(micro_batches):
            records += [(rank, "B", number, 0), (rank, "W", number, 0)]
    return records
