"""Entries of kernels/unseen_fifth/order.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_fifth", "order")
_RANDOM = np.random.default_rng(53)
_COUNTS = _RANDOM.integers(0, 9, 100)
_FAR = 1 << 20


def _sorted_pairs(v: dict) -> dict:
    words = np.sort(v["keys"].astype(np.uint64) << np.uint64(32) | v["brought"], 1)
    return {"out": (words >> np.uint64(32)).astype(np.uint32), "carried": words.astype(np.uint32)}


def _votes(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Rows of which half have one value more often than all others."""
    votes = generator.integers(0, 5, shape)
    votes[::2] = np.where(generator.random(votes[::2].shape) < 0.5, votes[::2, :1], votes[::2])
    return votes.astype(dtype)


def _elected(v: dict) -> dict:
    counts = np.array([np.bincount(row, minlength=5) for row in v["votes"]])
    return {"out": np.where(2 * counts.max(1) > v["votes"].shape[1], counts.argmax(1), -1)}


def _best_pieces(v: dict) -> dict:
    out = []
    for row in v["a"].astype(int):
        sums = np.concatenate([[0], np.cumsum(row)])
        best = max(int(sums[j] - sums[i]) for i in range(sums.size) for j in range(i + 1, sums.size))
        out.append((sums[-1], sums[1:].max(), (sums[-1] - sums[:-1]).max(), best))
    return {"out": np.array(out)}


def _waits(v: dict) -> dict:
    a = v["warmth"]
    wait = np.zeros(a.shape, int)
    for d in range(len(a) - 1):
        warmer = a[d + 1 :] > a[d]
        wait[d] = np.where(warmer.any(0), warmer.argmax(0) + 1, 0)
    return {"wait": wait}


def _parted(v: dict) -> dict:
    odd = v["a"] & 1
    places = np.argsort(1 - odd, axis=1, kind="stable")
    return {"out": np.take_along_axis(v["a"], places, 1), "odd_ones": odd.sum(1)}


def _cycles(v: dict) -> dict:
    least, length = [], []
    for row in v["following"].tolist():
        walks = []
        for start in range(len(row)):
            walk = [start]
            while row[walk[-1]] != start:
                walk.append(row[walk[-1]])
            walks.append(walk)
        least.append([min(w) for w in walks])
        length.append([len(w) for w in walks])
    return {"least": np.array(least), "length": np.array(length)}


def _permutations(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.array([generator.permutation(shape[1]) for _ in range(shape[0])], dtype)


def _ascending(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.sort(generator.integers(0, 60, shape)).astype(dtype)


def _joined(v: dict) -> dict:
    first = np.searchsorted(v["right"], v["left"], side="left")
    last = np.searchsorted(v["right"], v["left"], side="right")
    return {"matches": np.column_stack([first, last - first])}


def _prefix_sums(v: dict) -> dict:
    out = []
    for row in v["values"].astype(int):
        now, sums = row.copy(), []
        for first in range(0, len(v["queries"]), 32):
            turn = v["queries"][first : first + 32]
            sums += [now[:end].sum() for end in turn[:, 0]]
            np.add.at(now, turn[:, 0], turn[:, 1])
        out.append(sums)
    return {"out": np.array(out)}


def _queries(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.column_stack([generator.integers(0, 110, shape[0]), generator.integers(-50, 50, shape[0])]).astype(dtype)


_HEIGHTS = _RANDOM.integers(0, 60, 50)  # edges cost what is climbed and more: some less than 0, no circle
_FROM, _TO = _RANDOM.integers(0, 50, (2, 170))
_EDGE_COSTS = _RANDOM.integers(1, 40, 170) + _HEIGHTS[_TO] - _HEIGHTS[_FROM]


def _ways(v: dict) -> dict:
    ways = np.full(v["out"].shape, _FAR)
    np.fill_diagonal(ways, 0)
    for way in ways:
        for _ in range(50):
            for a, b, cost in zip(_FROM, _TO, _EDGE_COSTS, strict=True):
                if way[a] < _FAR:
                    way[b] = min(way[b], way[a] + cost)
    return {"out": ways}


def _graphs(share: float) -> draws.Draw:
    """Rows of bits of graphs in which `share` of the edges are there, both ways."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        n = shape[1]
        edges = np.triu(generator.random((shape[0], n, n)) < share, 1)
        edges |= edges.transpose(0, 2, 1)
        return (edges.astype(np.uint64) << np.arange(n, dtype=np.uint64)).sum(2, dtype=np.uint64)

    return draw


def _independent(v: dict) -> dict:
    """Nodes in the order of their numbers, each chosen if no neighbour was: what Luby's rounds come to."""
    chosen = np.zeros(v["beside"].shape, int)
    for row, beside, ranks in zip(chosen, v["beside"].tolist(), v["ranks"], strict=True):
        for node in np.argsort(ranks).tolist():
            row[node] = not any(row[k] for k in range(row.size) if beside[node] >> k & 1)
    return {"chosen": chosen}


def _closed(v: dict) -> dict:
    n = v["rows"].shape[1]
    bits = np.unpackbits(v["rows"].view(np.uint8), axis=2, bitorder="little")
    for reach in bits:
        for k in range(n):
            reach |= reach[:, k : k + 1] & reach[k]
    return {"out": np.packbits(bits, axis=2, bitorder="little").view(np.uint32)}


def _directed(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    n = shape[1]
    bits = np.zeros((shape[0], n, 64), np.uint8)
    bits[:, :, :n] = generator.random((shape[0], n, n)) < 1.3 / n
    return np.packbits(bits, axis=2, bitorder="little").view(dtype)


def _key_counts(v: dict) -> dict:
    keys = v["keys"]
    groups = [np.unique(keys[k : k + 32]).size for k in range(0, keys.size, 32)]
    return {"counts": np.bincount(keys, minlength=20), "groups": np.array(groups)}


ENTRIES: tuple[Entry, ...] = (
    _entry("odd_even_merges", _sorted_pairs, read("keys", "uint32", 3, 117), read("brought", "uint32", 3, 117),
           write("out", "uint32", 3, 117), write("carried", "uint32", 3, 117), keys=draws.integers(0, 50)),
    _entry("majorities", _elected, read("votes", "int32", 43, 29), write("out", "int32", 43), votes=_votes),
    _entry("window_maxima",
           lambda v: {"out": np.lib.stride_tricks.sliding_window_view(v["series"], 11, axis=0).max(-1)},
           read("series", "int16", 40, 70), write("out", "int16", 30, 70)),
    _entry("best_pieces", _best_pieces, read("a", "int32", 4, 150), write("out", "int32", 4, 4),
           a=draws.integers(-40, 38)),
    _entry("days_to_warmer", _waits, read("warmth", "int8", 44, 90), write("wait", "uint8", 44, 90),
           warmth=draws.integers(-20, 40)),
    _entry("stable_partition", _parted, read("a", "int32", 4, 211), write("out", "int32", 4, 211),
           write("odd_ones", "int32", 4)),
    _entry("repeat_values",
           lambda v: {"out": np.repeat(v["values"], _COUNTS),
                      "source": np.concatenate([np.arange(k) for k in _COUNTS])},
           read("values", "float32", 100), read("ends", "int32", 100), write("out", "float32", 900),
           write("source", "int32", 900), ends=draws.fixed(np.cumsum(_COUNTS))),
    _entry("cycles", _cycles, read("following", "uint8", 4, 101), write("least", "uint8", 4, 101),
           write("length", "uint8", 4, 101), following=_permutations),
    _entry("join_sorted", _joined, read("left", "int32", 170), read("right", "int32", 140),
           write("matches", "int32", 170, 2), left=_ascending, right=_ascending),
    _entry("fenwick", _prefix_sums, read("values", "int32", 3, 110), read("queries", "int32", 75, 2),
           write("out", "int32", 3, 75), values=draws.integers(-100, 100), queries=_queries),
    _entry("bellman_ford", _ways, read("sources", "int32", 170), read("targets", "int32", 170),
           read("costs", "int32", 170), write("out", "int32", 4, 50), sources=draws.fixed(_FROM),
           targets=draws.fixed(_TO), costs=draws.fixed(_EDGE_COSTS)),
    _entry("independent_set", _independent, read("beside", "uint64", 3, 60), read("ranks", "uint16", 3, 60),
           write("chosen", "uint8", 3, 60), beside=_graphs(0.1), ranks=_permutations),
    _entry("closure", _closed, read("rows", "uint32", 4, 57, 2), write("out", "uint32", 4, 57, 2), rows=_directed),
    _entry("count_keys", _key_counts, read("keys", "int32", 450), update("counts", "int32", 20),
           write("groups", "int32", 15), keys=draws.integers(0, 20), counts=draws.zeros),
)  # fmt: skip
