"""Entries of kernels/cluster_samples.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, update, write

FILE = "kernels/cluster_samples.py"


def _entry(name: str, expected, *arguments, **inputs) -> Entry:
    return Entry(f"cluster_samples/{name}", FILE, name, arguments, inputs, expected)


def _ring(v: dict) -> dict:
    a = v["a"].reshape(-1, 4, 32)
    return {"out": (a + sum(np.roll(a, step + 1, 1) * (step + 2) for step in range(3))).ravel()}


def _halo(v: dict) -> dict:
    out = np.zeros(v["a"].shape)
    for y in range(0, len(out), 16):
        for x in range(0, len(out), 16):
            a = np.pad(v["a"][y : y + 16, x : x + 16].astype(np.float64), 1)
            near = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
            out[y : y + 16, x : x + 16] = 4 * a[1:-1, 1:-1] - near
    return {"out": out}


ENTRIES: tuple[Entry, ...] = (
    _entry("cluster_sum", lambda v: {"out": v["a"].astype(np.float64).reshape(-1, 128).sum(1)},
           read("a", "float32", 256), write("out", "float32", 2)),
    _entry("cluster_histogram", lambda v: {"out": v["out"] + np.bincount(v["a"], minlength=100).astype(np.int32)},
           read("a", "int32", 700), update("out", "int32", 100), a=draws.integers(0, 100), out=draws.fixed([0] * 100)),
    _entry("ring", _ring, read("a", "int32", 256), write("out", "int32", 256), a=draws.integers(-1000, 1000)),
    _entry("halo", _halo, read("a", "float32", 32, 32), write("out", "float32", 32, 32)),
    _entry("pushed", lambda v: {"out": 2 * v["a"].reshape(-1, 2, 32)[:, ::-1, ::-1].ravel()}, read("a", "int32", 128),
           write("out", "int32", 128), a=draws.integers(-1000, 1000)),
)  # fmt: skip
