"""Entries of kernels/unseen_fourth/numba.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, write

_entry = maker("unseen_fourth", "numba", "numba_")
_CLOSE = Approximate(32, "approximate functions", 1e-5)
_WIDE = Approximate(16, "approximate functions", 1e-12)
_LONG = 2**64 - 1
_RANDOM = np.random.default_rng(48)


def _patterns(v: dict) -> dict:
    a = v["image"]
    h, w = a.shape
    places = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
    around = [a[j : j + h - 2, i : i + w - 2] >= a[1:-1, 1:-1] for j, i in places]
    return {"out": sum(bit.astype(int) << k for k, bit in enumerate(around))}


def _painted(v: dict) -> dict:
    h, w = v["image"].shape
    p = np.pad(v["image"].astype(int), 2, mode="edge")
    windows = [
        np.stack([p[b + j : b + j + h, a + i : a + i + w] for j in range(3) for i in range(3)])
        for b in (0, 2)
        for a in (0, 2)
    ]
    spreads = np.stack([9 * (s * s).sum(0) - s.sum(0) ** 2 for s in windows])
    sums = np.stack([s.sum(0) for s in windows])
    return {"out": np.take_along_axis(sums, spreads.argmin(0)[None], 0)[0] // 9}


def _burgers(v: dict) -> dict:
    u = v["u"].astype(np.longdouble)
    for _ in range(8):
        before, after = np.roll(u, 1, 1), np.roll(u, -1, 1)
        flow = u * np.where(u > 0, u - before, after - u)
        u = u - flow / 4 + np.longdouble(0.1) * (before - 2 * u + after)
    return {"out": u}


def _simpson(v: dict) -> dict:
    x, weights = np.linspace(0, 2, 41, dtype=np.longdouble), np.array([1] + [4, 2] * 19 + [4, 1])
    values = np.exp(-x) * np.sin(v["frequencies"].astype(np.longdouble)[:, None] * x)
    return {"out": values @ weights / 60}


def _systems(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.uniform(-1, 1, shape) + 6 * np.eye(shape[1], shape[2])).astype(dtype)


def _eliminated(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    return {"x": np.linalg.solve(a[..., :8], a[..., 8:])[..., 0]}


def _dropped(v: dict) -> dict:
    key, kept = 0xC58EFD154CE32F6D, []
    for i in range(v["a"].size):
        y = i * key & _LONG
        x = y
        for more in (y, y + key):
            x = x * x + more & _LONG
            x = x >> 32 | x << 32 & _LONG
        kept.append((x * x + y & _LONG) >> 32 >= 858993459)
    return {"out": np.where(kept, v["a"] * np.float32(1.25), np.float32(0))}


def _mixed(v: dict) -> dict:
    points, means, widths, shares = (v[n].astype(np.longdouble) for n in ("points", "means", "widths", "shares"))
    square = ((points - means[:, None]) ** 2).sum(-1)
    chance = (shares / widths**2)[:, None] * np.exp(-square / (2 * widths**2)[:, None])
    return {"out": chance / chance.sum(0)}


def _calls(v: dict) -> dict:
    out = []
    for i, strike in enumerate(v["strikes"].tolist()):
        state, total = (i * 0x9E3779B97F4A7C15 + 77) & _LONG, 0.0
        for _ in range(12):
            pair = []
            for _ in range(2):
                state = (state * 6364136223846793005 + 1442695040888963407) & _LONG
                pair.append(((state >> 11) + 0.5) / 2**53)
            normals = np.sqrt(-2 * np.log(pair[0])) * np.array(
                [np.cos(2 * np.pi * pair[1]), np.sin(2 * np.pi * pair[1])]
            )
            total += np.maximum(100 * np.exp(0.2 * normals - 0.02) - strike, 0).sum()
        out.append(total / 24)
    return {"out": np.array(out, np.longdouble)}


def _flock(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return generator.uniform(0, 1, shape).astype(dtype)


def _flown(v: dict) -> dict:
    place, speed = np.split(v["birds"].astype(np.float64), 2, axis=1)
    d = place - place[:, None]
    square = (d * d).sum(-1)
    near, far = square < 0.01, square < 0.04
    np.fill_diagonal(far, False)
    apart = -(d * near[..., None]).sum(1)
    count = far.sum(1)[:, None]
    mean = np.where(count, far @ speed / np.maximum(count, 1) - speed, 0)
    return {"out": speed + 0.5 * apart + 0.125 * mean}


_KNOTS = np.cumsum(_RANDOM.uniform(0.1, 1, 41))


def _splined(v: dict) -> dict:
    knots, pieces, x = (v[name].astype(np.longdouble) for name in ("knots", "pieces", "places"))
    piece = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, 39)
    d = (x - knots[piece])[:, None] ** np.arange(4)
    return {"out": (pieces[piece] * d).sum(1)}


def _correlated(v: dict) -> dict:
    rows = [np.correlate(row, row, "full")[row.size - 1 :][:70] for row in v["a"].astype(np.int64)]
    return {"out": np.array(rows)}


def _combed(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    out = np.zeros_like(a)
    for channel in range(a.shape[1]):
        delay = 11 + channel % 13
        for i in range(delay, len(a)):
            out[i, channel] = a[i - delay, channel] + 0.75 * out[i - delay, channel]
    return {"out": out}


def _turns(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    q = generator.standard_normal(shape)
    return (q / np.linalg.norm(q, axis=1, keepdims=True)).astype(dtype)


def _between(v: dict) -> dict:
    a, b, part = (v[name].astype(np.float64) for name in ("a", "b", "part"))
    dot = (a * b).sum(1)
    b = b * np.sign(dot)[:, None]
    angle = np.arccos(np.abs(dot))
    p, q = np.sin((1 - part) * angle) / np.sin(angle), np.sin(part * angle) / np.sin(angle)
    return {"out": p[:, None] * a + q[:, None] * b}


def _circles(v: dict) -> dict:
    down, across = v["places"].T.astype(np.longdouble)
    sphere = np.stack([np.cos(down) * np.cos(across), np.cos(down) * np.sin(across), np.sin(down)], 1)
    chord = np.sqrt(((sphere[:, None] - sphere) ** 2).sum(-1))
    return {"out": 12742 * np.arcsin(np.minimum(chord / 2, 1))}


ENTRIES: tuple[Entry, ...] = (
    _entry("local_patterns", _patterns, read("image", "uint8", 27, 45), write("out", "uint8", 25, 43)),
    _entry("kuwahara", _painted, read("image", "uint8", 22, 41), write("out", "uint8", 22, 41)),
    _entry("burgers", _burgers, read("u", "float64", 4, 96), write("out", "float64", 4, 96), tolerance=1e-12,
           u=draws.uniform(-1, 1)),
    _entry("simpson", _simpson, read("frequencies", "float64", 80), write("out", "float64", 80), tolerance=1e-12,
           approximate=_WIDE, frequencies=draws.uniform(0.5, 9)),
    _entry("eliminate", _eliminated, read("a", "float32", 9, 8, 9), write("x", "float32", 9, 8), tolerance=1e-5,
           a=_systems),
    _entry("log_sums", lambda v: {"out": np.log(np.exp(v["a"].astype(np.float64)).sum(1))},
           read("a", "float32", 14, 90), write("out", "float32", 14), tolerance=1e-5, approximate=_CLOSE),
    _entry("squares_dropout", _dropped, read("a", "float32", 400), write("out", "float32", 400)),
    _entry("mixture", _mixed, read("points", "float64", 110, 2), read("means", "float64", 6, 2),
           read("widths", "float64", 6), read("shares", "float64", 6), write("out", "float64", 6, 110),
           tolerance=1e-12, approximate=_WIDE, widths=draws.uniform(0.5, 2), shares=draws.uniform(0.1, 1)),
    _entry("calls_by_chance", _calls, read("strikes", "float64", 60), write("out", "float64", 60), tolerance=1e-11,
           approximate=_WIDE, strikes=draws.uniform(70, 130)),
    _entry("flock", _flown, read("birds", "float32", 150, 4), write("out", "float32", 150, 2), tolerance=1e-5,
           birds=_flock),
    _entry("splines", _splined, read("knots", "float64", 41), read("pieces", "float64", 40, 4),
           read("places", "float64", 220), write("out", "float64", 220), tolerance=1e-12, knots=draws.fixed(_KNOTS),
           places=draws.uniform(_KNOTS[0], _KNOTS[-1])),
    _entry("correlations", _correlated, read("a", "int16", 4, 150), write("out", "int32", 4, 70),
           a=draws.integers(-3000, 3000)),
    _entry("combs", _combed, read("a", "float32", 60, 50), write("out", "float32", 60, 50), tolerance=1e-5),
    _entry("slerp", _between, read("a", "float32", 100, 4), read("b", "float32", 100, 4), read("part", "float32", 100),
           write("out", "float32", 100, 4), tolerance=1e-4, approximate=_CLOSE, a=_turns, b=_turns,
           part=draws.uniform(0, 1)),
    _entry("great_circles", _circles, read("places", "float64", 45, 2), write("out", "float64", 45, 45),
           tolerance=1e-10, approximate=Approximate(64, "approximate functions", 1e-8),
           places=draws.uniform(-1.5, 1.5)),
    _entry("all_roots", lambda v: {"out": np.ones((70, 4), np.uint8)}, read("polynomials", "float64", 70, 4),
           write("out", "uint8", 70, 4)),
)  # fmt: skip
