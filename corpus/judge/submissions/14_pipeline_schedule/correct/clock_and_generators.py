# expect: all: passed: every rank takes what is there at each tick; numbers of NumPy, ranks in turn
import numpy as np


def ticked(ranks, micro_batches, lengths):
    """What each rank begins at each tick: a backward pass if there is one, else a forward pass if there is room."""
    kinds, last = "".join(lengths), "".join(lengths)[-1]
    done = {}  # (pass, rank, micro-batch) -> the tick at which it ends
    count = [dict.fromkeys(kinds, 0) for _ in range(ranks)]
    free, tick = [0] * ranks, 0
    while any(mine[last] < micro_batches for mine in count):
        for rank, mine in enumerate(count):
            room = ranks - rank if last == "B" else ranks
            choices = [("B", mine["B"])]
            if mine["F"] - mine["B"] < ranks - rank and mine["F"] - mine[last] < room:
                choices.append(("F", mine["F"]))
            if last == "W" and mine["W"] < mine["B"]:
                choices.append(("W", mine["W"]))
            for kind, number in choices:
                if free[rank] > tick or number == micro_batches:
                    continue
                there = {"F": [("F", rank - 1, number)] if rank else [], "W": []}.get(kind)
                if kind == "B":
                    there = [("F", rank, number)] + ([("B", rank + 1, number)] if rank + 1 < ranks else [])
                if all(done.get(need, tick + 1) <= tick for need in there):
                    done[kind, rank, number] = free[rank] = tick + lengths[kind]
                    mine[kind] += 1
                    yield rank, kind, number
        tick += 1


def one_f_one_b(ranks, micro_batches):
    for rank, kind, number in ticked(ranks, micro_batches, {"F": 1, "B": 2}):
        yield np.int64(rank), kind, np.int8(number), False


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
    for rank, kind, number in ticked(ranks, micro_batches, {"F": 1, "B": 1, "W": 1}):
        yield [rank, kind, number, 0]
