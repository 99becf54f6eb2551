"""Entries of kernels/unseen_fifth/numba_order.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_fifth", "numba_order", "numba_")
_CLOSE = Approximate(32, "approximate functions", 1e-5)


def _palindromes(v: dict) -> dict:
    text = v["text"].tolist()
    out = []
    for i in range(len(text)):
        odd = next(k for k in range(99) if k > min(i, len(text) - 1 - i) or text[i - k] != text[i + k])
        even = next(k for k in range(99) if k > min(i - 1, len(text) - 1 - i) or text[i - 1 - k] != text[i + k])
        out.append((2 * odd - 1, 2 * even))
    return {"out": np.array(out)}


def _boards(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.integers(1, 10, shape) * (generator.random(shape) < 0.25)).astype(dtype)


def _candidates(v: dict) -> dict:
    out = np.zeros(v["boards"].shape, int)
    for board, result in zip(v["boards"], out, strict=True):
        for y in range(9):
            for x in range(9):
                top, left = y // 3 * 3, x // 3 * 3
                used = {*board[y], *board[:, x], *board[top : top + 3, left : left + 3].ravel()}
                if board[y, x] == 0:
                    result[y, x] = sum(1 << d for d in range(1, 10) if d not in used)
    return {"out": out}


def _ants(v: dict) -> dict:
    fields = np.zeros(v["fields"].shape, int)
    for field, (x, y, way) in zip(fields, v["start"].tolist(), strict=True):
        for _ in range(90):
            way = (way + (-1 if field[y, x] else 1)) % 4
            field[y, x] ^= 1
            x, y = (x + (0, 1, 0, -1)[way]) % 16, (y + (-1, 0, 1, 0)[way]) % 16
    return {"fields": fields}


def _equal(v: dict) -> dict:
    out = []
    for warp in v["keys"].reshape(-1, 32):
        same = warp[:, None] == warp
        whole = same.sum(1)
        below = np.tril(same, -1).sum(1)
        out.append(np.column_stack([below, whole, np.full(32, (2 * whole > 32).sum())]))
    return {"out": np.concatenate(out)}


def _keys(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    keys = generator.integers(0, 9, shape)
    keys[::3] = np.where(generator.random(keys[::3].shape) < 0.9, 4, keys[::3])
    keys[:32] = np.where(generator.random(32) < 0.7, 2, keys[:32])
    return keys.astype(dtype)


def _learnt(v: dict) -> dict:
    weights, squares, slopes = (v[n].astype(float) for n in ("weights", "squares", "slopes"))
    squares = squares + slopes**2
    return {"weights": weights - 0.1 * slopes / (np.sqrt(squares) + 1e-7), "squares": squares}


def _soft_signs(v: dict) -> dict:
    x = v["a"].astype(float)
    return {"out": x * np.tanh(np.log1p(np.exp(x)))}


def _filtered(v: dict) -> dict:
    a = v["a"].astype(float)
    out, now = np.zeros(a.shape), np.zeros(len(a))
    for k in range(a.shape[1]):
        now = 0.875 * now + a[:, k]
        out[:, k] = now
    return {"out": out}


ENTRIES: tuple[Entry, ...] = (
    _entry("column_sums_so_far", lambda v: {"out": np.cumsum(v["a"], 0, dtype=np.int32)},
           read("a", "int32", 29, 43), write("out", "int32", 29, 43)),
    _entry("palindromes", _palindromes, read("text", "uint8", 220), write("out", "int32", 220, 2),
           text=draws.integers(0, 2)),
    _entry("candidates", _candidates, read("boards", "int32", 6, 9, 9), write("out", "uint32", 6, 9, 9),
           boards=_boards),
    _entry("walk_ants", _ants, read("start", "int32", 5, 3), write("fields", "int32", 5, 16, 16),
           start=draws.integers(0, 4)),
    _entry("equal_neighbours", _equal, read("keys", "int32", 192), write("out", "int32", 192, 3), keys=_keys),
    _entry("adagrad", _learnt, update("weights", "float32", 250), update("squares", "float32", 250),
           read("slopes", "float32", 250), squares=draws.uniform(0.01, 2)),
    _entry("soft_signs", _soft_signs, read("a", "float32", 11, 53), write("out", "float32", 11, 53),
           a=draws.uniform(-10, 30), approximate=_CLOSE),
    _entry("reorder_colours", lambda v: {"out": np.ascontiguousarray(v["image"][::-1, :, ::-1].transpose(2, 0, 1))},
           read("image", "uint8", 13, 41, 3), write("out", "uint8", 3, 13, 41)),
    _entry("one_pole", _filtered, read("a", "float32", 7, 83), write("out", "float32", 7, 83), tolerance=1e-5),
    _entry("comb_sort", lambda v: {"a": np.sort(v["a"], 1)}, update("a", "int32", 45, 24)),
)  # fmt: skip
