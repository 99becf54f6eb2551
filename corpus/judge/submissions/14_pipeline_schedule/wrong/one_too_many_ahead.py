# expect: traffic: over budget: the warm-up counts the ranks behind and one more
def one_f_one_b(ranks, micro_batches):
    records = []
    for rank in range(ranks):
        forward = backward = 0
        while backward < micro_batches:
            if forward < micro_batches and forward - backward <= ranks - rank:
                records.append((rank, "F", forward, 0))
                forward += 1
            else:
                records.append((rank, "B", backward, 0))
                backward += 1
    return records


def interleaved(ranks, micro_batches, chunks):
    records, total = [], micro_batches * chunks
    for rank in range(ranks):
        room = 2 * (ranks - 1 - rank) + (chunks - 1) * ranks + 1
        forward = backward = 0
        while backward < total:
            ahead = forward < total and forward - backward < room
            number = forward if ahead else backward
            chunk = number // ranks % chunks
            micro_batch = number // (ranks * chunks) * ranks + number % ranks
            if ahead:
                records.append((rank, "F", micro_batch, chunk))
                forward += 1
            else:
                records.append((rank, "B", micro_batch, chunks - 1 - chunk))
                backward += 1
    return records


def zero_bubble(ranks, micro_batches):
    records = []
    for rank in range(ranks):
        forward = backward = weights = 0
        while weights < micro_batches:
            if backward - weights > rank or backward == micro_batches:
                records.append((rank, "W", weights, 0))
                weights += 1
            elif forward < micro_batches and forward - backward < ranks - rank:
                records.append((rank, "F", forward, 0))
                forward += 1
            else:
                records.append((rank, "B", backward, 0))
                backward += 1
    return records
