"""Entries of kernels/unseen_fourth/numba_order.py."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_fourth", "numba_order", "numba_")
_LONG = 2**64 - 1


def _selected(v: dict) -> dict:
    return {"out": np.sort(v["a"], 1)[np.arange(len(v["a"])), v["ranks"]]}


def _found(v: dict) -> dict:
    text, counts, last = v["text"].tobytes(), [], []
    for begin in range(0, len(text), 10):
        places = [i for i in range(begin, begin + 10) if text[i : i + 7] == b"abacaba"]
        counts.append(len(places))
        last.append(places[-1] if places else -1)
    return {"counts": np.array(counts), "last": np.array(last)}


def _near_words(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The word and beginnings of it, some of which overlap."""
    text = b"".join(b"abacabacababc"[:k] for k in generator.integers(4, 14, 300))
    return np.frombuffer(text[: shape[0]], dtype)


def _longest(v: dict) -> dict:
    lengths = []
    for column in v["a"].T.tolist():
        ends: list[int] = []
        for x in column:
            at = bisect_left(ends, x)
            ends[at : at + 1] = [x]
        lengths.append(len(ends))
    return {"out": np.array(lengths)}


def _grids(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Right ones with renamed numbers, every other one with two numbers of a row exchanged."""
    y, x = np.mgrid[0:9, 0:9]
    grids = np.stack([generator.permutation(9)[(3 * (y % 3) + y // 3 + x) % 9] + 1 for _ in range(shape[0])])
    grids[1::2, 4, [2, 7]] = grids[1::2, 4, [7, 2]]
    return grids


def _right(v: dict) -> dict:
    whole = set(range(1, 10))
    right = []
    for g in v["grids"]:
        boxes = [g[y : y + 3, x : x + 3].ravel() for y in (0, 3, 6) for x in (0, 3, 6)]
        right.append(all(set(part.tolist()) == whole for part in (*g, *g.T, *boxes)))
    return {"right": np.array(right, np.int8)}


def _fired(v: dict) -> dict:
    cells = [v["cells"].astype(int)]
    for _ in range(4):
        a = cells[-1]
        firing = sum(np.roll(a == 1, (j, i), (0, 1)) for j in (-1, 0, 1) for i in (-1, 0, 1) if i or j)
        cells.append(np.where(a == 1, 2, np.where(a == 2, 0, firing == 2)))
    return {"cells": cells[4], "other": cells[3]}


def _forest(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Some vertices are their own parents, the others' parents are near and before them."""
    i = np.arange(shape[1])
    return np.where(generator.random(shape) < 0.05, i, np.maximum(i - generator.integers(1, 6, shape), 0))


def _rooted(v: dict) -> dict:
    root, depth = v["parent"].copy(), np.zeros(v["parent"].shape, int)
    for parents, roots, depths in zip(v["parent"], root, depth, strict=True):
        for i, p in enumerate(parents):
            if p != i:
                roots[i], depths[i] = roots[p], depths[p] + 1
    return {"root": root, "depth": depth}


def _alike(v: dict) -> dict:
    sets = [set(v["targets"][a:b].tolist()) for a, b in zip(v["starts"], v["starts"][1:], strict=False)]
    pairs = [(sets[a], sets[b]) for a, b in v["pairs"]]
    return {"both": np.array([len(a & b) for a, b in pairs]), "either": np.array([len(a | b) for a, b in pairs])}


def _neighbours(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.concatenate([np.sort(generator.choice(60, 9, replace=False)) for _ in range(shape[0] // 9)])


def _highest(v: dict) -> dict:
    out = v["a"].copy()
    for row, heads in zip(out, v["heads"], strict=True):
        for i in range(1, row.size):
            if not heads[i]:
                row[i] = max(row[i], row[i - 1])
    return {"out": out}


def _min_hashes(v: dict) -> dict:
    rows = []
    for begin, end in zip(v["starts"], v["starts"][1:], strict=False):
        row = []
        for factor in v["factors"].tolist():
            hashes = [m * factor & _LONG for m in v["members"][begin:end].tolist()]
            row.append(min((x ^ x >> 29 for x in hashes), default=_LONG))
        rows.append(row)
    return {"out": np.array(rows, np.uint64)}


def _moves(v: dict) -> dict:
    steps = [(j, i) for j in (-2, -1, 1, 2) for i in (-2, -1, 1, 2) if abs(i) != abs(j)]
    out = []
    for start, goal in zip(v["starts"].tolist(), v["goals"].tolist(), strict=True):
        reached, moves = {divmod(start, 8)}, 0
        while divmod(goal, 8) not in reached:
            near = {(y + j, x + i) for y, x in reached for j, i in steps}
            reached |= {(y, x) for y, x in near if 0 <= y < 8 and 0 <= x < 8}
            moves += 1
        out.append(moves)
    return {"out": np.array(out)}


def _reports(v: dict) -> dict:
    names = ("added", "less", "low", "high", "all_bits", "any_bits", "odd_bits")
    forms = (np.add, np.subtract, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    results = {name: v[name].copy() for name in names}
    for name, form in zip(names, forms, strict=True):
        form.at(results[name], v["keys"], v["values"])
    return results


_REPORTS = [update(name, "int32", 16) for name in ("added", "less", "low", "high", "all_bits", "any_bits", "odd_bits")]

ENTRIES: tuple[Entry, ...] = (
    _entry("counting_sort", lambda v: {"out": np.argsort(v["a"], 1, kind="stable")}, read("a", "uint8", 3, 250),
           write("out", "int32", 3, 250), a=draws.integers(0, 32)),
    _entry("heap_sort", lambda v: {"out": np.sort(v["a"], 0)}, read("a", "int64", 18, 90),
           write("out", "int64", 18, 90), a=draws.integers(-50, 50)),
    _entry("quick_select", _selected, read("a", "int32", 90, 21), read("ranks", "int32", 90), write("out", "int32", 90),
           a=draws.integers(-30, 30), ranks=draws.integers(0, 21)),
    _entry("find_words", _found, read("text", "uint8", 1000), write("counts", "int32", 100),
           write("last", "int32", 100), text=_near_words),
    _entry("longest_rise", _longest, read("a", "int32", 40, 100), write("out", "int32", 100),
           a=draws.integers(0, 100)),
    _entry("check_grids", _right, read("grids", "uint8", 9, 9, 9), write("right", "int8", 9), grids=_grids),
    _entry("brain", _fired, update("cells", "uint8", 20, 45), write("other", "uint8", 20, 45),
           cells=draws.integers(0, 3)),
    _entry("find_roots", _rooted, read("parent", "int32", 4, 128), write("root", "int32", 4, 128),
           write("depth", "int32", 4, 128), parent=_forest),
    _entry("alike", _alike, read("starts", "int32", 51), read("targets", "int32", 450), read("pairs", "int32", 170, 2),
           write("both", "int32", 170), write("either", "int32", 170), starts=draws.fixed(9 * np.arange(51)),
           targets=_neighbours, pairs=draws.integers(0, 50)),
    _entry("highest_so_far", _highest, read("a", "int32", 4, 128), read("heads", "uint8", 4, 128),
           write("out", "int32", 4, 128), heads=lambda g, shape, dtype: g.random(shape) < 0.03),
    _entry("min_hashes", _min_hashes, read("starts", "int32", 20), read("members", "uint32", 240),
           read("factors", "uint64", 16), write("out", "uint64", 19, 16), starts=draws.row_starts(240)),
    _entry("knight_moves", _moves, read("starts", "uint8", 180), read("goals", "uint8", 180),
           write("out", "uint8", 180), starts=draws.integers(0, 64), goals=draws.integers(0, 64)),
    _entry("reports", _reports, read("keys", "int32", 700), read("values", "int32", 700), *_REPORTS,
           keys=draws.integers(0, 16), values=draws.integers(-(2**24), 2**24)),
)  # fmt: skip
