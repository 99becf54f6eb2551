"""Entries of kernels/unseen_fifth/physics.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_fifth", "physics")
_CLOSE = Approximate(32, "approximate functions", 1e-5)


def _bodies(v: dict) -> dict:
    def change(s: np.ndarray) -> np.ndarray:
        x, y, u, w = (s[:, 3 * k : 3 * k + 3] for k in range(4))
        dx, dy = x[:, None, :] - x[:, :, None], y[:, None, :] - y[:, :, None]
        pull = (dx**2 + dy**2 + np.longdouble(0.01)) ** np.longdouble(-1.5)
        return np.hstack([u, w, (pull * dx).sum(2), (pull * dy).sum(2)])

    s, h = v["start"].astype(np.longdouble), np.longdouble(0.05)
    for _ in range(6):
        a = change(s)
        b = change(s + h / 2 * a)
        c = change(s + h / 2 * b)
        d = change(s + h * c)
        s = s + h / 6 * (a + 2 * b + 2 * c + d)
    return {"out": s}


def _gas(v: dict) -> dict:
    c = v["cells"].astype(int) & 15
    for _ in range(9):
        c = np.where(c == 5, 10, np.where(c == 10, 5, c))
        right, down, left, up = (c & bit for bit in (1, 2, 4, 8))
        c = np.roll(right, 1, 2) | np.roll(down, 1, 1) | np.roll(left, -1, 2) | np.roll(up, -1, 1)
    return {"out": c}


def _wood(v: dict) -> dict:
    now = v["wood"].astype(int)
    h, w = now.shape
    for step in range(6):
        r = (np.arange(h * w, dtype=np.uint32).reshape(h, w) + np.uint32(step * 7919)) * np.uint32(2654435761)
        r ^= r >> 13
        r *= np.uint32(0x5BD1E995)
        r ^= r >> 15
        fire = now == 2
        around = np.roll(fire, 1, 0) | np.roll(fire, -1, 0)
        around[:, 1:] |= fire[:, :-1]
        around[:, :-1] |= fire[:, 1:]
        lit = around | ((r & 63) == 0)
        now = np.choose(now, [((r & 7) == 0).astype(int), np.where(lit, 2, 1), 0 * now])
    return {"wood": now}


def _reacted(v: dict) -> dict:
    a, b = v["field"].astype(float)[..., 0], v["field"].astype(float)[..., 1]
    for _ in range(8):
        spread = [
            sum(np.roll(f, way, axis) for way in (1, -1) for axis in (1, 2)) - 4 * f for f in (a, b)
        ]  # both are rings
        reaction = a * b * b
        a, b = (
            a + 0.16 * spread[0] - reaction + 0.035 * (1 - a),
            b + 0.08 * spread[1] + reaction - (0.035 + 0.065) * b,
        )
    return {"out": np.stack([a, b], -1)}


def _met(v: dict) -> dict:
    d, s = v["directions"].astype(float), v["spheres"].astype(float)
    d /= np.linalg.norm(d, axis=1)[:, None]
    along = d @ s[:, :3].T
    inside = s[:, 3] ** 2 - (s[:, :3] ** 2).sum(1) + along**2
    t = along - np.sqrt(np.maximum(inside, 0))
    t = np.where((along >= 0) & (inside >= 0) & (t > 0), t, np.inf)
    found = np.isfinite(t.min(1))
    return {"hit": np.where(found, t.argmin(1), -1), "distance": np.where(found, t.min(1), 0)}


def _spheres(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    centres = generator.uniform(-6, 6, (shape[0], 3))
    return np.column_stack([centres, generator.uniform(0.3, 0.9, shape[0])]).astype(dtype)


def _curves(v: dict) -> dict:
    places = v["out"].shape[1]
    t = np.linspace(0, 1, places)[:, None]
    shares = np.hstack([n * t**k * (1 - t) ** (5 - k) for k, n in enumerate((1, 5, 10, 10, 5, 1))])
    return {"out": shares @ v["controls"].astype(float)}


def _turned(v: dict) -> dict:
    q = v["turns"].astype(float)
    out = q.copy()
    for k in range(1, q.shape[1]):
        ax, ay, az, aw = out[:, k - 1].T
        bx, by, bz, bw = q[:, k].T
        out[:, k] = np.column_stack(
            [
                aw * bx + ax * bw + ay * bz - az * by,
                aw * by - ax * bz + ay * bw + az * bx,
                aw * bz + ax * by - ay * bx + az * bw,
                aw * bw - ax * bx - ay * by - az * bz,
            ]
        )
    return {"out": out}


def _unit(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    q = generator.standard_normal(shape)
    return (q / np.linalg.norm(q, axis=-1, keepdims=True)).astype(dtype)


def _ship(v: dict) -> dict:
    h, w = v["out"].shape
    one, out = 1 << 24, np.zeros((h, w), int)
    for j in range(h):
        for i in range(w):
            a, b = -(9 * one // 5) + i * (one // 300), -(one // 10) + j * (one // 300)
            x = y = k = 0
            while k < 60 and (x * x >> 24) + (y * y >> 24) <= 4 * one:
                x, y = (x * x >> 24) - (y * y >> 24) + a, abs(x * y >> 23) + b
                k += 1
            out[j, i] = k
    return {"out": out}


def _lifted(v: dict) -> dict:
    out = v["a"].astype(int)
    n, step = out.shape[1], 1
    while 2 * step <= n:
        level = out[:, ::step].copy()
        even, odd = level[:, ::2], level[:, 1::2]
        right = np.hstack([even[:, 1:], even[:, -1:]])[:, : odd.shape[1]]
        odd -= (even[:, : odd.shape[1]] + right) >> 1
        left = np.hstack([odd[:, :1], odd])[:, : even.shape[1]]
        after = np.hstack([odd, odd[:, -1:]])[:, : even.shape[1]]
        even += (left + after + 2) >> 2
        out[:, ::step] = level
        step *= 2
    return {"out": out}


def _payments(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A price that is paid first, then what comes back and is a little more in all."""
    back = generator.uniform(5, 30, shape)
    back[0] = -back[1:].sum(0) * generator.uniform(0.5, 0.95, shape[1])
    return back.astype(dtype)


def _rates(v: dict) -> dict:
    p = v["payments"].astype(np.longdouble)
    low, high = np.zeros(p.shape[1], np.longdouble), np.full(p.shape[1], 2, np.longdouble)
    for _ in range(70):
        middle = (low + high) / 2
        value = sum(row / (1 + middle) ** k for k, row in enumerate(p))
        low, high = np.where(value > 0, middle, low), np.where(value > 0, high, middle)
    return {"rate": low}


ENTRIES: tuple[Entry, ...] = (
    _entry("three_bodies", _bodies, read("start", "float64", 45, 12), write("out", "float64", 45, 12),
           tolerance=1e-11),
    _entry("lattice_gas", _gas, read("cells", "uint8", 3, 16, 20), write("out", "uint8", 3, 16, 20)),
    _entry("forest_fire", _wood, update("wood", "uint8", 21, 45), write("other", "uint8", 21, 45),
           wood=draws.integers(0, 3)),
    _entry("react", _reacted, read("field", "float32", 2, 12, 24, 2), write("out", "float32", 2, 12, 24, 2),
           field=draws.uniform(0, 1), tolerance=1e-5),
    _entry("meet_spheres", _met, read("directions", "float32", 350, 3), read("spheres", "float32", 21, 4),
           write("hit", "int32", 350), write("distance", "float32", 350), spheres=_spheres, tolerance=1e-4,
           approximate=_CLOSE),
    _entry("bezier", _curves, read("controls", "float32", 7, 6, 2), write("out", "float32", 7, 75, 2), tolerance=1e-5),
    _entry("turn_joints", _turned, read("turns", "float32", 8, 27, 4), write("out", "float32", 8, 27, 4), turns=_unit,
           tolerance=1e-5),
    _entry("burning_ship", _ship, write("out", "uint16", 21, 45)),
    _entry("lift_rows", _lifted, read("a", "int16", 4, 203), write("out", "int16", 4, 203),
           a=draws.integers(-2000, 2000)),
    _entry("internal_rates", _rates, read("payments", "float64", 9, 90), write("rate", "float64", 90),
           payments=_payments, tolerance=1e-12),
)  # fmt: skip
