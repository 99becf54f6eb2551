"""Entries of kernels/unseen_third/order.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_third", "order")
_FAR = 2**31 - 1
_LEAVES = 64
_SLOTS = 101


def _variances(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    return {"out": np.stack([a.mean(1), a.var(1, ddof=1)], 1)}


def _smallest(v: dict) -> dict:
    sizes = np.abs(v["a"])
    at = int(sizes.argmin())
    return {"best": np.array([int(sizes[at : at + 1].view(np.uint32)[0]) << 32 | at], np.uint64)}


def _maxima(v: dict) -> dict:
    lowest = -(2**63)
    spans = zip(v["starts"], v["starts"][1:], strict=False)
    return {"out": np.array([max(v["a"][i:j].tolist(), default=lowest) for i, j in spans], np.int64)}


def _items(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Keys, many of them equal, as the bits of float32, and values."""
    keys = generator.integers(-40, 40, shape[:-1]).astype(np.float32).view(np.int32)
    return np.stack([keys, generator.integers(-1000, 1000, shape[:-1])], -1).astype(dtype)


def _sorted_items(v: dict) -> dict:
    rows = []
    for block in v["items"].reshape(-1, 256, 2):
        rows.append(block[np.lexsort((block[:, 1], np.ascontiguousarray(block[:, 0]).view(np.float32)))])
    return {"out": np.concatenate(rows)}


def _few_high_bits(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.integers(0, 3, shape) << 24 | generator.integers(0, 2**18, shape)).astype(dtype)


def _joint(v: dict) -> dict:
    return {"out": np.bincount((v["a"] >> 4).astype(int) * 16 + (v["b"] >> 4), minlength=256).astype(np.uint32)}


def _set(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.sort(generator.choice(500, shape, replace=False)).astype(dtype)


def _common(v: dict) -> dict:
    both, out = np.intersect1d(v["a"], v["b"]), v["out"].copy()
    out[: both.size] = both
    return {"out": out, "count": np.array([both.size], np.int32)}


def _inverted(v: dict) -> dict:
    a = v["a"]
    return {"total": np.array([np.triu(a[:, None] > a[None, :], 1).sum()], np.uint64)}


def _nearest(v: dict) -> dict:
    d = ((v["queries"][:, None].astype(int) - v["points"].astype(int)) ** 2).sum(-1)
    return {"out": np.sort(d, 1)[:, :5]}


def _parted(v: dict) -> dict:
    blocks = v["a"].reshape(-1, 128)
    out = [np.concatenate([b[b < 2], b[b == 2], b[b > 2]]) for b in blocks]
    return {"out": np.concatenate(out), "splits": np.stack([(blocks < 2).sum(1), (blocks <= 2).sum(1)], 1)}


def _list(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The next one of each member of two lists."""
    order, next_ = generator.permutation(shape[0]), np.full(shape, -1)
    next_[order[:-1]] = order[1:]
    next_[order[50]] = -1
    return next_.astype(dtype)


def _ranks(v: dict) -> dict:
    ranks = []
    for at in v["next"]:
        rank = 0
        while at >= 0:
            at, rank = v["next"][at], rank + 1
        ranks.append(rank)
    return {"rank": np.array(ranks)}


def _ways(v: dict) -> dict:
    now, following = v["now"].astype(np.int64), v["next"].astype(np.int64)
    for _ in range(4):
        through = np.where(now[v["start"]] < _FAR, now[v["start"]] + v["weight"], _FAR)
        np.minimum.at(following, v["end"], through)
        now, following = following, now
    return {"now": now, "next": following}


def _undirected(nodes: int, chance: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and targets of a random graph."""
    table = np.triu(np.random.default_rng(seed).random((nodes, nodes)) < chance, 1)
    table |= table.T
    return np.r_[0, np.cumsum(table.sum(1))], np.nonzero(table)[1]


def _coloured(v: dict) -> dict:
    n = v["colour"].size
    hashed = np.arange(n, dtype=np.uint64) * 2654435761 % 2**32
    priority = (hashed ^ hashed >> 15).tolist()
    now, before = [-1] * n, [-1] * n
    for _ in range(6):
        before, now = now, list(now)
        for node in range(n):
            around = v["targets"][v["starts"][node] : v["starts"][node + 1]].tolist()
            free = all(before[u] >= 0 or priority[u] < priority[node] for u in around)
            if before[node] < 0 and free:
                now[node] = min(set(range(32)) - {before[u] for u in around})
    return {"colour": np.array(now), "other": np.array(before)}


def _core(v: dict) -> dict:
    state, degree = v["state"].copy(), v["degree"].copy()
    for _ in range(4):
        state = np.where(state == 2, 0, np.where((state == 1) & (degree < 5), 2, state))
        for node in np.flatnonzero(state == 2):
            degree[v["targets"][v["starts"][node] : v["starts"][node + 1]]] -= 1
    return {"state": state.astype(np.int32), "degree": degree}


def _pushed(v: dict) -> dict:
    out = v["next"].copy()
    x, y = v["edges"].T
    np.add.at(out, y, v["rank"][x] // v["degree"][x].astype(np.uint64))
    return {"next": out}


def _cuckoo(seed: int) -> np.ndarray:
    """A table of two halves with keys below 1000 and values; free places have a key that nobody asks for."""
    generator = np.random.default_rng(seed)
    places = [[2**32 - 1, 0] for _ in range(2 * _SLOTS)]
    for key in generator.choice(1000, 80, replace=False).tolist():
        first, second = (key ^ 0x9E3779B9) % _SLOTS, _SLOTS + (key * 31 + 7) % _SLOTS
        for at in (first, second):
            if places[at][0] == 2**32 - 1:
                places[at] = [key, int(generator.integers(0, 10**6))]
                break
    return np.array(places)


def _found(v: dict) -> dict:
    values = dict(v["table"].tolist())
    return {"out": np.array([values.get(query, 2**32 - 1) for query in v["queries"].tolist()], np.uint32)}


def _span_tree() -> np.ndarray:
    """Intervals as the leaves of a tree whose nodes span what is below them; node 0 is not used."""
    generator = np.random.default_rng(11)
    tree = np.zeros((2 * _LEAVES, 2), np.float32)
    low = np.sort(generator.random(_LEAVES))
    tree[_LEAVES:] = np.stack([low, low + generator.random(_LEAVES) * 0.1], 1)
    for node in range(_LEAVES - 1, 0, -1):
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = min(left[0], right[0]), max(left[1], right[1])
    return tree


def _queried(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    low = generator.uniform(-0.2, 1.2, shape[0])
    return np.stack([low, low + generator.uniform(0, 0.05, shape[0])], 1).astype(dtype)


def _stabbed(v: dict) -> dict:
    leaves, asked = v["spans"][_LEAVES:], v["queries"][:, None]
    return {"out": ((leaves[:, 0] <= asked[..., 1]) & (leaves[:, 1] >= asked[..., 0])).sum(1)}


def _forest() -> tuple[np.ndarray, np.ndarray]:
    """Nodes of random trees (feature or -1, bits of a threshold or value, two children) and their roots."""
    generator = np.random.default_rng(3)
    nodes: list[list[int]] = []

    def bits(x: float) -> int:
        return int(np.float32(x).view(np.int32))

    def grow(depth: int) -> int:
        at = len(nodes)
        nodes.append([-1, bits(generator.standard_normal()), 0, 0])
        if depth < 2 or (depth < 6 and generator.random() < 0.7):
            left, right = grow(depth + 1), grow(depth + 1)
            nodes[at] = [int(generator.integers(0, 7)), bits(generator.standard_normal() * 0.7), left, right]
        return at

    roots = [grow(0) for _ in range(5)]
    return np.array(nodes), np.array(roots)


def _decided(v: dict) -> dict:
    numbers = np.ascontiguousarray(v["nodes"][:, 1]).view(np.float32).astype(np.float64)
    out = []
    for row in v["features"]:
        total = 0.0
        for at in v["roots"]:
            while v["nodes"][at, 0] >= 0:
                feature, _, left, right = v["nodes"][at]
                at = left if row[feature] < numbers[at] else right
            total += numbers[at]
        out.append(total)
    return {"out": np.array(out)}


_STARTS, _TARGETS = _undirected(150, 0.04, 5)
_DEGREE = np.diff(_STARTS)
_NODES, _ROOTS = _forest()
_GRAPH = (read("starts", "int32", 151), read("targets", "int32", _TARGETS.size))
_DRAWN_GRAPH = {"starts": draws.fixed(_STARTS), "targets": draws.fixed(_TARGETS)}
_START = draws.fixed(np.where(np.arange(90) == 17, 0, _FAR))

ENTRIES: tuple[Entry, ...] = (
    _entry("join_variances", _variances, read("a", "float32", 7, 75), write("out", "float32", 7, 2), tolerance=1e-5,
           a=draws.uniform(2, 5)),
    _entry("smallest_place", _smallest, read("a", "float32", 500), update("best", "uint64", 1),
           best=draws.fixed([2**64 - 1])),
    _entry("half_dot", lambda v: {"out": (v["a"].astype(np.float64) * v["b"]).sum(keepdims=True)},
           read("a", "float16", 1237), read("b", "float16", 1237), write("out", "float32", 1), tolerance=1e-4,
           a=draws.uniform(0, 1), b=draws.uniform(0, 1)),
    _entry("segment_maxima", _maxima, read("a", "int64", 700), read("starts", "int32", 14), write("out", "int64", 13),
           starts=draws.row_starts(700)),
    _entry("sort_eights", lambda v: {"out": np.sort(v["a"], 1)}, read("a", "int32", 77, 8),
           write("out", "int32", 77, 8)),
    _entry("sort_items", _sorted_items, read("items", "int32", 512, 2), write("out", "int32", 512, 2), items=_items),
    _entry("kth_smallest", lambda v: {"out": np.sort(v["a"], 1)[:, 70]}, read("a", "uint32", 3, 205),
           write("out", "uint32", 3), a=_few_high_bits),
    _entry("joint_histogram", _joint, read("a", "uint8", 905), read("b", "uint8", 905), update("out", "uint32", 256),
           out=draws.zeros),
    _entry("intersect", _common, read("a", "int32", 240), read("b", "int32", 190), write("out", "int32", 240),
           write("count", "int32", 1), a=_set, b=_set),
    _entry("inversions", _inverted, read("a", "int16", 301), update("total", "uint64", 1), total=draws.zeros),
    _entry("nearest_five", _nearest, read("points", "int32", 140, 2), read("queries", "int32", 50, 2),
           write("out", "int32", 50, 5), points=draws.integers(-200, 200), queries=draws.integers(-200, 200)),
    _entry("three_ways", _parted, read("a", "int32", 384), write("out", "int32", 384), write("splits", "int32", 3, 2),
           a=draws.integers(-1, 6)),
    _entry("list_ranks", _ranks, read("next", "int32", 203), write("rank", "int32", 203), next=_list),
    _entry("shortest_ways", _ways, read("start", "int32", 380), read("end", "int32", 380), read("weight", "int32", 380),
           update("now", "int32", 90), update("next", "int32", 90), start=draws.integers(0, 90),
           end=draws.integers(0, 90), weight=draws.integers(1, 50), now=_START, next=_START),
    _entry("colour_graph", _coloured, *_GRAPH, update("colour", "int32", 150), update("other", "int32", 150),
           colour=draws.fixed([-1] * 150), other=draws.fixed([-1] * 150), **_DRAWN_GRAPH),
    _entry("thick_core", _core, *_GRAPH, update("degree", "int32", 150), update("state", "int32", 150),
           degree=draws.fixed(_DEGREE), state=draws.fixed([1] * 150), **_DRAWN_GRAPH),
    _entry("push_ranks", _pushed, read("edges", "int32", 430, 2), read("degree", "int32", 90),
           read("rank", "uint64", 90), update("next", "uint64", 90), edges=draws.integers(0, 90),
           degree=draws.integers(1, 9), rank=draws.integers(0, 2**40), next=draws.integers(0, 2**20)),
    _entry("chained_counts", lambda v: {"out": (v["queries"][:, None] == v["keys"]).sum(1)},
           read("keys", "uint32", 250), read("queries", "uint32", 170), write("out", "int32", 170),
           keys=draws.integers(0, 120), queries=draws.integers(0, 150),
           uncounted="which keys are read together depends on the order of its chains"),
    _entry("cuckoo_find", _found, read("table", "uint32", 2 * _SLOTS, 2), read("queries", "uint32", 230),
           write("out", "uint32", 230), table=draws.fixed(_cuckoo(2)), queries=draws.integers(0, 1000)),
    _entry("stab_tree", _stabbed, read("spans", "float32", 2 * _LEAVES, 2), read("queries", "float32", 100, 2),
           write("out", "int32", 100), spans=draws.fixed(_span_tree()), queries=_queried),
    _entry("decide", _decided, read("features", "float32", 105, 7), read("nodes", "int32", *_NODES.shape),
           read("roots", "int32", 5), write("out", "float32", 105), nodes=draws.fixed(_NODES),
           roots=draws.fixed(_ROOTS)),
)  # fmt: skip
