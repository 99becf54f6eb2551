"""Entries of kernels/unseen_sixth/matrices.py."""

from __future__ import annotations

import hashlib

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_sixth", "matrices")


def _blocks(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Messages of up to 135 bytes with SHA-3's padding."""
    rows = []
    for k in range(shape[1]):
        size = k * 5 % 136
        data = bytearray(generator.bytes(size) + b"\x06" + bytes(135 - size))
        data[135] |= 0x80
        rows.append(np.frombuffer(data, dtype))
    return np.array(rows).T


def _sha_3(v: dict) -> dict:
    out = []
    for k, block in enumerate(np.ascontiguousarray(v["blocks"].T)):
        out.append(np.frombuffer(hashlib.sha3_256(block.tobytes()[: k * 5 % 136]).digest(), np.uint64))
    return {"out": np.array(out).T}


def _powers(v: dict) -> dict:
    rows = zip(*(v[name].tolist() for name in ("bases", "powers", "moduli")), strict=True)
    return {"out": np.array([pow(b, e, m) for b, e, m in rows], np.uint64)}


def _odd(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.integers(2**20, 2**63, shape, np.uint64) | np.uint64(1)).astype(dtype)


def _exponents(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.integers(0, 2**32, shape) >> generator.integers(0, 32, shape)).astype(dtype)


def _hessenberg(v: dict) -> dict:
    """The same by products with matrices that swap and that add rows."""
    out = []
    for a in np.moveaxis(v["matrices"], 2, 0).astype(np.longdouble):
        for m in range(1, 5):
            column = abs(a[m:, m - 1])
            pivot = m + int(column.argmax())
            if column.max() == 0:
                continue
            order = np.arange(6)
            order[[m, pivot]] = order[[pivot, m]]
            a = a[order][:, order]
            change, back = np.eye(6, dtype=np.longdouble), np.eye(6, dtype=np.longdouble)
            change[m + 1 :, m] = -a[m + 1 :, m - 1] / a[m, m - 1]
            back[m + 1 :, m] = -change[m + 1 :, m]
            a = change @ a @ back
        out.append(a)
    return {"out": np.moveaxis(np.array(out), 0, 2)}


def _sparse(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.where(generator.random(shape) < 0.3, 0, generator.integers(-9, 10, shape)).astype(dtype)


def _solved(v: dict) -> dict:
    size, n = v["out"].shape
    out = []
    for i in range(n):
        rows = [v[name][:, i].astype(np.longdouble) for name in ("diagonal", "near", "far", "right")]
        bands = ((0, rows[0]), (1, rows[1]), (-1, rows[1]), (2, rows[2]), (-2, rows[2]))
        a = np.sum([np.diag(band, k) for k, band in bands], 0)
        a = np.column_stack([a, rows[3]])
        for k in range(size):
            a[k] = a[k] / a[k, k]
            a[:k] -= a[:k, k, None] * a[k]
            a[k + 1 :] -= a[k + 1 :, k, None] * a[k]
        out.append(a[:, -1])
    return {"out": np.array(out).T}


def _lanes(v: dict) -> dict:
    out = []
    for row in v["rows"].astype(int):
        close = 0
        for k in range(0, row.size, 8):
            close += int((row[k : k + 8] >= row.max() - 100).sum())
            if close > 20:
                break
        out.append((row.argmax(), close))
    return {"out": np.array(out)}


def _steep(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return generator.integers(0, generator.integers(150, 3000, (shape[0], 1)), shape).astype(dtype)


def _listed(v: dict) -> dict:
    kinds = v["kinds"].astype(int)
    return {
        "counts": np.bincount(kinds, minlength=6),
        "sums": np.array([np.nonzero(kinds == k)[0].sum() for k in range(6)]),
    }


def _ring(v: dict) -> dict:
    out, size = [], v["a"].shape[1]
    for a, b in zip(v["a"].astype(np.int64), v["b"].astype(np.int64), strict=True):
        product = np.append(np.convolve(a, b), 0)
        out.append((product[:size] - product[size:]) % 7681)
    return {"out": np.array(out)}


ENTRIES: tuple[Entry, ...] = (
    _entry("sha_3", _sha_3, read("blocks", "uint64", 17, 70), write("out", "uint64", 4, 70), blocks=_blocks),
    _entry("montgomery", _powers, read("bases", "uint64", 130), read("powers", "uint32", 130),
           read("moduli", "uint64", 130), write("out", "uint64", 130), powers=_exponents, moduli=_odd),
    _entry("hessenberg", _hessenberg, read("matrices", "float64", 6, 6, 75), write("out", "float64", 6, 6, 75),
           matrices=_sparse, tolerance=1e-11),
    _entry("five_diagonals", _solved, read("diagonal", "float64", 23, 80), read("near", "float64", 22, 80),
           read("far", "float64", 21, 80), read("right", "float64", 23, 80), write("out", "float64", 23, 80),
           diagonal=draws.uniform(5, 8), near=draws.uniform(-1, 1), far=draws.uniform(-1, 1), tolerance=1e-13),
    _entry("half_matvec", lambda v: {"out": v["rows"].astype(float) @ v["vector"].astype(float)},
           read("rows", "float16", 25, 360), read("vector", "float16", 360), write("out", "float32", 25)),
    _entry("eight_lanes", _lanes, read("rows", "int16", 65, 90), write("out", "int16", 65, 2), rows=_steep),
    _entry("list_by_kind", _listed, read("kinds", "uint8", 700), update("counts", "int32", 6),
           update("sums", "int32", 6), kinds=draws.integers(0, 6), counts=draws.zeros, sums=draws.zeros),
    _entry("ring_products", _ring, read("a", "int32", 5, 90), read("b", "int32", 5, 90),
           write("out", "int32", 5, 90), a=draws.integers(0, 7681), b=draws.integers(0, 7681)),
)  # fmt: skip
