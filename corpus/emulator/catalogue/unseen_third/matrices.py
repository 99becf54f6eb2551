"""Entries of kernels/unseen_third/matrices.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_third", "matrices")
_ROWS = 29


def _exactly(a: np.ndarray) -> np.ndarray:
    return a.astype(np.longdouble if a.dtype == np.float64 else np.float64)


def _transposed(v: dict) -> dict:
    return {"c": _exactly(v["a"]).T @ _exactly(v["b"])}


def _split(v: dict) -> dict:
    return {"c": np.maximum(_exactly(v["a"]) @ _exactly(v["b"]) + v["bias"], 0)}


def _shortest(v: dict) -> dict:
    return {"c": (v["a"][:, :, None].astype(int) + v["b"][None]).min(1)}


def _chains(v: dict) -> dict:
    out = []
    for begin, end in zip(v["starts"], v["starts"][1:], strict=False):
        product = np.eye(4)
        for k in range(begin, end):
            product = product @ v["matrices"][k].astype(np.float64)
        out.append(product)
    return {"out": np.array(out)}


def _triangles(v: dict) -> dict:
    r = np.linalg.qr(v["a"].astype(np.float64).transpose(2, 0, 1)).R
    # The diagonal's signs are the rotations': its first three elements are sizes, the last one is a size as well, since
    # there is a row below it.
    r = r * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, :, None]
    return {"r": r.transpose(1, 2, 0)}


def _symmetric(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    a = generator.standard_normal(shape)
    a[::9] = np.eye(4)
    return (a + a.transpose(0, 2, 1)).astype(dtype)


def _diagonals(v: dict) -> dict:
    n = v["x"].size
    whole = np.zeros((n, n))
    for offset, values in zip(v["offsets"], v["values"].astype(np.float64), strict=True):
        rows = np.arange(max(0, -offset), min(n, n - offset))
        whole[rows, rows + offset] = values[rows]
    return {"y": whole @ v["x"]}


def _blocks(v: dict) -> dict:
    x = v["x"].astype(np.float64).reshape(-1, 3)
    y = np.zeros((_ROWS, 3))
    for row in range(_ROWS):
        for k in range(v["starts"][row], v["starts"][row + 1]):
            y[row] += v["blocks"][k] @ x[v["columns"][k]]
    return {"y": y}


def _solved(v: dict) -> dict:
    n = v["right"].size
    return {"out": np.linalg.solve(np.diag(v["diagonal"]) - np.eye(n, k=1) - np.eye(n, k=-1), v["right"])
            .astype(np.longdouble)}  # fmt: skip


def _coloured(v: dict) -> dict:
    u, f = v["u"].astype(np.longdouble), v["f"]
    y, x = np.indices(u.shape)
    inside = (x > 0) & (y > 0) & (x < u.shape[1] - 1) & (y < u.shape[0] - 1)
    for colour in (0, 1, 0, 1):
        # Column 1 of row y belongs to colour 0 if 1 + y is even.
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        u = np.where(inside & ((x + y + colour) % 2 == 0), u + (around - f - 4 * u) * 0.375, u)
    return {"u": u}


def _lines(v: dict) -> dict:
    return {
        "out": np.array([np.polyfit(p[:, 0].astype(np.float64), p[:, 1].astype(np.float64), 1) for p in v["points"]])
    }


ENTRIES: tuple[Entry, ...] = (
    _entry("product_transposed", _transposed, read("a", "float32", 31, 41), read("b", "float32", 31, 37),
           write("c", "float32", 41, 37), tolerance=1e-5),
    _entry("product_transposed_doubles", _transposed, read("a", "float64", 19, 21), read("b", "float64", 19, 45),
           write("c", "float64", 21, 45), tolerance=1e-14),
    _entry("product_two_buffers", lambda v: {"c": _exactly(v["a"]) @ _exactly(v["b"])}, read("a", "float32", 45, 27),
           read("b", "float32", 27, 50), write("c", "float32", 45, 50), tolerance=1e-5),
    _entry("split_product", _split, read("a", "float32", 10, 100), read("b", "float32", 100, 45),
           read("bias", "float32", 45), write("c", "float32", 10, 45), tolerance=1e-5),
    _entry("gram", lambda v: {"c": _exactly(v["a"]) @ _exactly(v["a"]).T}, read("a", "float32", 29, 21),
           write("c", "float32", 29, 29), tolerance=1e-5),
    _entry("shortest_product", _shortest, read("a", "int32", 37, 37), read("b", "int32", 37, 37),
           write("c", "int32", 37, 37), a=draws.integers(0, 1000), b=draws.integers(0, 1000)),
    _entry("chains", _chains, read("matrices", "float32", 230, 4, 4), read("starts", "int32", 76),
           write("out", "float32", 75, 4, 4), tolerance=1e-5, matrices=draws.uniform(-0.6, 0.6),
           starts=draws.row_starts(230)),
    _entry("givens", _triangles, read("a", "float32", 5, 4, 90), write("r", "float32", 4, 4, 90), tolerance=1e-5),
    _entry("jacobi_eigenvalues", lambda v: {"out": np.linalg.eigvalsh(v["a"]).astype(np.longdouble)},
           read("a", "float64", 50, 4, 4), write("out", "float64", 50, 4), tolerance=1e-13, a=_symmetric),
    _entry("diagonals", _diagonals, read("values", "float32", 5, 203), read("offsets", "int32", 5),
           read("x", "float32", 203), write("y", "float32", 203), tolerance=1e-5,
           offsets=draws.fixed([-30, -1, 0, 2, 77])),
    _entry("block_rows", _blocks, read("blocks", "float32", 110, 3, 3), read("starts", "int32", _ROWS + 1),
           read("columns", "int32", 110), read("x", "float32", 60), write("y", "float32", 3 * _ROWS), tolerance=1e-5,
           starts=draws.row_starts(110), columns=draws.integers(0, 20)),
    _entry("conjugate", _solved, read("diagonal", "float64", 101), read("right", "float64", 101),
           write("out", "float64", 101), write("rounds", "int32", 1), tolerance=1e-8, diagonal=draws.uniform(3, 5)),
    _entry("two_colours", _coloured, update("u", "float64", 19, 45), read("f", "float64", 19, 45), tolerance=1e-14),
    _entry("half_rows", lambda v: {"y": _exactly(v["a"]) @ _exactly(v["x"])}, read("a", "float16", 22, 200),
           read("x", "float16", 200), write("y", "float32", 22), tolerance=4e-3),
    _entry("fit_lines", _lines, read("points", "float32", 5, 83, 2), write("out", "float32", 5, 2), tolerance=1e-5),
)  # fmt: skip
