"""Lab 14_pipeline_schedule: the order of passes of 1F1B, of interleaved 1F1B and of a zero-bubble schedule.

A record is (rank, "F", "B" or "W", micro-batch, chunk), a rank's in the order in which it does them; README.md says
what a pass needs.
"""


def one_f_one_b(ranks, micro_batches):
    """Every rank has one chunk, number 0. B is a whole backward pass."""
    # BEGIN SOLUTION
    # STARTER: return []
    # A rank runs ahead by as many forward passes as there are ranks behind it. Then each backward pass makes room for
    # one more forward pass.
    records = []
    for rank in range(ranks):
        ahead = min(micro_batches, ranks - 1 - rank)
        for number in range(micro_batches + ahead):
            if number < micro_batches:
                records.append((rank, "F", number, 0))
            if number >= ahead:
                records.append((rank, "B", number - ahead, 0))
    return records
    # END SOLUTION


def interleaved(ranks, micro_batches, chunks):
    """Rank r has the layers' parts r, ranks + r, 2 ranks + r, ... as its chunks; ranks divides micro_batches."""
    # BEGIN SOLUTION
    # STARTER: return []
    # Micro-batches go in groups of as many as there are ranks: all of a group through chunk 0, then through chunk 1, so
    # that the next chunk's first forward pass comes just when the last rank has done the one before it.
    records = []
    for rank in range(ranks):
        passes = [
            (group + number, chunk)
            for group in range(0, micro_batches, ranks)
            for chunk in range(chunks)
            for number in range(ranks)
        ]
        ahead = min(len(passes), 2 * (ranks - 1 - rank) + (chunks - 1) * ranks)
        for number in range(len(passes) + ahead):
            if number < len(passes):
                micro_batch, chunk = passes[number]
                records.append((rank, "F", micro_batch, chunk))
            if number >= ahead:
                micro_batch, chunk = passes[number - ahead]
                records.append((rank, "B", micro_batch, chunks - 1 - chunk))
    return records
    # END SOLUTION


def zero_bubble(ranks, micro_batches):
    """Every rank has one chunk, number 0. B makes the input's gradient only, W the weights', some time after it."""
    # BEGIN SOLUTION
    # STARTER: return []
    # 1F1B, but a rank puts off as many W as there are ranks before it. It does them in the end, when it would wait for
    # the last B of the ranks behind.
    records = []
    for rank in range(ranks):
        ahead = min(micro_batches, ranks - 1 - rank)
        late = min(micro_batches, rank)
        for number in range(micro_batches + ahead):
            if number < micro_batches:
                records.append((rank, "F", number, 0))
            if number >= ahead:
                records.append((rank, "B", number - ahead, 0))
            if number >= ahead + late:
                records.append((rank, "W", number - ahead - late, 0))
        records += [(rank, "W", number, 0) for number in range(micro_batches - late, micro_batches)]
    return records
    # END SOLUTION
