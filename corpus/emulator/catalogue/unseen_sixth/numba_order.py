"""Entries of kernels/unseen_sixth/numba_order.py."""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, write

_entry = maker("unseen_sixth", "numba_order", "numba_")


def _last(v: dict) -> dict:
    out = []
    for n, stride in zip(v["sizes"].tolist(), v["strides"].tolist(), strict=True):
        ring, at = list(range(n)), 0
        while len(ring) > 1:
            at = (at + stride - 1) % len(ring)
            ring.pop(at)
        out.append(ring[0])
    return {"out": np.array(out)}


def _orders(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Orders of some values that may be alike."""
    return (generator.integers(0, 7, shape) + generator.integers(0, 3, shape[1])).astype(dtype)


def _next_orders(v: dict) -> dict:
    out = []
    for order, steps in zip(v["orders"].T.tolist(), v["steps"].tolist(), strict=True):
        for _ in range(steps):
            rises = [k for k in range(len(order) - 1) if order[k] < order[k + 1]]
            if not rises:
                order = sorted(order)
                continue
            head, tail = order[: rises[-1]], order[rises[-1] :]
            least = min(c for c in tail if c > tail[0])
            rest = sorted(tail)
            rest.remove(least)
            order = [*head, least, *rest]
        out.append(order)
    return {"out": np.array(out).T}


def _nested(v: dict) -> dict:
    out = []
    for row in v["lines"].tolist():
        best = 0
        for start in range(len(row)):
            depth = 0
            for k in range(start, len(row)):
                depth += 1 if row[k] == 40 else -1
                if depth < 0:
                    break
                if depth == 0:
                    best = max(best, k + 1 - start)
        out.append(best)
    return {"out": np.array(out)}


def _boards(v: dict) -> dict:
    h = v["heights"].astype(int)
    pairs = itertools.combinations(range(len(h) + 1), 2)
    return {"out": np.max([h[a:b].min(0) * (b - a) for a, b in pairs], 0)}


def _held(v: dict) -> dict:
    walls = v["walls"].astype(int)
    left = np.maximum.accumulate(walls, 1)
    right = np.maximum.accumulate(walls[:, ::-1], 1)[:, ::-1]
    return {"out": (np.minimum(left, right) - walls).sum(1)}


def _wrapped(v: dict) -> dict:
    out = []
    for words in v["lengths"].tolist():
        cost = [0] + [10**9] * len(words)
        for end in range(1, len(words) + 1):
            for start in range(end):
                left = 30 - sum(words[start:end]) - (end - start - 1)
                if left >= 0:
                    cost[end] = min(cost[end], cost[start] + (left**2 if end < len(words) else 0))
        out.append(cost[-1])
    return {"out": np.array(out)}


def _letters(v: dict) -> dict:
    target = sorted(v["target"].tolist())
    return {"out": np.array([sorted(word) == target for word in v["words"].tolist()], int)}


_TARGET = list(b"relations")


def _anagrams(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Half of them have one letter changed."""
    rows = np.array([generator.permutation(_TARGET) for _ in range(shape[0])])
    rows[::2, generator.integers(0, shape[1])] = generator.integers(97, 123, rows[::2].shape[0])
    return rows.astype(dtype)


def _moves(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Up to six numbers that may be taken, as bits from 1 on."""
    rows = [np.unique(generator.integers(0, 14, 6)) for _ in range(shape[0])]
    return np.array([(1 << row).sum() for row in rows], dtype)


def _nimbers(v: dict) -> dict:
    out = []
    for mask in v["moves"].tolist():
        takes = [k + 1 for k in range(32) if mask >> k & 1]
        values: list[int] = []
        for heap in range(40):
            seen = {values[heap - take] for take in takes if take <= heap}
            values.append(next(k for k in range(9) if k not in seen))
        total = 0
        for value in values:
            total = (total * 5 + value) % 2**32
        out.append(total)
    return {"out": np.array(out)}


def _fours(v: dict) -> dict:
    """Columns of seven bits, of which six are squares."""
    bits = v["boards"][:, :, None] >> np.arange(49, dtype=np.uint64) & np.uint64(1)
    grid = bits.reshape(-1, 2, 7, 7).astype(int)
    won = np.zeros(grid.shape[:2], bool)
    for c, r, dc, dr in itertools.product(range(7), range(7), (0, 1), (-1, 0, 1)):
        if (dc, dr) in ((0, 0), (0, -1)) or c + 3 * dc > 6 or not 0 <= r + 3 * dr <= 6:
            continue
        won |= sum(grid[:, :, c + k * dc, r + k * dr] for k in range(4)) == 4
    return {"out": won @ np.array([1, 2])}


def _played(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    boards = np.zeros(shape, np.uint64)
    for board in boards:
        owner = generator.integers(0, 3, 49)
        for k in range(49):
            if k % 7 != 6 and owner[k] < 2:
                board[owner[k]] |= np.uint64(1) << np.uint64(k)
    return boards.astype(dtype)


def _mazes(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    walls = generator.random(shape) < np.linspace(0.15, 0.4, shape[0])[:, None, None]
    walls[:-1, 0, 0] = False
    walls[-1, 0, 0] = True
    return walls.astype(dtype)


def _left(v: dict) -> dict:
    out = []
    for walls in v["walls"]:
        far = np.where(walls, -2, -1)
        front = {(0, 0)} if far[0, 0] == -1 else set()
        step = 0
        while front:
            for at in front:
                far[at] = step
            near = {(y + dy, x + dx) for y, x in front for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))}
            front = {(y, x) for y, x in near if 0 <= y < 16 and 0 <= x < 16 and far[y, x] == -1}
            step += 1
        out.append(far)
    return {"out": np.array(out)}


def _land(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    share = generator.uniform(0, 0.8, (*shape, 1))
    bits = generator.random((*shape, 64)) < share
    return (bits.astype(np.uint64) << np.arange(64, dtype=np.uint64)).sum(-1).astype(dtype)


def _islands(v: dict) -> dict:
    counts, largest = [], []
    for word in v["maps"].tolist():
        label = {divmod(k, 8): k for k in range(64) if word >> k & 1}
        changed = True
        while changed:
            changed = False
            for y, x in label:
                least = min(label.get(at, 99) for at in ((y, x), (y, x + 1), (y, x - 1), (y + 1, x), (y - 1, x)))
                changed |= least < label[y, x]
                label[y, x] = least
        names = list(label.values())
        counts.append(len(set(names)))
        largest.append(max((names.count(name) for name in set(names)), default=0))
    return {"counts": np.array(counts), "largest": np.array(largest)}


def _weights(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.sort((generator.exponential(1, shape) ** 3 * 50).astype(int) + 1, 0).astype(dtype)


def _shortest_codes(v: dict) -> dict:
    out = []
    for row in v["weights"].T.tolist():
        heap, bits = row[:], 0
        heapq.heapify(heap)
        while len(heap) > 1:
            both = heapq.heappop(heap) + heapq.heappop(heap)
            bits += both
            heapq.heappush(heap, both)
        out.append(bits)
    return {"out": np.array(out)}


def _common(v: dict) -> dict:
    counted = [np.bincount(row, minlength=9) for row in v["votes"]]
    return {"out": np.array([c.argmax() for c in counted]), "counts": np.array([(c > 0).sum() for c in counted])}


ENTRIES: tuple[Entry, ...] = (
    _entry("merge_sort", lambda v: {"out": np.sort(v["rows"], 1)}, read("rows", "int32", 75, 27),
           write("out", "int32", 75, 27)),
    _entry("last_ones", _last, read("sizes", "int32", 150), read("strides", "int32", 150), write("out", "int32", 150),
           sizes=draws.integers(1, 60), strides=draws.integers(1, 12)),
    _entry("next_orders", _next_orders, read("orders", "int16", 9, 85), read("steps", "int32", 85),
           write("out", "int16", 9, 85), orders=_orders, steps=draws.integers(0, 14)),
    _entry("longest_nesting", _nested, read("lines", "uint8", 160, 40), write("out", "int32", 160),
           lines=draws.integers(40, 42)),
    _entry("largest_boards", _boards, read("heights", "int32", 32, 120), write("out", "int32", 120),
           heights=draws.integers(0, 40)),
    _entry("held_water", _held, read("walls", "uint8", 110, 50), write("out", "int64", 110)),
    _entry("wrap_words", _wrapped, read("lengths", "int32", 5, 60), write("out", "int32", 5),
           lengths=draws.integers(1, 12)),
    _entry("same_letters", _letters, read("words", "uint8", 220, 9), read("target", "uint8", 9),
           write("out", "uint8", 220), words=_anagrams, target=draws.fixed(_TARGET)),
    _entry("nimbers", _nimbers, read("moves", "uint32", 130), write("out", "uint32", 130), moves=_moves),
    _entry("four_in_a_row", _fours, read("boards", "uint64", 200, 2), write("out", "int32", 200), boards=_played),
    _entry("leave_maze", _left, read("walls", "uint8", 5, 16, 16), write("out", "int32", 5, 16, 16), walls=_mazes),
    _entry("islands", _islands, read("maps", "uint64", 75), write("counts", "int32", 75),
           write("largest", "int32", 75), maps=_land),
    _entry("code_lengths", _shortest_codes, read("weights", "int32", 16, 80), write("out", "int32", 80),
           weights=_weights),
    _entry("most_common", _common, read("votes", "int32", 17, 32), write("out", "int32", 17),
           write("counts", "int32", 17), votes=draws.integers(0, 9)),
)  # fmt: skip
