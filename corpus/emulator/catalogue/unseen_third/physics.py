"""Entries of kernels/unseen_third/physics.py."""

from __future__ import annotations

from math import erf

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_third", "physics")
_CLOSE = Approximate(32, "approximate functions", 1e-4)
_WORD = 0xFFFFFFFF
_OUTLINE = np.array(
    [[0, 0], [90, 10], [70, 50], [100, 100], [50, 60], [20, 95], [30, 50], [-20, 70], [5, 30]], np.int64
)


def _barrier(v: dict) -> dict:
    path = np.cumsum(-0.0002 + 0.04 * v["normals"].astype(np.float64), 0)
    worth = np.maximum(100 * np.exp(path[-1]) - 95, 0)
    return {"out": np.where((path < -0.1).any(0), 0, worth)}


def _call(strike: float, volatility: float) -> float:
    spread = volatility * np.sqrt(0.5)
    d = np.log(20 / strike) / spread + 0.5 * spread
    below, above = ((1 + erf(x / np.sqrt(2))) / 2 for x in (d, d - spread))
    return 20 * below - strike * above


def _volatility(v: dict) -> dict:
    out = []
    for price, strike in zip(v["prices"], v["strikes"], strict=True):
        low, high = 0.01, 2.0
        while high - low > 1e-4:
            mid = (low + high) / 2
            low, high = (mid, high) if _call(strike, mid) < price else (low, mid)
        out.append((low + high) / 2)
    return {"out": np.array(out, np.longdouble)}


def _prices(strikes: np.ndarray) -> np.ndarray:
    """Prices of calls whose volatility is 0.1, 0.13, ...; the last ones are worth more than any volatility explains."""
    prices = [_call(strike, 0.1 + 0.03 * i) for i, strike in enumerate(strikes)]
    return np.array(prices[:-3] + [19.9] * 3)


def _heat(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    for _ in range(5):
        p = np.pad(a, 1, mode="edge")
        a = a + float(np.float32(0.2)) * (p[:-2] - 2 * a + p[2:])
    return {"out": a}


def _laplacian(v: dict) -> dict:
    h, w = v["a"].shape
    a = np.pad(v["a"].astype(np.float64), 1)
    weights = np.array([[1, 4, 1], [4, -20, 4], [1, 4, 1]]) / 6
    return {"out": sum(weights[j, i] * a[j : j + h, i : i + w] for j in range(3) for i in range(3))}


def _advected(v: dict) -> dict:
    a, flow = v["a"].astype(np.float64), v["flow"].astype(np.float64)
    p = np.pad(a, 1)
    m = slice(1, -1)
    before = p[m, m, :-2], p[m, :-2, m], p[:-2, m, m]
    after = p[m, m, 2:], p[m, 2:, m], p[2:, m, m]
    change = sum(flow[..., k] * np.where(flow[..., k] > 0, a - before[k], after[k] - a) for k in range(3))
    return {"out": a - 0.1 * change + 0.1 * flow[..., 3]}


def _yee(v: dict) -> dict:
    hx, hy, ez = (v[name].astype(np.float64) for name in ("hx", "hy", "ez"))
    for _ in range(2):
        hx[:-1] -= 0.5 * (ez[1:] - ez[:-1])
        hy[:, :-1] += 0.5 * (ez[:, 1:] - ez[:, :-1])
        turn = hy[1:-1, 1:-1] - hy[1:-1, :-2] - hx[1:-1, 1:-1] + hx[:-2, 1:-1]
        ez[1:-1, 1:-1] += v["slowness"][1:-1, 1:-1] * turn
    return {"hx": hx, "hy": hy, "ez": ez}


def _deposited(v: dict) -> dict:
    grid = v["grid"].copy()
    (x, u), (y, w) = (np.divmod(column.astype(np.int64), 256) for column in v["places"].T)
    q = v["charges"].astype(np.int64)
    for j, down in ((0, 256 - w), (1, w)):
        for i, across in ((0, 256 - u), (1, u)):
            np.add.at(grid, (y + j, x + i), q * across * down)
    return {"grid": grid}


def _pushed(v: dict) -> dict:
    p = v["particles"].astype(np.float64)
    e, b = v["fields"].astype(np.float64)
    half = (0.05 * p[:, 6] / p[:, 7])[:, None]
    speed = p[:, 3:6] + half * e
    turn = half * b
    around = speed + np.cross(speed, turn)
    speed = speed + np.cross(around, 2 * turn / (1 + (turn * turn).sum(1, keepdims=True))) + half * e
    return {"particles": np.concatenate([p[:, :3] + 0.1 * speed, speed, p[:, 6:]], 1)}


def _particles(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Places, speeds, charges of either sign and masses."""
    drawn = generator.standard_normal(shape)
    drawn[:, 7] = generator.uniform(0.5, 3, shape[0])
    return drawn.astype(dtype)


def _lattice(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Places near those of a lattice whose cells are one wide, five cells a side."""
    k = np.arange(shape[0])
    places = np.stack([k % 5, k // 5 % 5, k // 25, k * 0], 1)
    return (places + generator.uniform(-0.1, 0.1, shape)).astype(dtype)


def _forces(v: dict) -> dict:
    places, forces = v["places"][:, :3].astype(np.float64), []
    for i, count in enumerate(v["counts"]):
        d = places[i] - places[v["near"][:count, i]]
        d -= 5 * np.rint(d / 5)
        square = (d * d).sum(1)
        d, square = d[square <= 4], square[square <= 4]
        force = (d * (48 / square**7 - 24 / square**4)[:, None]).sum(0)
        forces.append([*force, (2 / square**6 - 2 / square**3).sum()])
    return {"forces": np.array(forces)}


def _others(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """In each column, whole numbers that differ from one another and from the column's own number."""
    most, n = shape
    return np.stack([(i + 1 + generator.permutation(n - 1)[:most]) % n for i in range(n)], 1).astype(dtype)


def _flipped(v: dict) -> dict:
    spins = v["spins"].astype(int)
    h, w = spins.shape
    y, x = np.mgrid[0:h, 0:w]
    for time in range(2):
        for colour in (0, 1):
            around = sum(np.roll(spins, *shift) for shift in ((1, 0), (-1, 0), (1, 1), (-1, 1)))
            drawn = ((y * w + x) * 0x9E3779B9 + time * 0x85EBCA6B) & _WORD
            drawn = (drawn ^ drawn >> 15).astype(np.uint64) * np.uint64(0xC2B2AE35) & np.uint64(_WORD)
            drawn = drawn ^ drawn >> np.uint64(13)
            gain = around * spins
            flips = (gain <= 0) | (drawn < v["chances"][np.maximum(gain, 0)])
            spins = np.where(flips & ((x + y) % 2 == colour), -spins, spins)
    return {"spins": spins}


def _kepler(v: dict) -> dict:
    m, e = v["anomaly"].astype(np.longdouble), v["eccentricity"].astype(np.longdouble)
    low, high = np.zeros_like(m), np.full_like(m, 7)
    for _ in range(70):
        mid = (low + high) / 2
        less = mid - e * np.sin(mid) < m
        low, high = np.where(less, mid, low), np.where(less, high, mid)
    return {"out": np.stack([np.cos(low) - e, np.sqrt(1 - e * e) * np.sin(low)], 1)}


def _fourier(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    out = np.fft.fft(a[..., 0] + 1j * a[..., 1], axis=0)
    return {"out": np.stack([out.real, out.imag], -1)}


def _lifted(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    even, odd = a[:, ::2], a[:, 1::2]
    odd = odd - (even + np.concatenate([even[:, 1:], even[:, -1:]], 1)) // 2
    return even + (np.concatenate([odd[:, :1], odd[:, :-1]], 1) + odd + 2) // 4, odd


def _wavelet(v: dict) -> dict:
    even, fine = _lifted(v["a"].astype(int))
    coarse, middle = _lifted(even)
    return {"out": np.concatenate([coarse, middle, fine], 1)}


def _warped(v: dict) -> dict:
    out = []
    for a, b in zip(v["a"].astype(np.float64), v["b"].astype(np.float64), strict=True):
        table = np.full((a.size + 1, b.size + 1), np.inf)
        table[0, 0] = 0
        for i in range(a.size):
            for j in range(max(0, i - 12), min(b.size, i + 13)):
                best = min(table[i, j], table[i, j + 1], table[i + 1, j])
                table[i + 1, j + 1] = best + abs(a[i] - b[j])
        out.append(table[-1, -1])
    return {"out": np.array(out)}


def _hits(v: dict) -> dict:
    hit, depth = [], []
    triangles = v["triangles"].astype(np.float64).reshape(-1, 3, 3)
    for o, d in zip(v["origins"].astype(np.float64), v["rays"].astype(np.float64), strict=True):
        best, first = 1e30, -1
        for k, (a, ab, ac) in enumerate(triangles):
            # o + at * d = a + u * ab + v * ac
            u, w, at = np.linalg.solve(np.stack([ab, ac, -d], 1), o - a)
            if u >= 0 and w >= 0 and u + w <= 1 and 0 < at < best:
                best, first = at, k
        hit.append(first)
        depth.append(best)
    return {"hit": np.array(hit), "depth": np.where(np.array(hit) < 0, -1, depth)}


def _covered(v: dict) -> dict:
    out = np.zeros(v["out"].shape, int)
    y, x = np.indices(out.shape)
    for t, (a, b, c) in enumerate(v["corners"].astype(int)):
        sides = [(q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0]) for p, q in ((a, b), (b, c), (c, a))]
        out[np.all([s > 0 for s in sides], 0) | np.all([s < 0 for s in sides], 0)] = t + 1
    return {"out": out}


def _within(v: dict) -> dict:
    inside = np.zeros(v["out"].size * 32, bool)
    for i, (x, y) in enumerate(v["points"].tolist()):
        for (ax, ay), (bx, by) in zip(_OUTLINE.tolist(), np.roll(_OUTLINE, -1, 0).tolist(), strict=True):
            if (ay > y) != (by > y):
                # The crossing is right of the point, without a division.
                left, right = (x - ax) * (by - ay), (bx - ax) * (y - ay)
                inside[i] ^= left < right if by > ay else left > right
    return {"out": np.packbits(inside, bitorder="little").view(np.uint32)}


_STRIKES = np.linspace(14, 27, 45)
_CHANCES = [0, 0, int(np.exp(-2 / 2.3) * 2**32), 0, int(np.exp(-4 / 2.3) * 2**32)]

ENTRIES: tuple[Entry, ...] = (
    _entry("barrier_paths", _barrier, read("normals", "float32", 25, 150), write("out", "float32", 150), tolerance=1e-5,
           approximate=_CLOSE),
    _entry("implied_volatility", _volatility, read("prices", "float64", 45), read("strikes", "float64", 45),
           write("out", "float64", 45), tolerance=1e-12, prices=draws.fixed(_prices(_STRIKES)),
           strikes=draws.fixed(_STRIKES)),
    _entry("heat_steps", _heat, read("a", "float32", 235), write("out", "float32", 235)),
    _entry("march_columns", _laplacian, read("a", "float32", 24, 71), write("out", "float32", 24, 71)),
    _entry("advect", _advected, read("a", "float32", 5, 9, 37), read("flow", "float32", 5, 9, 37, 4),
           write("out", "float32", 5, 9, 37)),
    _entry("yee_steps", _yee, update("hx", "float32", 19, 41), update("hy", "float32", 19, 41),
           update("ez", "float32", 19, 41), read("slowness", "float32", 19, 41), slowness=draws.uniform(0.1, 0.5)),
    _entry("deposit", _deposited, read("places", "uint32", 300, 2), read("charges", "int32", 300),
           update("grid", "int64", 12, 16), places=draws.integers(0, 11 * 256), charges=draws.integers(-999, 999),
           grid=draws.zeros, uncounted="the assembler makes loops of its wide atomics"),
    _entry("boris", _pushed, update("particles", "float32", 107, 8), read("fields", "float32", 2, 3), tolerance=1e-5,
           particles=_particles, fields=draws.fixed([[0.1, 0, -0.2], [0, 0.5, 1.5]])),
    _entry("pair_forces", _forces, read("places", "float32", 125, 4), read("counts", "int32", 125),
           read("near", "int32", 30, 125), write("forces", "float32", 125, 4), tolerance=1e-5, places=_lattice,
           counts=draws.integers(0, 31), near=_others),
    _entry("flip_spins", _flipped, update("spins", "int8", 14, 42), read("chances", "uint32", 5),
           spins=lambda generator, shape, dtype: generator.choice((-1, 1), shape).astype(dtype),
           chances=draws.fixed(_CHANCES)),
    _entry("kepler", _kepler, read("anomaly", "float64", 110), read("eccentricity", "float64", 110),
           write("out", "float64", 110, 2), tolerance=1e-12, anomaly=draws.uniform(0, 6.28),
           eccentricity=draws.uniform(0, 0.9)),
    _entry("fourier_9", _fourier, read("a", "float32", 9, 90, 2), write("out", "float32", 9, 90, 2), tolerance=1e-5),
    _entry("wavelet", _wavelet, read("a", "int16", 5, 84), write("out", "int16", 5, 84),
           a=draws.integers(-2000, 2000)),
    _entry("time_warp", _warped, read("a", "float32", 3, 45), read("b", "float32", 3, 51), write("out", "float32", 3),
           tolerance=1e-5),
    _entry("first_hits", _hits, read("triangles", "float32", 39, 9), read("origins", "float32", 100, 3),
           read("rays", "float32", 100, 3), write("hit", "int32", 100), write("depth", "float32", 100), tolerance=1e-5),
    _entry("cover", _covered, read("corners", "int32", 7, 3, 2), write("out", "uint8", 27, 45),
           corners=draws.integers(-10, 55)),
    _entry("within", _within, read("points", "int32", 170, 2), write("out", "uint32", 6),
           points=draws.integers(-25, 105)),
)  # fmt: skip
