"""Entries of kernels/hopper.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Approximate, Entry, read, write

FILE = "kernels/hopper.py"
_EXP = Approximate(8, "expf is within 2 ulp of the exponential on either side; sum and quotient add their roundings")


def _wide(v: dict) -> dict:
    return {"c": v["a"].astype(np.float64) @ v["b"].astype(np.float64).T}


def _eight_bit(codes: np.ndarray) -> np.ndarray:
    """Values of finite e4m3 codes (OCP 8-bit floating point)."""
    exponent, fraction = (codes >> 3 & 15).astype(int), (codes & 7) / 8
    size = np.where(exponent == 0, fraction * 2.0**-6, (1 + fraction) * 2.0 ** (exponent - 7))
    return np.where(codes >> 7, -size, size)


def _two_levels(v: dict) -> dict:
    a, b = _eight_bit(v["a"]), _eight_bit(v["b"])
    steps = range(a.shape[1] // 128)
    parts = [a[:, 128 * s : 128 * s + 128] @ b[:, 128 * s : 128 * s + 128].T * v["scales"][s] for s in steps]
    return {"c": sum(parts)}


def _codes(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers of e4m3 between 1/4 and 8 in size."""
    size = generator.integers(5 << 3, 10 << 3, shape)
    return (size | generator.integers(0, 2, shape) << 7).astype(dtype)


def _softmax(v: dict) -> dict:
    e = np.exp(v["a"].astype(np.float64) - v["a"].max(1, keepdims=True))
    return {"out": e / e.sum(1, keepdims=True)}


def _product(name: str, m: int, n: int, k: int) -> Entry:
    arguments = (read("a", "float16", m, k), read("b", "float16", n, k), write("c", "float32", m, n))
    return Entry(f"hopper/{name}", FILE, name, arguments, {}, _wide, tolerance=1e-6)


ENTRIES: tuple[Entry, ...] = (
    _product("one_stage", 64, 128, 128),
    _product("specialised", 128, 64, 512),
    _product("multicast", 128, 64, 192),
    Entry(
        "hopper/two_levels",
        FILE,
        "two_levels",
        (
            read("a", "uint8", 64, 512),
            read("b", "uint8", 64, 512),
            read("scales", "float32", 4),
            write("c", "float32", 64, 64),
        ),
        {"a": _codes, "b": _codes, "scales": draws.uniform(0.5, 2)},
        _two_levels,
        tolerance=2e-3,
    ),
    _product("stored_tile", 64, 128, 64),
    Entry(
        "hopper/transposed",
        FILE,
        "transposed",
        (read("a", "float32", 40, 72), write("out", "float32", 72, 40)),
        {},
        lambda v: {"out": v["a"].T},
    ),
    Entry(
        "hopper/softmax",
        FILE,
        "softmax",
        (read("a", "float32", 3, 400), write("out", "float32", 3, 400)),
        {},
        _softmax,
        approximate=_EXP,
    ),
)
