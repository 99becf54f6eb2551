"""Entries of kernels/algorithms.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, update, write

FILE = "kernels/algorithms.py"
NODES = 60


# Threads race to a place or wait for each other: how often they look depends on who comes first.
_RACING = {"look_back", "breadth_first", "components", "hash_table"}


def _entry(name: str, expected, *arguments, **inputs) -> Entry:
    uncounted = "how often its threads look depends on their order" if name in _RACING else ""
    return Entry(f"algorithms/{name}", FILE, name, arguments, inputs, expected, uncounted=uncounted)


def _distances(v: dict) -> dict:
    distance = np.full(NODES, -1, np.int32)
    distance[0] = 0
    frontier = [0]
    for level in range(1, 6):
        following = []
        for node in frontier:
            for target in v["targets"][v["starts"][node] : v["starts"][node + 1]]:
                if distance[target] < 0:
                    distance[target] = level
                    following.append(target)
        frontier = following
    return {"distance": distance}


def _life(v: dict) -> dict:
    a = v["a"].astype(int)
    for _ in range(2):
        alive = sum(np.roll(a, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1)) - a
        a = ((alive == 3) | (alive == 2) & (a == 1)).astype(int)
    return {"out": a.astype(np.uint8)}


def _search(v: dict) -> dict:
    text = bytes(v["text"].astype(np.uint8))
    places = np.array([text[i : i + 4] == b"abca" for i in range(len(text))], np.int32)
    return {"found": places.sum(keepdims=True, dtype=np.int32), "places": places}


def _edit_distance(v: dict) -> dict:
    a, b = v["a"], v["b"]
    table = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i in range(len(a)):
        for j in range(len(b)):
            step = min(table[i, j + 1], table[i + 1, j]) + 1
            table[i + 1, j + 1] = min(step, table[i, j] + (a[i] != b[j]))
    return {"out": table[-1, -1:]}


def _components(v: dict) -> dict:
    parent = np.arange(v["parent"].size, dtype=np.int32)
    for _ in range(parent.size):
        for x, y in v["edges"]:
            parent[x] = parent[y] = min(parent[x], parent[y])
    return {"parent": parent}


ENTRIES: tuple[Entry, ...] = (
    _entry("look_back", lambda v: {"out": np.cumsum(v["a"], dtype=np.int32)}, read("a", "int32", 768),
           write("out", "int32", 768)),
    _entry("radix_sort", lambda v: {"out": np.sort(v["a"])}, read("a", "uint32", 256), write("out", "uint32", 256)),
    _entry("merge_sort", lambda v: {"out": np.sort(v["a"])}, read("a", "int32", 200), write("out", "int32", 200)),
    _entry("bitonic_global", lambda v: {"a": np.sort(v["a"])}, update("a", "int32", 256)),
    _entry("breadth_first", _distances, read("starts", "int32", NODES + 1), read("targets", "int32", 150),
           update("distance", "int32", NODES), read("frontier", "int32", NODES), read("count", "int32", 1),
           starts=draws.row_starts(150), targets=draws.integers(0, NODES), frontier=draws.fixed([0] * NODES),
           distance=draws.fixed([0] + [-1] * (NODES - 1)), count=draws.fixed([1])),
    _entry("life", _life, read("a", "uint8", 40, 70), write("out", "uint8", 40, 70), a=draws.integers(0, 2)),
    _entry("search", _search, read("text", "int8", 300), update("found", "int32", 1), write("places", "int32", 300),
           text=draws.integers(97, 100), found=draws.fixed([0])),
    _entry("edit_distance", _edit_distance, read("a", "int8", 40), read("b", "int8", 53), write("out", "int32", 1),
           a=draws.integers(0, 4), b=draws.integers(0, 4)),
    _entry("components", _components, read("edges", "int32", 60, 2), update("parent", "int32", 100),
           edges=draws.integers(0, 100), parent=draws.identity),
    _entry("hash_table", lambda v: {"out": np.isin(v["queries"], v["keys"]).astype(np.int32)},
           read("keys", "int32", 60), read("queries", "int32", 64), write("out", "int32", 64),
           keys=draws.integers(0, 200), queries=draws.integers(0, 200)),
)  # fmt: skip
