"""Entries of kernels/unseen_second/physics.py."""

from __future__ import annotations

from itertools import product
from math import erfc

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_second", "physics")
_CLOSE = Approximate(32, "approximate functions", 1e-4)
_CX, _CY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
_WEIGHTS = np.array([16, 4, 4, 4, 4, 1, 1, 1, 1]) / 36
_OPPOSITE = [next(i for i in range(9) if (_CX[i], _CY[i]) == (-_CX[k], -_CY[k])) for k in range(9)]
_CELLS = np.array([0, 5, 5, 12, 50, 58, 60, 75, 75, 90, 100])  # where the particles of each of ten cells begin


def _scene(x: float, y: float, z: float) -> float:
    x, z = x - round(x / 2) * 2, z - round(z / 2) * 2
    box = np.sqrt(sum(max(d, 0) ** 2 for d in (abs(x) - 0.3, abs(y) - 0.9, abs(z) - 0.3))) - 0.05
    return min(np.sqrt(x * x + y * y + z * z) - 0.6, box, y + 1)


def _rays(v: dict) -> dict:
    h, w = v["steps"].shape
    steps, depth = np.zeros((h, w), np.int64), np.zeros((h, w))
    for y, x in np.ndindex(h, w):
        ray = np.array([(x + 0.5) / w * 2 - 1, (y + 0.5) / h * 2 - 1, 1])
        ray /= np.linalg.norm(ray)
        t, n = 0.0, 0
        while n < 40:
            d = _scene(*(np.array([1, 0.25, -3]) + ray * t))
            if d < 0.01:
                break
            t += d
            if t > 12:
                break
            n += 1
        steps[y, x], depth[y, x] = n, t
    return {"steps": steps, "depth": depth}


def _lattice(v: dict) -> dict:
    f, wall = v["f"].astype(np.float64), v["wall"] > 0
    pulled = np.empty_like(f)
    for k in range(9):
        shift = (_CY[k], _CX[k])
        pulled[k] = np.where(np.roll(wall, shift, (0, 1)), f[_OPPOSITE[k]], np.roll(f[k], shift, (0, 1)))
    rho = pulled.sum(0)
    ux, uy = (np.tensordot(c, pulled, 1) / rho for c in (_CX, _CY))
    out = np.empty_like(f)
    for k in range(9):
        c = _CX[k] * ux + _CY[k] * uy
        equal = _WEIGHTS[k] * rho * (1 + 3 * c + 4.5 * c * c - 1.5 * (ux * ux + uy * uy))
        out[k] = np.where(wall, f[k], pulled[k] + 1.25 * (equal - pulled[k]))
    return {"out": out}


def _bit_life(v: dict) -> dict:
    h, w = v["a"].shape
    cells = (v["a"][..., None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)).reshape(h, 32 * w).astype(int)
    alive = sum(np.roll(cells, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1)) - cells
    after = (alive == 3) | (alive == 2) & (cells == 1)
    words = (after.reshape(h, w, 32).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(-1)
    return {"out": words.astype(np.uint32)}


def _circle(v: dict) -> dict:
    total = 0
    for i in range(3 * 64 * 10):
        c, k = [i, 0, 0x2545F491, 0], [12345, ~12345 & 0xFFFFFFFF]
        for _ in range(7):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        x, y, u, w = ((n >> 8) / 2**24 for n in c)
        total += (x * x + y * y < 1) + (u * u + w * w < 1)
    return {"total": np.array([total], np.int32)}


def _asian(v: dict) -> dict:
    u = v["uniform"].astype(np.float64)
    radius, angle = np.sqrt(-2 * np.log(u[::2])), 2 * np.pi * u[1::2]
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(12, -1)
    prices = 100 * np.exp(np.cumsum((0.03 - 0.5 * 0.25**2) / 12 + 0.25 / np.sqrt(12) * normal, 0))
    return {"out": np.exp(-0.03) * np.maximum(prices.mean(0) - 95, 0)}


def _black_scholes(v: dict) -> dict:
    s, k, t = v["price"], v["strike"], v["years"]

    def below(x: np.ndarray) -> np.ndarray:
        return np.array([erfc(-y / 2**0.5) / 2 for y in x])

    d1 = (np.log(s / k) + (0.02 + 0.5 * 0.3**2) * t) / (0.3 * np.sqrt(t))
    d2 = d1 - 0.3 * np.sqrt(t)
    now = k * np.exp(-0.02 * t)
    call, put = s * below(d1) - now * below(d2), now * below(-d2) - s * below(-d1)
    return {"call": call.astype(np.longdouble), "put": put.astype(np.longdouble)}


def _tree(v: dict) -> dict:
    out = []
    for strike in v["strikes"].astype(np.float64):
        value = np.maximum(strike - 100 * 1.02 ** (2.0 * np.arange(64) - 63), 0)
        for step in range(62, -1, -1):
            node = 100 * 1.02 ** (2.0 * np.arange(step + 1) - step)
            value = np.maximum(0.999 * (0.505 * value[1:] + 0.495 * value[:-1]), strike - node)
        out.append(value[0])
    return {"out": np.array(out)}


def _in_cells(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Places in a row of cells of one by one, in the order of the cells."""
    cell = np.repeat(np.arange(10), np.diff(_CELLS))
    return (np.stack([cell, np.zeros(100)], 1) + generator.random(shape)).astype(dtype)


def _forces(v: dict) -> dict:
    p = v["place"].astype(np.float64)
    cell = np.repeat(np.arange(10), np.diff(v["starts"]))
    d = p[:, None] - p[None]
    r2 = (d * d).sum(-1)
    near = (np.abs(cell[:, None] - cell[None]) <= 1) & (r2 < 1) & ~np.eye(100, dtype=bool)
    s = 1 / (r2 + 0.5)
    return {"force": (np.where(near, 24 * s**4 * (2 * s**3 - 1), 0)[..., None] * d).sum(1)}


def _wave(v: dict) -> dict:
    a = np.pad(v["now"].astype(np.float64), 1)
    mid = a[1:-1, 1:-1, 1:-1]
    around = a[2:, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1] + a[1:-1, 2:, 1:-1] + a[1:-1, :-2, 1:-1]
    around = around + a[1:-1, 1:-1, 2:] + a[1:-1, 1:-1, :-2]
    return {"out": 2 * mid - v["before"] + 0.1 * (around - 6 * mid)}


def _catmull_rom(size: int, wide: int) -> np.ndarray:
    """A row for each of `wide` points: what it takes of each of `size`."""
    weights = np.zeros((wide, size))
    for x in range(wide):
        u = (x + 0.5) * size / wide - 0.5
        i = int(np.floor(u))
        t = u - i
        inner = (1 - 2.5 * t * t + 1.5 * t**3, 0.5 * t + 2 * t * t - 1.5 * t**3)
        for k, weight in enumerate((-0.5 * t + t * t - 0.5 * t**3, *inner, -0.5 * t * t + 0.5 * t**3)):
            weights[x, min(max(i + k - 1, 0), size - 1)] += weight
    return weights


def _bicubic(v: dict) -> dict:
    (h, w), (oh, ow) = v["image"].shape, v["out"].shape
    large = _catmull_rom(h, oh) @ v["image"].astype(np.float64) @ _catmull_rom(w, ow).T
    return {"out": np.floor(np.clip(large + 0.5, 0, 255)).astype(np.int64)}


def _edges(v: dict) -> dict:
    a = np.pad(v["image"].astype(int), 1)
    smooth_y = a[:-2] + 2 * a[1:-1] + a[2:]
    smooth_x = a[:, :-2] + 2 * a[:, 1:-1] + a[:, 2:]
    gx, gy = smooth_y[:, 2:] - smooth_y[:, :-2], smooth_x[2:] - smooth_x[:-2]
    return {"size": abs(gx) + abs(gy), "direction": (gy < 0) * 4 + (gx < 0) * 2 + (abs(gy) > abs(gx))}


def _bilateral(v: dict) -> dict:
    a = v["image"].astype(np.float64)
    h, w = a.shape
    total, sums = np.zeros((h, w)), np.zeros((h, w))
    for j, i in product(range(-2, 3), repeat=2):
        y, x = np.mgrid[0:h, 0:w]
        inside = (y + j >= 0) & (y + j < h) & (x + i >= 0) & (x + i < w)
        other = a[np.clip(y + j, 0, h - 1), np.clip(x + i, 0, w - 1)]
        k = np.exp(-0.125 * (i * i + j * j) - 2 * (other - a) ** 2) * inside
        total, sums = total + k, sums + k * other
    return {"out": sums / total}


def _cosine_table() -> np.ndarray:
    k, x = np.mgrid[0:8, 0:8]
    return np.where(k == 0, np.sqrt(1 / 8), 0.5) * np.cos((2 * x + 1) * k * np.pi / 16)


def _cosines(v: dict) -> dict:
    table = _cosine_table()
    blocks = v["image"].astype(np.float64) - 128
    return {"out": np.rint(table @ blocks @ table.T / v["divisors"]).astype(np.int64)}


def _lorenz(v: dict) -> dict:
    s = v["start"].astype(np.longdouble)
    dt = np.longdouble(0.01)

    def slope(p: np.ndarray) -> np.ndarray:
        x, y, z = p.T
        return np.stack([10 * (y - x), x * (28 - z) - y, x * y - np.longdouble(8) / 3 * z], 1)

    for _ in range(4):
        a = slope(s)
        b = slope(s + dt / 2 * a)
        c = slope(s + dt / 2 * b)
        s = s + dt / 6 * (a + 2 * b + 2 * c + slope(s + dt * c))
    return {"out": s}


def _stable(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Coefficients of filters whose poles lie within a circle of 0.9."""
    radius, angle = generator.uniform(0, 0.9, shape[0]), generator.uniform(0, np.pi, shape[0])
    poles = np.stack([-2 * radius * np.cos(angle), radius**2], 1)
    return np.concatenate([generator.uniform(-1, 1, (shape[0], 3)), poles], 1).astype(dtype)


def _biquads(v: dict) -> dict:
    x, (b0, b1, b2, a1, a2) = v["samples"].astype(np.float64), v["coefficients"].astype(np.float64).T
    x, y = np.pad(x, ((2, 0), (0, 0))), np.zeros((len(x) + 2, x.shape[1]))
    for i in range(2, len(x)):
        y[i] = b0 * x[i] + b1 * x[i - 1] + b2 * x[i - 2] - a1 * y[i - 1] - a2 * y[i - 2]
    return {"out": y[2:]}


ENTRIES: tuple[Entry, ...] = (
    _entry("march_rays", _rays, write("steps", "int32", 12, 40), write("depth", "float32", 12, 40), tolerance=1e-5),
    _entry("lattice_step", _lattice, read("f", "float32", 9, 14, 40), read("wall", "uint8", 14, 40),
           write("out", "float32", 9, 14, 40), tolerance=1e-5, f=draws.uniform(0.05, 0.15),
           wall=draws.fixed(np.arange(560).reshape(14, 40) % 13 == 0)),
    _entry("life_in_bits", _bit_life, read("a", "uint32", 50, 5), write("out", "uint32", 50, 5)),
    _entry("count_in_circle", _circle, update("total", "int32", 1), total=draws.zeros),
    _entry("asian_option", _asian, read("uniform", "float32", 12, 128), write("out", "float32", 128), tolerance=1e-5,
           approximate=_CLOSE, uniform=draws.uniform(1e-6, 1)),
    _entry("black_scholes", _black_scholes, read("price", "float64", 200), read("strike", "float64", 200),
           read("years", "float64", 200), write("call", "float64", 200), write("put", "float64", 200), tolerance=1e-13,
           price=draws.uniform(5, 30), strike=draws.uniform(1, 100), years=draws.uniform(0.25, 10)),
    _entry("binomial_put", _tree, read("strikes", "float32", 5), write("out", "float32", 5), tolerance=2e-5,
           approximate=_CLOSE, strikes=draws.fixed([60, 90, 100, 110, 250])),
    _entry("cell_forces", _forces, read("place", "float32", 100, 2), read("starts", "int32", 11),
           write("force", "float32", 100, 2), tolerance=2e-5, place=_in_cells, starts=draws.fixed(_CELLS)),
    _entry("wave_3d", _wave, read("now", "float32", 6, 13, 21), read("before", "float32", 6, 13, 21),
           write("out", "float32", 6, 13, 21)),
    _entry("enlarge_bicubic", _bicubic, read("image", "uint8", 9, 17), write("out", "uint8", 16, 45)),
    _entry("edges_of_image", _edges, read("image", "uint8", 19, 50), write("size", "uint16", 19, 50),
           write("direction", "uint8", 19, 50)),
    _entry("bilateral", _bilateral, read("image", "float32", 20, 27), write("out", "float32", 20, 27), tolerance=1e-5,
           approximate=_CLOSE),
    _entry("integral", lambda v: {"out": v["image"].cumsum(0).cumsum(1).astype(np.uint32)},
           read("image", "uint8", 16, 90), write("out", "uint32", 16, 90)),
    _entry("cosines_8", _cosines, read("image", "uint8", 8, 8, 8), write("out", "int16", 8, 8, 8),
           read("table", "float32", 8, 8), read("divisors", "uint8", 8, 8), table=draws.fixed(_cosine_table()),
           divisors=draws.integers(3, 60)),
    _entry("lorenz", _lorenz, read("start", "float64", 100, 3), write("out", "float64", 100, 3), tolerance=1e-13,
           start=draws.uniform(-20, 20)),
    _entry("biquads", _biquads, read("samples", "float32", 40, 100), read("coefficients", "float32", 100, 5),
           write("out", "float32", 40, 100), tolerance=1e-5, coefficients=_stable),
)  # fmt: skip
