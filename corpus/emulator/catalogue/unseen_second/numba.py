"""Entries of kernels/unseen_second/numba.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_second", "numba", "numba_")
_CLOSE = Approximate(16, "approximate functions", 1e-6)
_WORD, _LONG = 0xFFFFFFFF, 2**64 - 1


def _bins(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    places = np.floor((a[(a >= -2) & (a < 2)] + 2) * 8).astype(int)
    return {"out": np.bincount(places, minlength=32).astype(np.int32)}


def _julia(v: dict) -> dict:
    h, w = v["out"].shape
    z = (-1.5 + 3 * np.arange(w) / w)[None, :] + 1j * (-1 + 2 * np.arange(h) / h)[:, None]
    n = np.zeros((h, w), int)
    for _ in range(60):
        inside = z.real**2 + z.imag**2 < 4
        z, n = np.where(inside, z * z - 0.8 + 0.156j, z), n + inside
    return {"out": n}


def _gravity(v: dict) -> dict:
    b = v["bodies"].astype(np.float64)
    d = b[None, :, :3] - b[:, None, :3]
    square = (d * d).sum(-1) + 0.01
    return {"out": (d * (b[:, 3] / square**1.5)[..., None]).sum(1)}


def _blur(v: dict) -> dict:
    weights = np.array([1, 4, 6, 4, 1]) / 16
    h, w = v["a"].shape
    a = np.pad(v["a"].astype(np.float64), 2, mode="edge")
    return {"out": sum(weights[j] * weights[i] * a[j : j + h, i : i + w] for j in range(5) for i in range(5))}


def _square_norm(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    return {"out": a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-6) * v["gain"]}


def _edits(v: dict) -> dict:
    out = []
    for word, n in zip(v["words"], v["lengths"], strict=True):
        table = np.zeros((n + 1, v["pattern"].size + 1), int)
        table[:, 0], table[0] = np.arange(n + 1), np.arange(v["pattern"].size + 1)
        for i in range(n):
            for j, letter in enumerate(v["pattern"]):
                beside = min(table[i, j + 1], table[i + 1, j]) + 1
                table[i + 1, j + 1] = min(beside, table[i, j] + (word[i] != letter))
        out.append(table[-1, -1])
    return {"out": np.array(out, np.int32)}


def _rotated(v: dict) -> dict:
    x, y, z, w = (v["turns"].astype(np.float64) / np.linalg.norm(v["turns"].astype(np.float64), axis=1)[:, None]).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return {"out": np.einsum("ijn,nj->ni", np.array(rows), v["points"].astype(np.float64))}


def _compact(v: dict) -> dict:
    out, counts = v["out"].copy(), []
    for row, block in zip(out, v["a"].reshape(out.shape), strict=True):
        kept = block[block > 0]
        row[: kept.size] = kept
        counts.append(kept.size)
    return {"out": out, "counts": np.array(counts, np.int32)}


def _walks(v: dict) -> dict:
    out = []
    for state in v["seeds"].tolist():
        x = y = far = 0
        for _ in range(30):
            state ^= state >> 12
            state ^= state << 25 & _LONG
            state ^= state >> 27
            dx, dy = ((1, 0), (-1, 0), (0, 1), (0, -1))[(state * 0x2545F4914F6CDD1D & _LONG) >> 62]
            x, y = x + dx, y + dy
            far = max(far, abs(x) + abs(y))
        out.append([x, y, far])
    return {"out": np.array(out, np.int32)}


def _divisors(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Whole numbers of either sign, none of them zero."""
    return (generator.integers(1, 2000, shape) * generator.choice((-1, 1), shape)).astype(dtype)


def _floors(v: dict) -> dict:
    rows = []
    for a, b in zip(v["a"].tolist(), v["b"].tolist(), strict=True):
        zeros = 32 - (a & _WORD).bit_length()
        rows.append([a // b, a % b, a * 31 >> 3, zeros + (b & -b).bit_length()])
    return {"out": np.array(rows, np.int64)}


def _softmax(v: dict) -> dict:
    e = np.exp(v["a"].astype(np.float64) - v["a"].max(1, keepdims=True))
    return {"out": e / e.sum(1, keepdims=True)}


def _medians(v: dict) -> dict:
    a, out = v["a"], v["a"].copy()
    h, w = a.shape
    windows = [a[j : j + h - 2, i : i + w - 2] for j in range(3) for i in range(3)]
    out[1:-1, 1:-1] = np.median(windows, 0)
    return {"out": out}


def _heat(v: dict) -> dict:
    a = v["a"].astype(np.longdouble)
    for _ in range(2):
        p = np.pad(a, 1, mode="edge")
        a = a + np.longdouble(0.2) * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * a)
    return {"out": a}


def _newton(v: dict) -> dict:
    # Cardano's formula of x**3 + x = a.
    half = v["a"].astype(np.longdouble) / 2
    root = np.sqrt(half * half + np.longdouble(1) / 27)
    return {"out": np.cbrt(half + root) + np.cbrt(half - root)}


def _murmur(v: dict) -> dict:
    out = []
    for row in v["keys"].tolist():
        h = 42
        for x in row:
            x = x * 0xCC9E2D51 & _WORD
            h ^= ((x << 15 | x >> 17) & _WORD) * 0x1B873593 & _WORD
            h = ((h << 13 | h >> 19) & _WORD) * 5 + 0xE6546B64 & _WORD
        h ^= 4 * len(row)
        h = (h ^ h >> 16) * 0x85EBCA6B & _WORD
        h = (h ^ h >> 13) * 0xC2B2AE35 & _WORD
        out.append(h ^ h >> 16)
    return {"out": np.array(out, np.uint32)}


ENTRIES: tuple[Entry, ...] = (
    _entry("private_bins", _bins, read("a", "float32", 700), update("out", "int32", 32), out=draws.zeros),
    _entry("product_in_registers", lambda v: {"c": v["a"].astype(np.float64) @ v["b"].astype(np.float64)},
           read("a", "float32", 32, 24), read("b", "float32", 24, 64), write("c", "float32", 32, 64), tolerance=1e-5),
    _entry("julia", _julia, write("out", "int32", 30, 40)),
    _entry("gravity", _gravity, read("bodies", "float32", 128, 4), write("out", "float32", 128, 3), tolerance=1e-5),
    _entry("blur_constant", _blur, read("a", "float32", 18, 45), write("out", "float32", 18, 45), tolerance=1e-6),
    _entry("normalise_rows", _square_norm, read("a", "float32", 8, 100), read("gain", "float32", 100),
           write("out", "float32", 8, 100), tolerance=1e-5),
    _entry("warp_scan", lambda v: {"out": v["a"].reshape(2, 256).astype(np.longdouble).cumsum(1).ravel()},
           read("a", "float64", 512), write("out", "float64", 512), tolerance=1e-13),
    _entry("edit_distances", _edits, read("words", "uint8", 100, 20), read("lengths", "int32", 100),
           read("pattern", "uint8", 24), write("out", "int32", 100), words=draws.integers(97, 101),
           pattern=draws.integers(97, 101), lengths=draws.integers(0, 21)),
    _entry("rotate_points", _rotated, read("points", "float32", 150, 3), read("turns", "float32", 150, 4),
           write("out", "float32", 150, 3), tolerance=1e-6),
    _entry("compact_blocks", _compact, read("a", "int32", 384), write("out", "int32", 3, 128),
           write("counts", "int32", 3)),
    _entry("random_walks", _walks, read("seeds", "uint64", 128), write("out", "int32", 128, 3)),
    _entry("floor_divisions", _floors, read("a", "int32", 100), read("b", "int32", 100), write("out", "int64", 100, 4),
           b=_divisors),
    _entry("softmax_fast", _softmax, read("a", "float32", 4, 128), write("out", "float32", 4, 128), tolerance=1e-5,
           approximate=_CLOSE),
    _entry("padded_transpose", lambda v: {"out": v["a"].T}, read("a", "float64", 45, 60),
           write("out", "float64", 60, 45)),
    _entry("median_of_nine", _medians, read("a", "int32", 20, 40), write("out", "int32", 20, 40),
           a=draws.integers(-9, 99)),
    _entry("heat_steps", _heat, read("a", "float64", 20, 45), write("out", "float64", 20, 45)),
    _entry("newton", _newton, read("a", "float64", 100), write("out", "float64", 100), write("rounds", "int32", 100),
           tolerance=1e-13, a=draws.uniform(-50, 50)),
    _entry("murmur", _murmur, read("keys", "uint32", 100, 5), write("out", "uint32", 100)),
)  # fmt: skip
