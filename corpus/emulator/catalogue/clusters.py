"""Entries of kernels/clusters.py: blocks that share their shared memory."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, write

FILE = "kernels/clusters.py"
WHOLE = draws.integers(-4, 5)


def _places(v: dict) -> dict:
    rows = []
    for block in range(48):
        x, y, z = block % 4, block // 4 % 6, block // 24
        rows.append([x % 2, y % 2, 0, 2, x // 2, y // 2, z, 2, 3, x % 2 + y % 2 * 2, 4, 1])
    return {"out": np.array(rows, np.int32)}


def _ring(v: dict) -> dict:
    tiles = v["a"].reshape(-1, 4, 128)
    return {"out": (np.roll(tiles, -1, 1)[:, :, ::-1] - np.roll(tiles, 1, 1)).reshape(-1)}


def _histogram(v: dict) -> dict:
    values = v["a"].reshape(-1, 2048) & 255
    return {"out": np.array([np.bincount(row, minlength=256) for row in values], np.int32).reshape(-1)}


def _transpose(v: dict) -> dict:
    tiles = v["a"].reshape(2, 2, 8, 8, 4)
    return {"out": np.ascontiguousarray(tiles.transpose(1, 0, 3, 2, 4)).reshape(-1)}


def _letters(v: dict) -> dict:
    total = np.zeros((v["a"].size // 320, 64), np.int32)
    for letter in v["a"].reshape(-1, 5, 64).transpose(1, 0, 2):
        total = 3 * total + letter[:, np.arange(64) ^ 33]
    return {"out": total.reshape(-1)}


def _stores(v: dict) -> dict:
    boxes = v["a"].reshape(-1, 2, 64, 4)[:, ::-1]
    return {"out": boxes[:, :, np.arange(64) ^ 5].reshape(-1)}


def _reductions(v: dict) -> dict:
    rows = []
    for values in v["a"].reshape(-1, 256):
        wide = int(np.sum(values.astype(np.uint64) ** 2, dtype=np.uint64))
        logic = [np.bitwise_and.reduce(values | 0x10), np.bitwise_or.reduce(values & 0xFF)]
        counted = 256 % 100
        largest = max(int(values.view(np.int32).max()), 0)
        rows.append(
            [values.sum(dtype=np.uint32), values.min(), largest, *logic, counted, wide & 0xFFFFFFFF, wide >> 32]
        )
    return {"out": np.array(rows).astype(np.uint32).reshape(-1)}


ENTRIES = (
    Entry("cluster/place", FILE, "place", (write("out", "int32", 48, 12),), {}, _places),
    Entry("cluster/ring", FILE, "ring", (read("a", "float32", 1024), write("out", "float32", 1024)), {}, _ring),
    Entry(
        "cluster/histogram", FILE, "histogram", (read("a", "int32", 4096), write("out", "int32", 512)), {}, _histogram
    ),
    Entry(
        "cluster/transpose",
        FILE,
        "transpose",
        (read("a", "float32", 1024), write("out", "float32", 1024)),
        {},
        _transpose,
    ),
    Entry(
        "cluster/sum",
        FILE,
        "sum",
        (read("a", "float32", 1024), write("out", "float32", 2)),
        {"a": WHOLE},
        lambda v: {"out": v["a"].reshape(2, -1).sum(1)},
    ),
    Entry("cluster/letters", FILE, "letters", (read("a", "int32", 640), write("out", "int32", 128)), {}, _letters),
    Entry("cluster/stores", FILE, "stores", (read("a", "int32", 1024), write("out", "int32", 1024)), {}, _stores),
    Entry(
        "cluster/reductions",
        FILE,
        "reductions",
        (read("a", "uint32", 512), write("out", "uint32", 16)),
        {},
        _reductions,
    ),
)
