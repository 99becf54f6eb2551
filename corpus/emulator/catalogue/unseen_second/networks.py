"""Entries of kernels/unseen_second/networks.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_second", "networks")
_CLOSE = Approximate(16, "approximate functions", 1e-5)
_CLOSE_HALVES = Approximate(1, "approximate functions", 1e-3)


def _from_bfloat(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _with_zeros(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Close to N(0, 1) with a fifth of zeros; every fourth row is nothing but zeros."""
    x = generator.standard_normal(shape) * (generator.random(shape) > 0.2)
    x.reshape(-1, 32)[::4] = 0
    return x.astype(dtype)


def _channels(v: dict) -> dict:
    a, k = np.pad(v["a"].astype(np.float64), ((0, 0), (1, 1), (1, 1))), v["weights"].astype(np.float64)
    h, w = v["a"].shape[1:]
    windows = np.stack([a[:, j : j + h, i : i + w] for j in range(3) for i in range(3)], 1)
    return {"out": np.einsum("okt,kthw->ohw", k.reshape(len(k), -1, 9), windows)}


def _depthwise(v: dict) -> dict:
    a, k = np.pad(v["a"].astype(np.float64), ((1, 1), (1, 1), (0, 0))), v["weights"].astype(np.float64)
    h, w, _ = v["a"].shape
    return {"out": sum(a[j : j + h, i : i + w] * k[j, i] for j in range(3) for i in range(3))}


def _blur(v: dict) -> dict:
    taps = np.array([0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125])
    h, w = v["a"].shape
    a = np.pad(v["a"].astype(np.float64), 3, mode="edge")
    return {"out": sum(p * q * a[j : j + h, i : i + w] for j, p in enumerate(taps) for i, q in enumerate(taps))}


def _pool(v: dict) -> dict:
    c, h, w = v["a"].shape
    squares = v["a"].reshape(c, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 2, 4).reshape(c, h // 2, w // 2, 4)
    return {"out": squares.max(-1), "where": squares.argmax(-1)}


def _layer_norm(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    d = a - a.mean(1, keepdims=True)
    return {"out": d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * v["gain"] + v["bias"]}


def _square_norm(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    return {"out": a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-6) * v["gain"]}


def _rotate(v: dict) -> dict:
    q = v["q"].astype(np.float64)
    half = q.shape[-1] // 2
    angles = v["positions"][:, None, None] * 10000.0 ** (-np.arange(half) / half)
    x, y = q[..., :half], q[..., half:]
    return {"q": np.concatenate([x * np.cos(angles) - y * np.sin(angles), x * np.sin(angles) + y * np.cos(angles)], -1)}


def _attention(v: dict) -> dict:
    q, k, values = (v[name].astype(np.float64) for name in "qkv")
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(32)
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return {"out": p @ values / p.sum(-1, keepdims=True)}


def _cross_entropy(v: dict) -> dict:
    x, targets = v["logits"].astype(np.float64), v["targets"]
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    rows, used = np.arange(len(x)), targets >= 0
    loss = np.where(used, -np.log(p[rows, targets]), 0)
    p[rows, targets] -= 1
    return {"loss": loss, "slope": p * used[:, None]}


def _quantise(v: dict) -> dict:
    most = np.abs(v["a"]).max(1)
    scales = np.where(most > 0, most / np.float32(127), np.float32(1)).astype(np.float32)
    return {"out": np.rint(v["a"] / scales[:, None]).astype(np.int8), "scales": scales}


def _e4m3() -> np.ndarray:
    """What the codes 0 to 126 of e4m3 stand for: four bits of exponent, three of fraction, subnormal ones below 8."""
    codes = np.arange(127)
    return np.where(codes < 8, codes * 2.0**-9, (1 + codes % 8 / 8) * 2.0 ** (codes // 8 - 7))


def _fp8(v: dict) -> dict:
    values = _e4m3()
    codes, exponents, back = [], [], []
    for block in v["a"].astype(np.float64).reshape(-1, 32):
        most = np.abs(block).max()
        e = int(np.floor(np.log2(most))) - 8 if most else 0
        exponents.append(e)
        for x in block:
            apart = np.abs(values - abs(x) * 2.0**-e)
            # Of two that are as near, the even code.
            code = min(np.flatnonzero(apart == apart.min()), key=lambda c: c % 2)
            codes.append(code | (128 if np.signbit(x) else 0))
            back.append(np.copysign(values[code], x))
    return {"codes": np.array(codes, np.uint8), "exponents": np.array(exponents, np.int8),
            "back": np.array(back, np.float16)}  # fmt: skip


def _four_bits(v: dict) -> dict:
    places = np.arange(0, 32, 4, dtype=np.uint32)
    weights = (v["weights"][..., None] >> places & np.uint32(15)).astype(np.float64).reshape(len(v["weights"]), -1) - 8
    return {"y": (weights * np.repeat(v["scales"].astype(np.float64), 32, 1)) @ v["x"].astype(np.float64)}


def _bags(v: dict) -> dict:
    rows = []
    for words in v["words"]:
        used = words[words >= 0]
        rows.append(v["table"][used].astype(np.float64).mean(0) if used.size else np.zeros(v["table"].shape[1]))
    return {"out": np.array(rows)}


def _adam(v: dict) -> dict:
    w, m, s, g = (v[name].astype(np.float64) for name in ("weights", "m", "v", "slope"))
    m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
    step = m / (1 - 0.9**3) / (np.sqrt(s / (1 - 0.999**3)) + 1e-8)
    return {"weights": w - 1e-3 * (step + 0.01 * w), "m": m, "v": s}


def _gated(v: dict) -> dict:
    a = _from_bfloat(v["a"])
    gate, up = a[:, 0], a[:, 1]
    return {"out": gate / (1 + np.exp(-gate)) * up}


def _patches(v: dict) -> dict:
    a = v["a"]
    c, h, w = a.shape
    columns = [a[k, y : y + h - 2 : 2, x : x + w - 2 : 2].ravel() for k in range(c) for y in range(3) for x in range(3)]
    return {"out": np.array(columns)}


ENTRIES: tuple[Entry, ...] = (
    _entry("convolve_channels", _channels, read("a", "float32", 5, 13, 21), read("weights", "float32", 3, 5, 3, 3),
           write("out", "float32", 3, 13, 21), tolerance=1e-5),
    _entry("convolve_depthwise", _depthwise, read("a", "float16", 7, 10, 64), read("weights", "float16", 3, 3, 64),
           write("out", "float16", 7, 10, 64), tolerance=1e-3),
    _entry("blur", _blur, read("a", "float32", 21, 75), write("out", "float32", 21, 75)),
    _entry("pool_maximum", _pool, read("a", "float32", 3, 10, 38), write("out", "float32", 3, 5, 19),
           write("where", "uint8", 3, 5, 19), a=draws.integers(-3, 4)),
    _entry("normalise_layers", _layer_norm, read("a", "float32", 8, 200), read("gain", "float32", 200),
           read("bias", "float32", 200), write("out", "float32", 8, 200), tolerance=1e-5, approximate=_CLOSE,
           a=draws.uniform(99, 103)),
    _entry("normalise_squares", _square_norm, read("a", "float16", 4, 384), read("gain", "float16", 384),
           write("out", "float16", 4, 384), tolerance=2e-3, approximate=_CLOSE_HALVES),
    _entry("rotate_heads", _rotate, update("q", "float16", 6, 3, 32), read("positions", "int32", 6), tolerance=2e-3,
           approximate=_CLOSE_HALVES, positions=draws.fixed([0, 1, 2, 7, 40, 100])),
    _entry("attend", _attention, read("q", "float32", 2, 38, 32), read("k", "float32", 2, 38, 32),
           read("v", "float32", 2, 38, 32), write("out", "float32", 2, 38, 32), tolerance=1e-5, approximate=_CLOSE),
    _entry("cross_entropy", _cross_entropy, read("logits", "float32", 5, 300), read("targets", "int32", 5),
           write("loss", "float32", 5), write("slope", "float32", 5, 300), tolerance=1e-5, approximate=_CLOSE,
           targets=draws.fixed([7, 299, -1, 0, 128])),
    _entry("quantise_rows", _quantise, read("a", "float32", 8, 160), write("out", "int8", 8, 160),
           write("scales", "float32", 8), a=_with_zeros),
    _entry("to_fp8_and_back", _fp8, read("a", "float32", 256), write("codes", "uint8", 256),
           write("exponents", "int8", 8), write("back", "float16", 256), a=_with_zeros),
    _entry("four_bit_matvec", _four_bits, read("weights", "uint32", 12, 40), read("scales", "float16", 12, 10),
           read("x", "float16", 320), write("y", "float32", 12), tolerance=1e-5),
    _entry("byte_matvec", lambda v: {"y": v["a"].astype(np.int32) @ v["x"].astype(np.int32)},
           read("a", "int8", 32, 192), read("x", "int8", 192), write("y", "int32", 32)),
    _entry("embed_bags", _bags, read("table", "float32", 40, 72), read("words", "int32", 6, 9),
           write("out", "float32", 6, 72), words=draws.integers(-12, 40)),
    _entry("adam", _adam, update("weights", "float32", 500), update("m", "float32", 500), update("v", "float32", 500),
           read("slope", "float32", 500), tolerance=1e-5, v=draws.uniform(0, 1), slope=draws.uniform(-0.1, 0.1)),
    _entry("gated", _gated, read("a", "uint16", 3, 2, 200), write("out", "float32", 3, 200), tolerance=1e-5,
           approximate=_CLOSE, a=draws.bfloats),
    _entry("patches", _patches, read("a", "float32", 3, 11, 15), write("out", "float32", 27, 35)),
)  # fmt: skip
