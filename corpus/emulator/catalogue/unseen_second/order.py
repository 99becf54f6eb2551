"""Entries of kernels/unseen_second/order.py."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_NODES, _LINKS = 120, 400
_entry = maker("unseen_second", "order")


def _top_4(v: dict) -> dict:
    return {"out": -np.sort(-v["a"].astype(np.int64), 1)[:, :4].astype(np.int64)}


def _equalised(v: dict) -> dict:
    rows = []
    for image in v["image"]:
        below = np.array([(image <= level).sum() for level in range(256)])
        rows.append(((below * 255 + image.size // 2) // image.size)[image])
    return {"out": np.array(rows, np.uint8)}


def _by_digit(v: dict) -> dict:
    return {"out": v["a"][np.argsort(v["a"] >> np.uint32(8) & np.uint32(15), kind="stable")]}


def _sorted_pairs(v: dict) -> dict:
    rows = []
    for keys, values in zip(v["keys"].reshape(-1, 32), v["values"].reshape(-1, 32), strict=True):
        rows += [key << 32 | value for key, value in sorted(zip(keys.tolist(), values.tolist(), strict=True))]
    return {"out": np.array(rows, np.uint64)}


def _two_runs(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Rows of two sorted halves, with many equal numbers."""
    drawn = np.sort(generator.integers(-40, 40, (shape[0], 2, shape[1] // 2)), 2)
    return drawn.reshape(shape).astype(dtype)


def _sorted(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.sort(generator.standard_normal(shape)).astype(dtype)


def _exclusive(v: dict) -> dict:
    return {"out": np.r_[0, np.cumsum(v["a"])[:-1]].astype(np.int32)}


def _segments(v: dict) -> dict:
    out, total = [], 0.0
    for i, (x, head) in enumerate(zip(v["a"].tolist(), v["heads"].tolist(), strict=True)):
        total = x if head or i % 32 == 0 else total + x
        out.append(total)
    return {"out": np.array(out)}


def _runs(v: dict) -> dict:
    runs = [(key, len(list(members))) for key, members in groupby(v["a"].tolist())]
    values, lengths = v["values"].copy(), v["lengths"].copy()
    values[: len(runs)] = [key for key, _ in runs]
    lengths[: len(runs)] = [length for _, length in runs]
    return {"values": values, "lengths": lengths, "count": np.array([len(runs)], np.int32)}


def _links(v: dict) -> np.ndarray:
    """Which node (column) is a source of which (row)."""
    table = np.zeros((_NODES, _NODES), np.int64)
    for node, (begin, end) in enumerate(zip(v["starts"], v["starts"][1:], strict=False)):
        np.add.at(table[node], v["sources"][begin:end], 1)
    return table


def _levels(v: dict) -> dict:
    level, links = v["level"].astype(np.int64), _links(v) > 0
    for now in range(1, 5):
        reached = links[:, level == now - 1].any(1)
        level[reached & (level < 0)] = now
    return {"level": level}


def _page_rank(v: dict) -> dict:
    links, rank, degrees = _links(v), v["rank"].astype(np.float64), v["degrees"]
    share = np.divide(1.0, degrees, out=np.zeros(_NODES), where=degrees > 0)
    for _ in range(2):
        rank = 0.15 / _NODES + 0.85 * (links @ (rank * share))
    return {"out": rank}


def _least_members(v: dict) -> dict:
    label = np.arange(v["label"].size)
    for _ in range(label.size):
        for x, y in v["edges"]:
            label[x] = label[y] = min(label[x], label[y])
    return {"label": label}


def _graph() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, targets and edges, each once, of an undirected graph of 40 nodes."""
    table = np.triu(np.random.default_rng(7).random((40, 40)) < 0.15, 1)
    whole = table | table.T
    return np.r_[0, np.cumsum(whole.sum(1))], np.nonzero(whole)[1], np.argwhere(table)


def _triangles(v: dict) -> dict:
    table = np.zeros((40, 40), np.int64)
    for x, y in v["edges"]:
        table[x, y] = table[y, x] = 1
    return {"total": np.array([np.trace(table @ table @ table) // 2], np.int32)}


_STARTS, _TARGETS, _EDGES = _graph()
_CSR = (read("starts", "int32", _NODES + 1), read("sources", "int32", _LINKS))
_DRAWN_CSR = {"starts": draws.row_starts(_LINKS), "sources": draws.integers(0, _NODES)}

ENTRIES: tuple[Entry, ...] = (
    _entry("sum_quads", lambda v: {"out": v["a"].astype(np.float64).sum(keepdims=True)}, read("a", "float32", 1003),
           write("out", "float32", 1), tolerance=1e-4, a=draws.uniform(-1, 3)),
    _entry("column_sums", lambda v: {"out": v["a"].astype(np.longdouble).sum(0)}, read("a", "float32", 45, 70),
           write("out", "float64", 70)),
    _entry("row_argmax", lambda v: {"where": v["a"].argmax(1), "most": v["a"].max(1)}, read("a", "float32", 12, 77),
           write("where", "int32", 12), write("most", "float32", 12), a=draws.integers(-9, 9)),
    _entry("row_top_4", _top_4, read("a", "int32", 8, 150), write("out", "int32", 8, 4), a=draws.integers(-60, 60)),
    _entry("private_histograms",
           lambda v: {"out": np.bincount(v["a"].view(np.uint8) >> 2, minlength=64).astype(np.uint32)},
           read("a", "uint32", 700), update("out", "uint32", 64), out=draws.zeros),
    _entry("matched_histogram", lambda v: {"out": np.bincount(v["keys"], minlength=20).astype(np.int32)},
           read("keys", "int32", 333), update("out", "int32", 20), keys=draws.integers(0, 20), out=draws.zeros),
    _entry("equalise", _equalised, read("image", "uint8", 2, 900), write("out", "uint8", 2, 900),
           image=draws.integers(60, 140)),
    _entry("radix_pass", _by_digit, read("a", "uint32", 512), write("out", "uint32", 512)),
    _entry("lanes_sort", _sorted_pairs, read("keys", "uint32", 128), read("values", "uint32", 128),
           write("out", "uint64", 128), keys=draws.integers(0, 50)),
    _entry("merge_runs", lambda v: {"out": np.sort(v["a"], 1)}, read("a", "int32", 3, 256),
           write("out", "int32", 3, 256), a=_two_runs),
    _entry("find_ranges", lambda v: {"out": np.searchsorted(v["edges"], v["queries"], "right")},
           read("edges", "float64", 100), read("queries", "float64", 250), write("out", "int32", 250), edges=_sorted),
    _entry("scan_tiles", _exclusive, read("a", "int32", 1024), write("out", "int32", 1024),
           a=draws.integers(-100, 1000)),
    _entry("segmented_scan", _segments, read("a", "float32", 256), read("heads", "uint8", 256),
           write("out", "float32", 256), heads=draws.fixed(np.arange(256) * 37 % 11 == 0)),
    _entry("run_lengths", _runs, read("a", "uint8", 230), write("values", "uint8", 256), write("lengths", "int32", 256),
           write("count", "int32", 1), a=draws.integers(0, 2)),
    _entry("pull_levels", _levels, *_CSR, update("frontier", "uint32", 4), update("next", "uint32", 4),
           update("level", "int32", _NODES), frontier=draws.fixed([1 << 5, 0, 0, 0]), next=draws.zeros,
           level=draws.fixed(np.where(np.arange(_NODES) == 5, 0, -1)), **_DRAWN_CSR),
    _entry("page_rank", _page_rank, *_CSR, read("degrees", "int32", _NODES), read("rank", "float32", _NODES),
           write("out", "float32", _NODES), degrees=draws.integers(0, 9), rank=draws.uniform(0, 1 / 60),
           tolerance=1e-5, approximate=Approximate(8, "an approximate division"), **_DRAWN_CSR),
    _entry("label_components", _least_members, read("edges", "int32", 80, 2), update("label", "int32", 110),
           update("next", "int32", 110), edges=draws.integers(0, 110), label=draws.identity, next=draws.identity),
    _entry("triangles", _triangles, read("starts", "int32", 41), read("targets", "int32", _TARGETS.size),
           read("edges", "int32", *_EDGES.shape), update("total", "int32", 1), starts=draws.fixed(_STARTS),
           targets=draws.fixed(_TARGETS), edges=draws.fixed(_EDGES), total=draws.zeros),
)  # fmt: skip
