"""Entries of kernels/unseen_third/numba.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_third", "numba", "numba_")
_CLOSE = Approximate(16, "approximate functions", 1e-6)
_LONG = 2**64 - 1
_ANGLES = -np.pi / 32 * np.arange(32)
_TURNS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], 1)
_TAPS = np.array([0.0625, -0.25, 0.5, 1.0, 0.375, -0.125, 0.03125])


def _grey(v: dict) -> dict:
    r, g, b = v["image"].astype(int).transpose(2, 0, 1)
    return {"out": (19 * r + 37 * g + 8 * b + 32) // 64}


def _embossed(v: dict) -> dict:
    a = np.pad(v["a"].astype(np.float64), 1)
    edge = a[2:, 2:] - a[:-2, :-2] + 0.5 * (a[1:-1, 2:] - a[1:-1, :-2])
    return {"out": v["a"] + 0.75 * edge}


def _by_key(v: dict) -> dict:
    sums, most = v["sums"].copy(), v["most"].copy()
    np.add.at(sums, v["keys"], v["values"].astype(np.int64))
    np.maximum.at(most, v["keys"], v["values"])
    return {"sums": sums, "most": most}


def _sparse(v: dict) -> dict:
    b, rows = v["b"].astype(np.float64), []
    for begin, end in zip(v["starts"], v["starts"][1:], strict=False):
        rows.append(v["values"][begin:end].astype(np.float64) @ b[v["columns"][begin:end]])
    return {"out": np.array(rows)}


def _reached(v: dict) -> dict:
    level, marks, changed = v["level"].copy(), v["marks"].copy(), v["changed"].copy()
    for now in range(4):
        near = np.unique(v["edges"][level[v["edges"][:, 0]] == now, 1])
        marks[near] = 1
        near = near[level[near] < 0]
        level[near] = now + 1
        changed[now] = near.size
    return {"level": level, "marks": marks, "changed": changed}


def _momentum(v: dict) -> dict:
    w, speed, g = (v[name].astype(np.float64) for name in ("weights", "speeds", "slopes"))
    speed = 0.9 * speed - 0.01 * (g + 0.001 * w)
    return {"weights": w + speed, "speeds": speed}


def _attended(v: dict) -> dict:
    q, k, values = (v[name].astype(np.float64) for name in "qkv")
    p = np.exp(q @ k.T / 4)
    return {"out": p @ values / p.sum(1, keepdims=True)}


def _inside(v: dict) -> dict:
    total = 0
    for thread in range(192):
        state = (20260 + thread * 0x9E3779B97F4A7C15) & _LONG
        for _ in range(12):
            state = (state * 6364136223846793005 + 1442695040888963407) & _LONG
            x, y = state >> 40, state >> 8 & 0xFFFFFF
            total += x * x + y * y < 2**48
    return {"total": np.array([total], np.int32)}


def _put(v: dict) -> dict:
    out = []
    for strike in v["strikes"].astype(np.longdouble):
        up = np.longdouble(1.03)
        value = np.maximum(strike - 100 * up ** (2 * np.arange(64) - 63), 0)
        for step in range(62, -1, -1):
            kept = np.longdouble(0.9995) * (np.longdouble(0.51) * value[1:] + (1 - np.longdouble(0.51)) * value[:-1])
            value = np.maximum(kept, strike - 100 * up ** (2 * np.arange(step + 1) - step))
        out.append(value[0])
    return {"out": np.array(out)}


def _cells(v: dict) -> dict:
    counts, sums = v["counts"].copy(), v["sums"].copy()
    x, y = (v["places"] * np.array(counts.shape[::-1], np.float64)).astype(int).T
    np.add.at(counts, (y, x), 1)
    np.add.at(sums, (y, x), v["weights"].astype(np.uint64))
    return {"counts": counts, "sums": sums}


def _orbits(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Places between 1 and 2 from the middle, with slow speeds."""
    radius, angle = generator.uniform(1, 2, shape[1]), generator.uniform(0, 6, shape[1])
    return np.stack(
        [radius * np.cos(angle), radius * np.sin(angle), *generator.uniform(-0.5, 0.5, (2, shape[1]))]
    ).astype(dtype)


def _leapt(v: dict) -> dict:
    place, speed = np.split(v["state"].astype(np.longdouble), 2)
    dt = np.longdouble(0.05)

    def pull() -> np.ndarray:
        return -place / (place**2).sum(0) ** np.longdouble(1.5)

    for _ in range(10):
        speed = speed + dt / 2 * pull()
        place = place + dt * speed
        speed = speed + dt / 2 * pull()
    return {"out": np.concatenate([place, speed])}


def _pooled(v: dict) -> dict:
    _, h, w = v["out"].shape
    windows = np.stack([v["a"][:, j : j + 2 * h : 2, i : i + 2 * w : 2] for j in range(3) for i in range(3)])
    return {"out": windows.max(0), "where": windows.argmax(0)}


def _voted(v: dict) -> dict:
    d = np.abs(v["queries"][:, None] - v["points"]).sum(2) * 256 + np.arange(len(v["points"]))
    kinds = v["labels"][np.argsort(d, 1)[:, :5]]
    return {"out": np.array([np.bincount(row, minlength=4).argmax() for row in kinds])}


def _bits(v: dict) -> dict:
    rows = []
    for x in v["a"].tolist():
        word = f"{x:064b}"
        rows.append([int(word[::-1], 2), word.count("1"), 64 - x.bit_length(), (x ^ x >> 1 ^ x << 7) & _LONG])
    return {"out": np.array(rows, np.uint64)}


def _lower(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.uniform(-1, 1, shape) + 3 * np.eye(shape[1])).astype(dtype)


def _solved(v: dict) -> dict:
    return {"out": np.linalg.solve(np.tril(v["a"]), v["b"][..., None])[..., 0].astype(np.longdouble)}


def _smoothed(v: dict) -> dict:
    a, out = v["a"].astype(np.float64), v["out"].astype(np.float64)
    m = slice(1, -1)
    around = a[:-2, m, m] + a[2:, m, m] + a[m, :-2, m] + a[m, 2:, m] + a[m, m, :-2] + a[m, m, 2:]
    out[m, m, m] = 0.4 * a[m, m, m] + 0.1 * around
    return {"out": out}


def _spectra(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    out = np.fft.fft(a[..., 0] + 1j * a[..., 1], axis=1)
    return {"out": np.stack([out.real, out.imag], -1)}


def _counted(v: dict) -> dict:
    counts, flags = [], []
    for block in np.split(v["a"], range(64, v["a"].size, 64)):
        counts.append([(block > 0).sum(), (block > 0).all(), (block == 0).any()])
        above = np.pad(block > 0, (0, 64 - block.size))
        flags += np.packbits(above, bitorder="little").view(np.uint32).tolist()
    return {"counts": np.array(counts, np.int32), "flags": np.array(flags, np.uint32)}


def _in_blocks(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    a = generator.integers(-5, 9, shape)
    a[64:128] = generator.integers(1, 9, 64)
    return a.astype(dtype)


def _singular(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    a = generator.standard_normal(shape)
    a[::7, :, 0] = 0
    return a.astype(dtype)


def _runs(v: dict) -> dict:
    rows = []
    for start in range(0, v["a"].size, 32):
        warp = v["a"][start : start + 32].tolist()
        rows += [[warp.count(key), start + warp.index(key)] for key in warp]
    return {"out": np.array(rows)}


ENTRIES: tuple[Entry, ...] = (
    _entry("grey_levels", _grey, read("image", "uint8", 15, 37, 3), write("out", "uint8", 15, 37)),
    _entry("emboss", _embossed, read("a", "float32", 21, 45), write("out", "float32", 21, 45)),
    _entry("row_minima", lambda v: {"least": v["a"].min(1), "where": v["a"].argmin(1)}, read("a", "float64", 5, 150),
           write("least", "float64", 5), write("where", "int32", 5), a=draws.integers(-60, 60)),
    _entry("sums_by_key", _by_key, read("keys", "int32", 500), read("values", "int32", 500),
           update("sums", "int64", 24), update("most", "int32", 24), keys=draws.integers(0, 24),
           uncounted="the assembler makes loops of its wide atomics",
           values=draws.integers(-2**31, 2**31), sums=draws.zeros, most=draws.fixed([-2**31] * 24)),
    _entry("bitonic_rows", lambda v: {"out": np.sort(v["a"], 1)}, read("a", "uint32", 3, 117),
           write("out", "uint32", 3, 117)),
    _entry("sparse_times_dense", _sparse, read("starts", "int32", 34), read("columns", "int32", 210),
           read("values", "float32", 210), read("b", "float32", 40, 19), write("out", "float32", 33, 19),
           tolerance=1e-5, starts=draws.row_starts(210), columns=draws.integers(0, 40)),
    _entry("reach", _reached, read("edges", "int32", 230, 2), update("level", "int32", 120),
           update("marks", "int32", 120), update("changed", "int32", 4), edges=draws.integers(0, 120),
           marks=draws.zeros, changed=draws.zeros,
           level=draws.fixed(np.where(np.arange(120) % 50 == 7, 0, -1))),
    _entry("convolve_same", lambda v: {"out": np.array([np.convolve(row, _TAPS, "same") for row in v["a"]])},
           read("a", "float32", 3, 139), write("out", "float32", 3, 139)),
    _entry("momentum", _momentum, update("weights", "float32", 333), update("speeds", "float32", 333),
           read("slopes", "float32", 333)),
    _entry("attend", _attended, read("q", "float32", 5, 16), read("k", "float32", 43, 16), read("v", "float32", 43, 24),
           write("out", "float32", 5, 24), tolerance=1e-5, approximate=_CLOSE),
    _entry("pi_by_chance", _inside, update("total", "int32", 1), total=draws.zeros),
    _entry("american_put", _put, read("strikes", "float64", 3), write("out", "float64", 3), tolerance=1e-12,
           strikes=draws.fixed([85, 100, 140])),
    _entry("fill_cells", _cells, read("places", "float64", 300, 2), read("weights", "uint32", 300),
           update("counts", "int32", 7, 11), update("sums", "uint64", 7, 11), places=draws.uniform(0, 1),
           counts=draws.zeros, sums=draws.zeros),
    _entry("leapfrog", _leapt, read("state", "float64", 4, 90), write("out", "float64", 4, 90), tolerance=1e-13,
           state=_orbits),
    _entry("pool", _pooled, read("a", "float32", 2, 13, 43), write("out", "float32", 2, 6, 21),
           write("where", "uint8", 2, 6, 21), a=draws.integers(-5, 5)),
    _entry("vote", _voted, read("points", "int32", 90, 3), read("labels", "int32", 90), read("queries", "int32", 50, 3),
           write("out", "int32", 50), points=draws.integers(-50, 50), labels=draws.integers(0, 4),
           queries=draws.integers(-50, 50)),
    _entry("bit_reports", _bits, read("a", "uint64", 90), write("out", "uint64", 90, 4)),
    _entry("solve_lower", _solved, read("a", "float64", 45, 7, 7), read("b", "float64", 45, 7),
           write("out", "float64", 45, 7), tolerance=1e-13, a=_lower),
    _entry("smooth_volume", _smoothed, read("a", "float32", 7, 13, 27), update("out", "float32", 7, 13, 27)),
    _entry("spectra", _spectra, read("a", "float32", 3, 64, 2), read("turns", "float32", 32, 2),
           write("out", "float32", 3, 64, 2), tolerance=1e-5, turns=draws.fixed(_TURNS)),
    _entry("count_blocks", _counted, read("a", "int32", 213), write("counts", "int32", 4, 3),
           write("flags", "uint32", 8), a=_in_blocks),
    _entry("determinants", lambda v: {"out": np.linalg.det(v["a"]).astype(np.longdouble)},
           read("a", "float64", 50, 5, 5), write("out", "float64", 50), tolerance=1e-13, a=_singular),
    _entry("lane_runs", _runs, read("a", "int32", 128), write("out", "int32", 128, 2), a=draws.integers(0, 9)),
)  # fmt: skip
