"""Entries of kernels/unseen_fourth/matrices.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_fourth", "matrices")
_RANDOM = np.random.default_rng(44)


def _merged(v: dict) -> dict:
    y = v["y"].copy()
    rows = np.searchsorted(v["ends"], np.arange(v["values"].size), side="right")
    np.add.at(y, rows, v["values"] * v["x"][v["columns"]])
    return {"y": y}


def _ends(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.r_[np.sort(generator.integers(0, 801, shape[0] - 1)), 800]


def _dense(starts: np.ndarray, columns: np.ndarray, values: np.ndarray, width: int) -> np.ndarray:
    a = np.zeros((starts.size - 1, width))
    rows = np.searchsorted(starts, np.arange(values.size), side="right") - 1
    np.add.at(a, (rows, columns), values)
    return a


def _sparse_product(v: dict) -> dict:
    left = _dense(v["starts"], v["columns"], v["values"], 60)
    right = _dense(v["other_starts"], v["other_columns"], v["other_values"], 70)
    whole, there = left @ right, (left != 0).astype(int) @ (right != 0) > 0
    columns, values = np.full((85, 32), -1), np.zeros((85, 32))
    for row in range(85):
        own = np.flatnonzero(there[row])
        columns[row, : own.size], values[row, : own.size] = own, whole[row, own]
    return {"out_columns": columns, "out_values": values, "count": there.sum(1)}


def _sampled(v: dict) -> dict:
    a, b = (v[name].astype(np.float64)[v["places"][:, k]] for k, name in enumerate("ab"))
    return {"out": (a * b).sum(1) * v["scale"]}


_ORDER = _RANDOM.permutation(110)
_ELEMENTS = sorted(
    {
        (int(_ORDER[i]), int(_ORDER[_RANDOM.integers(0, begin)]))
        for begin, end in ((30, 70), (70, 80), (80, 110))
        for i in range(begin, end)
        for _ in range(1 + i % 5)
    }
)


def _solved(v: dict) -> dict:
    a = _dense(v["starts"], v["columns"], v["values"], 110) + np.diag(v["diagonal"])
    return {"x": np.linalg.solve(a, v["b"]).astype(np.longdouble)}


def _alternated(v: dict) -> dict:
    a, r = v["a"].astype(np.float64), float(np.float32(0.4))

    def second(n: int) -> np.ndarray:
        return np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n)

    down, along = second(a.shape[0]), second(a.shape[1])
    middle = np.linalg.solve(np.eye(len(along)) - r * along, (a + r * down @ a).T).T
    return {"middle": middle, "out": np.linalg.solve(np.eye(len(down)) - r * down, middle + r * middle @ along)}


def _reduced(v: dict) -> dict:
    lower, main, upper, right = (v[name].astype(np.float64) for name in ("lower", "main", "upper", "right"))
    out = []
    for k in range(len(main)):
        a = np.diag(main[k]) + np.diag(lower[k, 1:], -1) + np.diag(upper[k, :-1], 1)
        out.append(np.linalg.solve(a, right[k]))
    return {"x": np.array(out)}


def _exponentials(v: dict) -> dict:
    out = []
    for a in v["a"].astype(np.longdouble).reshape(-1, 3, 3):
        a = a / 1024
        term = total = np.eye(3, dtype=np.longdouble)
        for k in range(1, 12):
            term = term @ a / k
            total = total + term
        for _ in range(10):
            total = total @ total
        out.append(total)
    return {"out": np.array(out).reshape(-1, 9)}


def _orthogonal(v: dict) -> dict:
    out = []
    for a in v["a"].astype(np.float64):
        q, r = np.linalg.qr(a)
        out.append(q * np.sign(np.diagonal(r)))
    return {"q": np.array(out)}


ENTRIES: tuple[Entry, ...] = (
    _entry("merged_rows", _merged, read("ends", "int32", 150), read("columns", "int32", 800),
           read("values", "int32", 800), read("x", "int32", 90), update("y", "int32", 150), ends=_ends,
           columns=draws.integers(0, 90), values=draws.integers(1, 100), x=draws.integers(1, 100), y=draws.zeros),
    _entry("sparse_product", _sparse_product, read("starts", "int32", 86), read("columns", "int32", 170),
           read("values", "float32", 170), read("other_starts", "int32", 61), read("other_columns", "int32", 120),
           read("other_values", "float32", 120), write("out_columns", "int32", 85, 32),
           write("out_values", "float32", 85, 32), write("count", "int32", 85), tolerance=1e-5,
           starts=draws.fixed(np.arange(86) * 2), columns=draws.integers(0, 60),
           other_starts=draws.row_starts(120), other_columns=draws.integers(0, 70)),
    _entry("sampled_product", _sampled, read("places", "int32", 38, 2), read("scale", "float32", 38),
           read("a", "float32", 20, 96), read("b", "float32", 15, 96), write("out", "float32", 38), tolerance=1e-5,
           places=draws.integers(0, 15)),
    _entry("solve_levels", _solved, read("order", "int32", 110), read("starts", "int32", 111),
           read("columns", "int32", len(_ELEMENTS)), read("values", "float64", len(_ELEMENTS)),
           read("diagonal", "float64", 110), read("b", "float64", 110), write("x", "float64", 110), tolerance=1e-12,
           order=draws.fixed(_ORDER), starts=draws.fixed(np.searchsorted([r for r, _ in _ELEMENTS], np.arange(111))),
           columns=draws.fixed([c for _, c in _ELEMENTS]), diagonal=draws.uniform(1, 3),
           values=draws.uniform(-0.5, 0.5)),
    _entry("strassen", lambda v: {"c": v["a"] @ v["b"]}, read("a", "int32", 3, 16, 16), read("b", "int32", 3, 16, 16),
           write("c", "int32", 3, 16, 16)),
    _entry("alternate", _alternated, read("a", "float32", 19, 23), write("middle", "float32", 19, 23),
           write("out", "float32", 19, 23), tolerance=1e-5),
    _entry("shuffled_reduction", _reduced, read("lower", "float32", 7, 32), read("main", "float32", 7, 32),
           read("upper", "float32", 7, 32), read("right", "float32", 7, 32), write("x", "float32", 7, 32),
           tolerance=1e-5, lower=draws.uniform(-1, 1), upper=draws.uniform(-1, 1), main=draws.uniform(3, 4)),
    _entry("staged_product", lambda v: {"c": v["a"].astype(np.float64) @ v["b"]}, read("a", "float32", 48, 40),
           read("b", "float32", 40, 64), write("c", "float32", 48, 64), tolerance=1e-5),
    _entry("contract", lambda v: {"out": np.einsum("piq,qlpj->ijl", v["a"].astype(int), v["b"].astype(int))},
           read("a", "int16", 5, 9, 4), read("b", "int16", 4, 13, 5, 6), write("out", "int32", 9, 6, 13),
           a=draws.integers(-900, 900), b=draws.integers(-900, 900)),
    _entry("exponentials", _exponentials, read("a", "float64", 70, 9), write("out", "float64", 70, 9),
           tolerance=1e-12),
    _entry("orthogonal_columns", _orthogonal, read("a", "float32", 3, 128, 6), write("q", "float32", 3, 128, 6),
           tolerance=1e-5, approximate=Approximate(64, "approximate roots", 1e-5)),
)  # fmt: skip
