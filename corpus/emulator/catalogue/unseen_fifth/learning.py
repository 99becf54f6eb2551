"""Entries of kernels/unseen_fifth/learning.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_fifth", "learning")
_WORD = 2**32 - 1


def _scores(v: dict) -> dict:
    q, k = v["q"].astype(float), v["k"].astype(float)
    heads, n, _ = q.shape
    row, column = np.mgrid[:n, :n]
    slopes = 1 / 2.0 ** (1 + np.arange(heads))
    scores = q @ k.transpose(0, 2, 1) / 4 - (row - column) * slopes[:, None, None]
    return {"out": np.where(column <= row, scores, -100)}


def _ternary(v: dict) -> dict:
    codes = v["weights"][..., None] >> np.arange(0, 32, 2, dtype=np.uint32) & 3
    signs = np.array([0, 1, -1, 0])[codes].reshape(len(codes), -1)
    return {"y": signs @ v["x"].astype(int)}


def _gathered(v: dict) -> dict:
    out = np.zeros(v["out"].shape, np.uint32)
    for result, table, length in zip(out, v["table"], v["lengths"].tolist(), strict=True):
        result[:length] = v["pages"][table].reshape(result.shape)[:length]
    return {"out": out}


def _shuffled(v: dict) -> dict:
    channels, height, width = v["out"].shape
    h, w = height // 3, width // 3
    parts = v["a"].reshape(channels, 3, 3, h, w).transpose(0, 3, 1, 4, 2)
    return {"out": parts.reshape(channels, height, width).copy()}


def _requantised(v: dict) -> dict:
    high = v["sums"].astype(np.int64) * v["factors"] >> 32
    shift = v["shifts"].astype(np.int64)
    size = np.abs(high) + (1 << (shift - 1)) >> shift
    return {"out": np.clip(np.where(high < 0, -size, size) + 5, -128, 127)}


def _confused(v: dict) -> dict:
    table = v["table"].copy()
    np.add.at(table, (v["truth"], v["scores"].argmax(0)), 1)
    return {"table": table}


def _by_chance(v: dict) -> dict:
    h = (np.arange(len(v["a"]), dtype=np.uint64) ^ 12345) * 0x9E3779B1 & _WORD
    h ^= h >> 16
    h = h * 0x7FEB352D & _WORD
    h ^= h >> 15
    bits = v["a"].view(np.uint32).astype(np.uint64)
    low, high = bits[:, 0] + (h & 0xFFFF), bits[:, 1] + (h >> 16)
    return {"out": low >> 16 | high & 0xFFFF0000}


def _sign_steps(v: dict) -> dict:
    weights = (v["weights"].view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    m, g = v["means"].astype(float).ravel(), v["slopes"].astype(float).ravel()
    stepped = weights - np.float32(0.0625) * np.sign(7 * m + g).astype(np.float32)
    bits = stepped.view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return {"weights": rounded.view(np.uint32), "means": (15 * m + g).reshape(-1, 2) / 16}


def _eighths(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Few different numbers, so that some means are exactly 0."""
    return (generator.integers(-3, 4, shape) / 8).astype(dtype)


def _losses(v: dict) -> dict:
    p = v["points"].astype(float)
    a, b, c = (p[v["triples"][:, k]] for k in range(3))
    near, far = (np.linalg.norm(a - other, axis=1) for other in (b, c))
    return {"loss": np.maximum(0, near - far + 0.5)}


ENTRIES: tuple[Entry, ...] = (
    _entry("sloped_scores", _scores, read("q", "float32", 3, 41, 20), read("k", "float32", 3, 41, 20),
           write("out", "float32", 3, 41, 41)),
    _entry("ternary_rows", _ternary, read("weights", "uint32", 19, 43), read("x", "int8", 688),
           write("y", "int32", 19)),
    _entry("gather_pages", _gathered, read("pages", "uint32", 12, 8, 12), read("table", "int32", 5, 4),
           read("lengths", "int32", 5), write("out", "uint32", 5, 32, 12), table=draws.integers(0, 12),
           lengths=draws.integers(0, 33)),
    _entry("pixel_shuffle", _shuffled, read("a", "float32", 18, 5, 13), write("out", "float32", 2, 15, 39)),
    _entry("requantise", _requantised, read("sums", "int32", 30, 28), read("factors", "int32", 28),
           read("shifts", "uint8", 28), write("out", "int8", 30, 28), sums=draws.integers(-60000, 60000),
           factors=draws.integers(2**30, 2**31 - 1), shifts=draws.integers(6, 10)),
    _entry("confusion", _confused, read("truth", "uint8", 350), read("scores", "float32", 9, 350),
           update("table", "int32", 9, 9), truth=draws.integers(0, 9), table=draws.integers(0, 50)),
    _entry("round_by_chance", _by_chance, read("a", "float32", 250, 2), write("out", "uint32", 250)),
    _entry("sign_steps", _sign_steps, update("weights", "uint32", 260), update("means", "float32", 260, 2),
           read("slopes", "float32", 260, 2), weights=draws.packed_bfloats, means=_eighths, slopes=_eighths),
    _entry("triplets", _losses, read("points", "float32", 30, 75), read("triples", "int32", 23, 3),
           write("loss", "float32", 23), triples=draws.integers(0, 30), tolerance=1e-5),
)  # fmt: skip
