"""Entries of kernels/unseen_fourth/order.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_fourth", "order")
_NODES = 250
_RANDOM = np.random.default_rng(4)


def _as_tree(ordered: np.ndarray) -> np.ndarray:
    """The sorted values as a search tree: the children of place i are at 2i and 2i + 1; place 0 is unused."""
    tree, left = np.zeros(ordered.size + 1, ordered.dtype), iter(ordered)

    def fill(node: int) -> None:
        if node < tree.size:
            fill(2 * node)
            tree[node] = next(left)
            fill(2 * node + 1)

    fill(1)
    return tree


_EDGES = np.sort(_RANDOM.integers(0, 2**32, 15)).astype(np.uint32)
_WORDS = np.unique(_RANDOM.integers(-(10**12), 10**12, 200))


def _bucketed(v: dict) -> dict:
    out, ends = [], []
    for row in v["a"]:
        bucket = np.searchsorted(_EDGES, row, side="right")
        out.append(row[np.argsort(bucket, kind="stable")])
        ends.append(np.cumsum(np.bincount(bucket, minlength=16)))
    return {"out": np.array(out, np.uint32), "ends": np.array(ends)}


_TASKS = np.sort(_RANDOM.integers(0, 120, (260, 2)), 1)
_TASKS = np.array(sorted(_TASKS[_TASKS[:, 0] // 12 < _TASKS[:, 1] // 12].tolist()))


def _waited(v: dict) -> dict:
    level = np.zeros(120, int)
    for a, b in _TASKS:  # sorted by where they begin, which is before where they end
        level[b] = max(level[b], level[a] + 1)
    return {"level": np.where(level < 6, level, -1)}


def _trees(v: dict) -> dict:
    chosen = v["chosen"].copy()
    for a, b, weight, row in zip(v["sources"], v["targets"], v["weights"], chosen, strict=True):
        group = np.arange(90)
        for e in np.argsort(weight, kind="stable"):
            if group[a[e]] != group[b[e]]:
                group[group == group[a[e]]] = group[b[e]]
                row[e] = 1
    return {"chosen": chosen}


def _bounds(v: dict) -> dict:
    """Where each query's lower bound is in the tree; 0 if all values are less."""
    places = dict(zip(v["tree"][1:].tolist(), range(1, v["tree"].size), strict=True))
    bounds = np.searchsorted(_WORDS, v["queries"])
    return {"out": np.array([places[int(_WORDS[b])] if b < _WORDS.size else 0 for b in bounds])}


def _minima(v: dict) -> dict:
    return {"out": np.array([[row[b:e].min() for b, e in r] for row, r in zip(v["a"], v["ranges"], strict=True)])}


def _ranges(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.sort(generator.integers(0, 128, shape), -1) + [0, 1]


def _by_axes(points: np.ndarray) -> np.ndarray:
    """127 points as a tree: the children of i are at 2i + 1 and 2i + 2; every other level is split by y."""
    nodes = np.zeros_like(points)

    def fill(node: int, own: np.ndarray, axis: int) -> None:
        own = own[np.argsort(own[:, axis])]
        middle = len(own) // 2
        nodes[node] = own[middle]
        if middle:
            fill(2 * node + 1, own[:middle], 1 - axis)
            fill(2 * node + 2, own[middle + 1 :], 1 - axis)

    fill(0, points, 0)
    return nodes


def _nearest(v: dict) -> dict:
    return {"out": ((v["queries"][:, None] - v["nodes"]) ** 2).sum(-1).min(1).astype(np.int64)}


_UP = np.r_[0, [_RANDOM.integers(max(0, i - 12), i) for i in range(1, _NODES)]]
_DEPTH = np.zeros(_NODES, int)
for _i in range(1, _NODES):
    _DEPTH[_i] = _DEPTH[_UP[_i]] + 1


def _jumps() -> np.ndarray:
    jumps = [_UP]
    for _ in range(5):
        jumps.append(jumps[-1][jumps[-1]])
    return np.array(jumps)


def _ancestors(v: dict) -> dict:
    out = []
    for a, b in v["pairs"].tolist():
        while a != b:
            a, b = (_UP[a], b) if a > b else (a, _UP[b])
        out.append(a)
    return {"out": np.array(out, np.uint8)}


ENTRIES: tuple[Entry, ...] = (
    _entry("fill_buckets", _bucketed, read("a", "uint32", 3, 500), read("tree", "uint32", 16),
           write("out", "uint32", 3, 500), write("ends", "int32", 3, 16), tree=draws.fixed(_as_tree(_EDGES))),
    _entry("split_sort", lambda v: {"out": np.sort(v["a"], 1)}, read("a", "uint16", 3, 160),
           write("out", "uint16", 3, 160), a=draws.integers(0, 1024)),
    _entry("task_levels", _waited, read("starts", "int32", 121), read("targets", "int32", len(_TASKS)),
           update("waits", "int32", 120), update("level", "int32", 120),
           starts=draws.fixed(np.searchsorted(_TASKS[:, 0], np.arange(121))), targets=draws.fixed(_TASKS[:, 1]),
           waits=draws.fixed(np.bincount(_TASKS[:, 1], minlength=120)), level=draws.fixed(np.full(120, -1))),
    _entry("spanning_tree", _trees, read("sources", "int32", 2, 240), read("targets", "int32", 2, 240),
           read("weights", "int32", 2, 240), update("chosen", "uint32", 2, 240), sources=draws.integers(0, 90),
           targets=draws.integers(0, 90), weights=draws.integers(0, 50), chosen=draws.zeros),
    _entry("merge_six", lambda v: {"out": np.sort(v["runs"].reshape(54, -1), 0)}, read("runs", "int32", 6, 9, 100),
           write("out", "int32", 54, 100), runs=lambda g, shape, dtype: np.sort(g.integers(0, 200, shape), 1)),
    _entry("tree_bounds", _bounds, read("tree", "int64", _WORDS.size + 1),
           read("queries", "int64", 250), write("out", "int32", 250), tree=draws.fixed(_as_tree(_WORDS)),
           queries=lambda g, shape, dtype: np.r_[g.choice(_WORDS, 100), g.integers(-(10**12), 10**12, 150)]),
    _entry("range_minima", _minima, read("a", "int32", 4, 128), read("ranges", "int32", 4, 200, 2),
           write("out", "int32", 4, 200), ranges=_ranges),
    _entry("nearest_in_tree", _nearest, read("nodes", "int32", 127, 2), read("queries", "int32", 150, 2),
           write("out", "int32", 150), nodes=draws.fixed(_by_axes(_RANDOM.integers(0, 1000, (127, 2)))),
           queries=draws.integers(-100, 1100)),
    _entry("common_ancestors", _ancestors, read("jumps", "uint8", 6, _NODES), read("depth", "uint8", _NODES),
           read("pairs", "uint8", 240, 2), write("out", "uint8", 240), jumps=draws.fixed(_jumps()),
           depth=draws.fixed(_DEPTH), pairs=draws.integers(0, _NODES)),
)  # fmt: skip
