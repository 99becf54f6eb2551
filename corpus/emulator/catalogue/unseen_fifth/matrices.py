"""Entries of kernels/unseen_fifth/matrices.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_fifth", "matrices")
_LOWER = np.tril_indices(5)
_OFFSETS = [-37, -4, -1, 0, 1, 6, 50]


def _definite(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Lower triangles of positive definite matrices."""
    a = generator.standard_normal((shape[1], 5, 5))
    return (a @ a.transpose(0, 2, 1) + 3 * np.eye(5))[:, _LOWER[0], _LOWER[1]].T.astype(dtype)


def _ldl(v: dict) -> dict:
    a = np.zeros((v["a"].shape[1], 5, 5))
    a[:, _LOWER[0], _LOWER[1]] = v["a"].T
    a += np.tril(a, -1).transpose(0, 2, 1)
    root = np.linalg.cholesky(a)
    diagonal = np.diagonal(root, axis1=1, axis2=2)
    factors = root / diagonal[:, None, :]
    factors[:, range(5), range(5)] = diagonal**2
    return {"out": factors[:, _LOWER[0], _LOWER[1]].T.astype(np.longdouble)}


def _exponentials(v: dict) -> dict:
    a = v["a"].astype(float).reshape(-1, 3, 3)
    total = term = np.broadcast_to(np.eye(3), a.shape)
    for k in range(1, 40):
        term = term @ a / k
        total = total + term
    return {"out": total.reshape(-1, 9)}


def _by_diagonals(v: dict) -> dict:
    x, y = v["x"].astype(np.longdouble), np.zeros(v["x"].size, np.longdouble)
    for values, offset in zip(v["diagonals"], _OFFSETS, strict=True):
        rows = np.arange(max(0, -offset), min(x.size, x.size - offset))
        y[rows] += values[rows] * x[rows + offset]
    return {"y": y}


def _relaxed(v: dict) -> dict:
    u, load = v["a"].astype(float), v["load"].astype(float)
    j, i = np.mgrid[1:17, 1:17]
    for step in range(10):
        now = (i - 1 + j - 1 + step) % 2 == 0
        y, x = j[now], i[now]
        mean = (u[:, y, x - 1] + u[:, y, x + 1] + u[:, y - 1, x] + u[:, y + 1, x] - load[:, y, x]) / 4
        u[:, y, x] += 1.5 * (mean - u[:, y, x])
    return {"out": u}


def _determinants(v: dict) -> dict:
    out = [round(float(np.linalg.det(column.reshape(5, 5).astype(float)))) for column in v["a"].T]
    return {"out": np.array(out)}


def _small_integers(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Matrices as columns; some are singular or begin with zeros."""
    a = generator.integers(-20, 21, shape)
    a[:5, ::7] = a[5:10, ::7]
    a[0, ::3] = 0
    return a.astype(dtype)


def _norms(v: dict) -> dict:
    sums = np.abs(v["a"].astype(np.float64))
    return {"norms": np.array([sums.sum(0).max(), sums.sum(1).max()], np.float32).view(np.uint32)}


def _quarters(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.integers(-400, 400, shape) / 4).astype(dtype)


def _bit_ranks(v: dict) -> dict:
    ranks = []
    for rows in v["rows"].tolist():
        basis: list[int] = []
        for row in rows:
            for b in basis:
                row = min(row, row ^ b)
            if row:
                basis.append(row)
        ranks.append(len(basis))
    return {"ranks": np.array(ranks)}


def _dependent(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Rows of bits, the last ones of which are sums of others."""
    rows = generator.integers(0, 2**32, shape, dtype=np.uint32)
    for i, matrix in enumerate(rows):
        for k in range(i % 32, 32):
            matrix[k] = matrix[generator.integers(0, 32)] ^ matrix[generator.integers(0, 32)]
    return rows.astype(dtype)


def _polynomials(v: dict) -> dict:
    x, y, p = (v[n].astype(np.longdouble) for n in ("x", "y", "places"))
    total = np.zeros(p.size, np.longdouble)
    for k in range(7):
        others = [j for j in range(7) if j != k]
        total += y[k] * np.prod([(p - x[j]) / (x[k] - x[j]) for j in others], 0)
    return {"out": total}


def _points(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (np.arange(shape[0])[:, None] + generator.uniform(-0.3, 0.3, shape)).astype(dtype)


def _bfloat_rows(v: dict) -> dict:
    a, x = ((v[n].view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(float) for n in ("a", "x"))
    return {"y": a @ x}


def _lines(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    rows = generator.uniform(-1, 1, shape)
    rows[..., 1] += 4
    return rows.astype(dtype)


def _solved(v: dict) -> dict:
    out = []
    for rows in v["rows"].astype(float):
        a = np.diag(rows[:, 1]) + np.diag(rows[1:, 0], -1) + np.diag(rows[:-1, 2], 1)
        out.append(np.linalg.solve(a, rows[:, 3]))
    return {"x": np.array(out)}


def _squares(v: dict) -> dict:
    a = v["a"].astype(int)
    return {"out": (a @ a.T)[np.tril_indices(len(a))]}


ENTRIES: tuple[Entry, ...] = (
    _entry("ldl_5", _ldl, read("a", "float64", 15, 83), write("out", "float64", 15, 83), a=_definite, tolerance=1e-12),
    _entry("matrix_exponential", _exponentials, read("a", "float32", 100, 9), write("out", "float32", 100, 9),
           a=draws.uniform(-1, 1), tolerance=1e-5),
    _entry("diagonals_product", _by_diagonals, read("diagonals", "float64", 7, 250), read("offsets", "int32", 7),
           read("x", "float64", 250), write("y", "float64", 250), offsets=draws.fixed(_OFFSETS)),
    _entry("red_and_black", _relaxed, read("a", "float32", 3, 18, 18), read("load", "float32", 3, 18, 18),
           write("out", "float32", 3, 18, 18), tolerance=1e-5),
    _entry("bareiss", _determinants, read("a", "int8", 25, 90), write("out", "int64", 90), a=_small_integers),
    _entry("matrix_norms", _norms, read("a", "float32", 43, 150), update("norms", "uint32", 2), a=_quarters,
           norms=draws.zeros),
    _entry("lower_squares", _squares, read("a", "int16", 29, 75), write("out", "int32", 435),
           a=draws.integers(-3000, 3000)),
    _entry("binary_ranks", _bit_ranks, read("rows", "uint32", 11, 32), write("ranks", "int32", 11), rows=_dependent),
    _entry("through_points", _polynomials, read("x", "float64", 7, 90), read("y", "float64", 7, 90),
           read("places", "float64", 90), write("out", "float64", 90), x=_points, places=draws.uniform(0, 6),
           tolerance=1e-11),
    _entry("bfloat_rows", _bfloat_rows, read("a", "uint32", 43, 50), read("x", "uint32", 50), write("y", "float32", 43),
           a=draws.packed_bfloats, x=draws.packed_bfloats),
    _entry("transpose_here", lambda v: {"a": v["a"].T.copy()}, update("a", "float64", 43, 43)),
    _entry("solve_by_lanes", _solved, read("rows", "float32", 7, 32, 4), write("x", "float32", 7, 32), rows=_lines,
           tolerance=1e-5),
    _entry("scale_both", lambda v: {"out": v["a"] * v["rows"][:, None] * v["columns"]},
           read("a", "float16", 11, 152), read("rows", "float16", 11), read("columns", "float16", 152),
           write("out", "float16", 11, 152)),
)  # fmt: skip
