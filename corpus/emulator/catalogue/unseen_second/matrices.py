"""Entries of kernels/unseen_second/matrices.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, write

_entry = maker("unseen_second", "matrices")


def _lu_pivoted(v: dict) -> dict:
    factors, orders = [], []
    for a in v["a"].astype(np.float64):
        order = np.arange(16)
        for k in range(15):
            p = k + np.abs(a[k:, k]).argmax()
            a[[k, p]], order[[k, p]] = a[[p, k]], order[[p, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
        factors.append(a)
        orders.append(order)
    return {"out": np.array(factors), "order": np.array(orders)}


def _positive(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    x = generator.standard_normal(shape)
    return (x @ np.swapaxes(x, 1, 2) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def _heavy_lower(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (np.tril(generator.uniform(-1, 1, shape)) + 4 * np.eye(shape[0])).astype(dtype)


def _symmetric(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Some of them diagonal already, some of rank one."""
    x = generator.standard_normal(shape)
    x = x + np.swapaxes(x, 1, 2)
    x[::10] *= np.eye(3)
    x[5::10] = x[5::10, :, :1] * np.swapaxes(x[5::10, :, :1], 1, 2)
    return x.astype(dtype)


def _columns_to_swap(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Matrices with zeros on their diagonals, which no elimination without exchanges survives."""
    x = generator.uniform(-1, 1, shape) + 3 * np.roll(np.eye(shape[-1]), 1, 0)
    x[:, np.arange(shape[-1]), np.arange(shape[-1])] = 0
    return x.astype(dtype)


def _spilled(v: dict) -> dict:
    x = v["a"].astype(np.float64) - v["a"].max(0)
    return {"out": x / np.sqrt((x * x).sum(0) + 1)}


ENTRIES: tuple[Entry, ...] = (
    _entry("lu_pivoted", _lu_pivoted, read("a", "float32", 3, 16, 16), write("out", "float32", 3, 16, 16),
           write("order", "int32", 3, 16), tolerance=1e-4),
    _entry("cholesky_tile", lambda v: {"out": np.linalg.cholesky(v["a"].astype(np.float64))},
           read("a", "float32", 2, 24, 24), write("out", "float32", 2, 24, 24), tolerance=1e-5, a=_positive),
    _entry("householder", lambda v: {"r": np.linalg.qr(v["a"])[1].astype(np.longdouble)},
           read("a", "float64", 4, 32, 8), write("r", "float64", 4, 8, 8), tolerance=1e-13),
    _entry("solve_lower", lambda v: {"x": np.linalg.solve(v["lower"].astype(np.float64), v["b"].astype(np.float64))},
           read("lower", "float32", 20, 20), read("b", "float32", 20, 100), write("x", "float32", 20, 100),
           tolerance=1e-5, lower=_heavy_lower),
    _entry("inverse_pivoted", lambda v: {"out": np.linalg.inv(v["a"]).astype(np.longdouble)},
           read("a", "float64", 100, 4, 4), write("out", "float64", 100, 4, 4), tolerance=1e-12, a=_columns_to_swap),
    _entry("eigenvalues_3", lambda v: {"out": np.linalg.eigvalsh(v["a"].astype(np.float64))},
           read("a", "float32", 100, 3, 3), write("out", "float32", 100, 3), tolerance=1e-5, a=_symmetric),
    _entry("transpose_swizzled", lambda v: {"out": v["a"].T}, read("a", "float16", 64, 128),
           write("out", "float16", 128, 64)),
    _entry("permute_axes", lambda v: {"out": v["a"].transpose(2, 0, 1)}, read("a", "int32", 9, 7, 10),
           write("out", "int32", 10, 9, 7)),
    _entry("spilled", _spilled, read("a", "float32", 40, 256), write("out", "float32", 40, 256), tolerance=1e-5,
           approximate=Approximate(8, "an approximate square root", 1e-5)),
    _entry("kronecker", lambda v: {"out": np.kron(v["a"].astype(np.int32), v["b"].astype(np.int32))},
           read("a", "int16", 5, 6), read("b", "int16", 6, 8), write("out", "int32", 30, 48)),
)  # fmt: skip
