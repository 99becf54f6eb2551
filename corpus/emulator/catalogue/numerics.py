"""Entries of kernels/numerics.py."""

from __future__ import annotations

from math import erfc

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Approximate, Entry, read, update, write

FILE = "kernels/numerics.py"
_DIRECTIONS = np.array(
    [
        [1 << 15 - k for k in range(16)],
        [
            *(32768, 49152, 40960, 61440, 34816, 52224, 43520, 65280),
            *(32896, 49344, 41120, 61680, 34952, 52428, 43690, 65535),
        ],
        [
            *(32768, 16384, 57344, 36864, 26624, 13312, 49664, 33024),
            *(24704, 12352, 57376, 36880, 26632, 13316, 49666, 33025),
        ],
        [1 << k for k in range(16)],
        [65535, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987],
    ]
)  # fmt: skip


def _bodies(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    d = a[None, :, :3] - a[:, None, :3]
    r = (d * d).sum(2) + 0.01
    forces = (d * (a[:, 3] / r**1.5)[:, :, None]).sum(1)
    return {"out": np.concatenate([forces, np.zeros((len(a), 1))], 1)}


def _black_scholes(v: dict) -> dict:
    s, k, t = (v[name].astype(np.float64) for name in ("price", "strike", "years"))
    below = np.vectorize(lambda d: 0.5 * erfc(-d * 0.70710678))
    d1 = (np.log(s / k) + (0.02 + 0.045) * t) / (0.3 * np.sqrt(t))
    d2 = d1 - 0.3 * np.sqrt(t)
    discounted = k * np.exp(-0.02 * t)
    return {"call": s * below(d1) - discounted * below(d2), "put": discounted * below(-d2) - s * below(-d1)}


def _philox(counters: np.ndarray, seed: int) -> np.ndarray:
    """Ten rounds of Philox 4x32 (Salmon et al. 2011): uint64 [n, 4] counters to words."""
    mask, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = counters.astype(np.uint64).T.copy()
    keys = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint64)
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = np.stack([second >> high ^ c[1] ^ keys[0], second & mask, first >> high ^ c[3] ^ keys[1], first & mask])
        keys = keys + np.array([0x9E3779B9, 0xBB67AE85], np.uint64) & mask
    return c.T


def _monte_carlo_pi(v: dict) -> dict:
    count, first = 0, []
    for k in range(4):
        counters = np.zeros((128, 4))
        counters[:, 0], counters[:, 1] = np.arange(128), k
        words = _philox(counters, 0x123456789ABCDEF)
        first.append(words[:, 0])
        short = words >> np.uint64(8)
        for x, y in ((0, 1), (2, 3)):
            count += int((short[:, x] ** 2 + short[:, y] ** 2 < 1 << 48).sum())
    return {"words": first[0].astype(np.uint32), "inside": v["inside"] + np.uint32(count)}


def _sobol(v: dict) -> dict:
    i = np.arange(v["out"].shape[1])
    gray = i ^ i >> 1
    out = np.zeros((5, i.size), np.int64)
    for bit in range(16):
        out ^= np.where(gray >> bit & 1, _DIRECTIONS[:, bit : bit + 1], 0)
    return {"out": out.astype(np.uint32)}


def _fft(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    result = np.fft.fft(a[..., 0] + 1j * a[..., 1], axis=1)
    return {"out": np.stack([result.real, result.imag], 2)}


def _dct(v: dict) -> dict:
    k = np.arange(8)
    basis = np.cos(np.pi * (2 * k + 1) * k[:, None] / 16) / 2
    basis[0] /= np.sqrt(2)
    m, n = v["a"].shape
    blocks = v["a"].astype(np.float64).reshape(m // 8, 8, n // 8, 8).transpose(0, 2, 1, 3)
    return {"out": (basis @ blocks @ basis.T).transpose(0, 2, 1, 3).reshape(m, n)}


def _separable(v: dict) -> dict:
    w = np.array([0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125])
    a = np.pad(v["a"].astype(np.float64), 3)
    m, n = v["a"].shape
    rows = sum(w[k] * a[3:-3, k : k + n] for k in range(7))
    rows = np.pad(rows, ((3, 3), (0, 0)))
    return {"out": sum(w[k] * rows[k : k + m] for k in range(7))}


def _stencil_volume(v: dict) -> dict:
    a = np.pad(v["a"].astype(np.float64), 1)
    c = slice(1, -1)
    near = a[:-2, c, c] + a[2:, c, c] + a[c, :-2, c] + a[c, 2:, c] + a[c, c, :-2] + a[c, c, 2:]
    return {"out": 6 * a[c, c, c] - near}


def _lu(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    for k in range(16):
        a[:, k + 1 :, k] /= a[:, k, k, None]
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]
    return {"a": a}


def _strong_diagonal(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.standard_normal(shape) + 20 * np.eye(shape[-1])).astype(dtype)


def _positive(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    a = generator.standard_normal(shape)
    return (a @ a.swapaxes(1, 2) + 12 * np.eye(shape[-1])).astype(dtype)


def _attention(v: dict) -> dict:
    q, k, x = (v[name].astype(np.float64) for name in "qkv")
    scores = np.where(np.tri(len(q)) > 0, q @ k.T, -np.inf)
    e = np.exp(scores - scores.max(1, keepdims=True))
    return {"out": e / e.sum(1, keepdims=True) @ x}


def _quantize(v: dict) -> dict:
    a = v["a"]
    scales = np.abs(a).max(1) / np.float32(127)
    return {"codes": np.clip(np.rint(a / scales[:, None]), -127, 127).astype(np.int8), "scales": scales}


def _entry(name: str, expected, *arguments, tolerance: float = 0.0, approximate=None, **inputs) -> Entry:
    return Entry(
        f"numerics/{name}", FILE, name, arguments, inputs, expected, tolerance=tolerance, approximate=approximate
    )


def _floats(name: str, *shape: int):
    return read(name, "float32", *shape)


_EXP = Approximate(8, "expf is within 2 ulp of the exponential on either side; sums add their roundings", 1e-6)
_NORMAL = Approximate(8, "logf, expf and erfcf are within 1, 2 and 4 ulp; differences of products enlarge it", 2e-4)
_TURNS = Approximate(2, "sincospif is within 1 ulp on either side; sums cancel", 2e-6)

ENTRIES: tuple[Entry, ...] = (
    _entry("bodies", _bodies, _floats("a", 128, 4), write("out", "float32", 128, 4), tolerance=1e-5),
    _entry("mandelbrot", None, write("out", "int32", 20, 45)),
    _entry("black_scholes", _black_scholes, _floats("price", 128), _floats("strike", 128), _floats("years", 128),
           write("call", "float32", 128), write("put", "float32", 128), tolerance=1e-5, approximate=_NORMAL,
           price=draws.uniform(5, 100), strike=draws.uniform(5, 100), years=draws.uniform(0.25, 10)),
    _entry("monte_carlo_pi", _monte_carlo_pi, write("words", "uint32", 128), update("inside", "uint32", 1),
           inside=draws.fixed([0])),
    _entry("sobol", _sobol, write("out", "uint32", 5, 150)),
    _entry("fft", _fft, _floats("a", 2, 128, 2), write("out", "float32", 2, 128, 2), approximate=_TURNS),
    _entry("dct", _dct, _floats("a", 16, 24), write("out", "float32", 16, 24)),
    _entry("separable", _separable, _floats("a", 21, 90), write("out", "float32", 21, 90)),
    _entry("stencil_volume", _stencil_volume, _floats("a", 6, 13, 37), write("out", "float32", 6, 13, 37)),
    _entry("lu", _lu, update("a", "float32", 4, 16, 16), a=_strong_diagonal),
    _entry("cholesky", lambda v: {"out": np.linalg.cholesky(v["a"]).astype(np.longdouble)},
           read("a", "float64", 3, 12, 12), write("out", "float64", 3, 12, 12), a=_positive),
    _entry("attention", _attention, _floats("q", 16, 32), _floats("k", 16, 32), _floats("v", 16, 32),
           write("out", "float32", 16, 32), approximate=_EXP),
    _entry("sgemm", lambda v: {"c": v["a"].astype(np.float64) @ v["b"]}, _floats("a", 64, 64), _floats("b", 64, 64),
           write("c", "float32", 64, 64)),
    _entry("quantize", _quantize, _floats("a", 3, 300), write("codes", "int8", 3, 300), write("scales", "float32", 3)),
)  # fmt: skip
