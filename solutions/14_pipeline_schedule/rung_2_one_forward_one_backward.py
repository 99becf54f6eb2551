"""Rung 2: 1F1B in all three. Nothing is held too long; chunks and W do not save time yet.

The interleaved one sends a group of micro-batches forth through all chunks and then back, group by group, so that the
pipeline runs dry between two groups. In the last function W follows its B at once.
"""


def in_turn(rank, ranks, micro_batches, backward):
    """Forward passes ahead, then one forward and the passes `backward` in turn."""
    ahead, records = min(micro_batches, ranks - 1 - rank), []
    for number in range(micro_batches + ahead):
        if number < micro_batches:
            records.append((rank, "F", number, 0))
        if number >= ahead:
            records += [(rank, kind, number - ahead, 0) for kind in backward]
    return records


def one_f_one_b(ranks, micro_batches):
    return [record for rank in range(ranks) for record in in_turn(rank, ranks, micro_batches, "B")]


def interleaved(ranks, micro_batches, chunks):
    records = []
    for rank in range(ranks):
        for group in range(0, micro_batches, ranks):
            members = range(group, group + ranks)
            records += [(rank, "F", number, chunk) for chunk in range(chunks) for number in members]
            records += [(rank, "B", number, chunk) for chunk in reversed(range(chunks)) for number in members]
    return records


def zero_bubble(ranks, micro_batches):
    return [record for rank in range(ranks) for record in in_turn(rank, ranks, micro_batches, "BW")]
