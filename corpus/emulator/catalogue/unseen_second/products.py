"""Entries of kernels/unseen_second/products.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_second", "products")


def _wide(v: dict) -> dict:
    return {"c": v["a"].astype(np.float64) @ v["b"].astype(np.float64)}


def _complex_product(v: dict) -> dict:
    a, b = ((v[name][..., 0].astype(np.float64) + 1j * v[name][..., 1]) for name in "ab")
    return {"c": np.stack([(a @ b).real, (a @ b).imag], -1)}


def _rank_update(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    below = np.tril(np.ones((len(a), len(a)), bool))
    # What lies above the diagonal stays as it was.
    return {"c": np.where(below, a @ a.T, v["c"].astype(np.float64))}


def _from_bfloat(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _relu(v: dict) -> dict:
    return {"c": np.maximum(v["a"].astype(np.float64) @ v["b"].astype(np.float64) + v["bias"], 0)}


def _from_e4m3(codes: np.ndarray) -> np.ndarray:
    exponents, fractions = codes >> 3 & 15, (codes & 7) / 8
    sizes = np.where(exponents > 0, (1 + fractions) * 2.0 ** (exponents.astype(int) - 7), fractions * 2.0**-6)
    return np.where(codes > 127, -sizes, sizes)


def _codes(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Codes of e4m3 of up to 4 in size, among them zeros and subnormal numbers."""
    return (generator.integers(0, 73, shape) | generator.integers(0, 2, shape) << 7).astype(dtype)


def _scaled(v: dict) -> dict:
    product = _from_e4m3(v["a"]) @ _from_e4m3(v["b"]).T
    return {"c": product * v["rows"].astype(np.float64)[:, None] * v["columns"]}


def _half_pairs(v: dict) -> dict:
    x = v["a"].astype(np.float64)
    y = np.clip((0.125 * x * x - 0.5 * x + [0.25, 0.75]) * (x + 1), -2, 2)
    return {"out": -np.sort(-y, 1)}


ENTRIES: tuple[Entry, ...] = (
    _entry("products_6_5_7", lambda v: {"c": v["a"].astype(np.longdouble) @ v["b"].astype(np.longdouble)},
           read("a", "float64", 10, 6, 7), read("b", "float64", 10, 7, 5), write("c", "float64", 10, 6, 5)),
    _entry("complex_product", _complex_product, read("a", "float32", 27, 27, 2), read("b", "float32", 27, 27, 2),
           write("c", "float32", 27, 27, 2), tolerance=1e-5),
    _entry("vector_matrix", lambda v: {"y": v["x"].astype(np.float64) @ v["a"].astype(np.float64)},
           read("a", "float32", 50, 100), read("x", "float32", 50), write("y", "float32", 100), tolerance=1e-5),
    _entry("rank_update", _rank_update, read("a", "float32", 64, 24), update("c", "float32", 64, 64)),
    _entry("bfloat_tiles", lambda v: {"c": _from_bfloat(v["a"]) @ _from_bfloat(v["b"]).T}, read("a", "uint16", 64, 96),
           read("b", "uint16", 64, 96), write("c", "float32", 64, 64), tolerance=1e-5, a=draws.bfloats,
           b=draws.bfloats),
    _entry("byte_tiles", lambda v: {"c": v["a"].astype(np.int32) @ v["b"].astype(np.int32).T},
           read("a", "int8", 64, 64), read("b", "int8", 24, 64), write("c", "int32", 64, 24)),
    _entry("split_tf32", _wide, read("a", "float32", 64, 48), read("b", "float32", 48, 32),
           write("c", "float32", 64, 32), tolerance=2e-6),
    _entry("fragments_relu", _relu, read("a", "float16", 64, 48), read("b", "float16", 48, 32),
           read("bias", "float32", 32), write("c", "float16", 64, 32), tolerance=1e-3),
    _entry("scaled_fp8", _scaled, read("a", "uint8", 64, 64), read("b", "uint8", 24, 64), read("rows", "float32", 64),
           read("columns", "float32", 24), write("c", "float32", 64, 24), tolerance=1e-3, a=_codes, b=_codes),
    _entry("double_tiles", lambda v: {"c": v["a"].astype(np.longdouble) @ v["b"].astype(np.longdouble)},
           read("a", "float64", 32, 40), read("b", "float64", 40, 48), write("c", "float64", 32, 48)),
    _entry("half_pairs", _half_pairs, read("a", "float16", 100, 2), write("out", "float16", 100, 2), tolerance=2e-3),
)  # fmt: skip
