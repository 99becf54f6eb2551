"""Entries of kernels/unseen_third/learning.py."""

from __future__ import annotations

from math import erf

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_third", "learning")
_CLOSE = Approximate(16, "approximate functions", 1e-5)
_CLOSE_HALVES = Approximate(1, "sums in another order of roundings", 1e-3)
_WORD = 0xFFFFFFFF


def _group_norm(v: dict) -> dict:
    images, channels, pixels = v["a"].shape
    a = v["a"].astype(np.float64).reshape(images, channels // 3, -1)
    d = a - a.mean(2, keepdims=True)
    d = (d / np.sqrt((d * d).mean(2, keepdims=True) + 1e-5)).reshape(v["a"].shape)
    return {"out": d * v["scale"][:, None] + v["shift"][:, None]}


def _batch_norm(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    mean, variance = a.mean((0, 2)), a.var((0, 2))
    out = (a - mean[:, None]) / np.sqrt(variance + 1e-3)[:, None]
    unbiased = variance * a[:, 0].size / (a[:, 0].size - 1)
    return {"out": out, "mean": 0.9 * v["mean"] + 0.1 * mean, "variance": 0.9 * v["variance"] + 0.1 * unbiased}


def _norm_slopes(v: dict) -> dict:
    x, g = v["x"].astype(np.float64), v["slope"].astype(np.float64) * v["scale"]
    factor = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    y = (x - x.mean(1, keepdims=True)) * factor
    return {"out": factor * (g - g.mean(1, keepdims=True) - y * (g * y).mean(1, keepdims=True))}


def _softmax_slopes(v: dict) -> dict:
    p, g = v["p"].astype(np.float64), v["slope"].astype(np.float64)
    return {"out": p * (g - (p * g).sum(1, keepdims=True))}


def _huber(v: dict) -> dict:
    d = v["a"].astype(np.float64) - v["b"]
    loss = np.where(np.abs(d) <= 0.75, d * d / 2, 0.75 * (np.abs(d) - 0.375))
    return {"slope": np.clip(d, -0.75, 0.75) / d.size, "loss": loss.mean(keepdims=True)}


def _yes_or_no(v: dict) -> dict:
    x, y = v["logits"].astype(np.float64), v["labels"] > 0
    return {"loss": np.logaddexp(0, np.where(y, -x, x)), "slope": 1 / (1 + np.exp(-x)) - y}


def _nesterov(v: dict) -> dict:
    w, speed, g = (v[name].astype(np.float64) for name in ("weights", "speeds", "slopes"))
    g = g + 0.01 * w
    speed = 0.9 * speed + g
    return {"weights": w - 0.05 * (g + 0.9 * speed), "speeds": speed}


def _rmsprop(v: dict) -> dict:
    g = v["slopes"].astype(np.float64)
    g = g * min(1, 2 / np.sqrt((g * g).sum()))
    squares = 0.95 * v["squares"] + 0.05 * g * g
    return {"weights": v["weights"] - 0.01 * g / (np.sqrt(squares) + 1e-6), "squares": squares}


def _spread(v: dict) -> dict:
    a, k = v["a"].astype(np.float64), v["weights"].astype(np.float64)
    _, h, w = a.shape
    out = np.zeros(v["out"].shape)
    for j in range(3):
        for i in range(3):
            out[:, j : j + 2 * h : 2, i : i + 2 * w : 2] += np.einsum("chw,cf->fhw", a, k[:, :, j, i])
    return {"out": out}


def _causal(v: dict) -> dict:
    n = v["a"].shape[1]
    a = np.pad(v["a"].astype(np.float64), ((0, 0), (16, 0)))
    sums = sum(v["taps"][:, k : k + 1] * a[:, 16 - 4 * k : 16 - 4 * k + n] for k in range(5))
    return {"out": np.where(sums > 0, sums, 0.2 * sums)}


def _average(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    _, h, w = v["out"].shape
    rows = [a[:, max(2 * y - 1, 0) : 2 * y + 2] for y in range(h)]
    means = [[row[:, :, max(2 * x - 1, 0) : 2 * x + 2].mean((1, 2)) for x in range(w)] for row in rows]
    return {"out": np.array(means).transpose(2, 0, 1)}


def _unpool(v: dict) -> dict:
    out = v["out"].copy()
    for row, places, slopes in zip(out, v["places"], v["slopes"], strict=True):
        np.add.at(row, places, slopes)
    return {"out": out}


def _table_slopes(v: dict) -> dict:
    table = v["table"].copy()
    used = v["words"] >= 0
    np.add.at(table, v["words"][used], v["slopes"][used])
    return {"table": table}


def _decoded(v: dict) -> dict:
    q, keys, values = (v[name].astype(np.float64) for name in ("q", "keys", "values"))
    scores = np.einsum("hd,hnd->hn", q, keys) / 8
    p = np.exp(scores - scores.max(1, keepdims=True))
    return {"out": np.einsum("hn,hnd->hd", p / p.sum(1, keepdims=True), values)}


def _gated(v: dict) -> dict:
    batch, n = v["hidden"].shape
    x, h = (v[name].astype(np.float64).reshape(batch, 3, n).transpose(1, 0, 2) for name in ("inputs", "states"))
    reset, kept = (1 / (1 + np.exp(-x[k] - h[k])) for k in (0, 1))
    fresh = np.tanh(x[2] + reset * (h[2] + v["bias"]))
    return {"hidden": (1 - kept) * fresh + kept * v["hidden"]}


def _bytes(v: dict) -> dict:
    h, w, _ = v["a"].shape
    a = np.pad(v["a"].astype(int), ((1, 1), (1, 1), (0, 0)))
    weights = v["weights"].astype(int)
    sums = v["bias"] + sum(a[j : j + h, i : i + w] @ weights[:, j, i].T for j in range(3) for i in range(3))
    return {"out": np.clip(np.rint(sums / 1024), -128, 127).astype(int)}


def _nibbles(v: dict) -> dict:
    codes, ranges = [], []
    for block in v["a"].reshape(-1, 32):
        low, step = block.min(), (block.max() - block.min()) / np.float32(15)
        code = (
            np.minimum(((block - low) / step + np.float32(0.5)).astype(np.uint32), 15)
            if step > 0
            else np.zeros(32, int)
        )
        codes += [sum(int(c) << 4 * k for k, c in enumerate(eight)) for eight in code.reshape(4, 8)]
        ranges.append([low, step])
    return {"codes": np.array(codes, np.uint32), "ranges": np.array(ranges, np.float32)}


def _some_flat(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    a = generator.standard_normal(shape)
    a[32:64] = 0.25
    return a.astype(dtype)


def _convolved(v: dict) -> dict:
    h, w = v["a"].shape
    a = np.pad(v["a"].astype(np.float64), 1)
    return {"out": sum(v["taps"][j, i] * a[j : j + h, i : i + w] for j in range(3) for i in range(3))}


def _viterbi(v: dict) -> dict:
    paths, totals = [], []
    for seen in v["seen"]:
        now, steps = v["costs"][:, seen[0]], []
        for symbol in seen[1:]:
            ways = now[:, None] + v["moves"]
            steps.append(ways.argmin(0))
            now = ways.min(0) + v["costs"][:, symbol]
        path = [int(now.argmin())]
        for step in reversed(steps):
            path.append(int(step[path[-1]]))
        paths.append(path[::-1])
        totals.append(now.min())
    return {"path": np.array(paths, np.uint8), "total": np.array(totals, np.int32)}


def _dropped(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    kept = []
    for i in range(a.size // 2):
        x = i + 77
        x = (x ^ x >> 16) * 0x7FEB352D & _WORD
        x = (x ^ x >> 15) * 0x846CA68B & _WORD
        x ^= x >> 16
        kept += [(x & 0xFFFF) < 0xC000, x >> 16 < 0xC000]
    whole = np.array([0.5 * x * (1 + erf(x / np.sqrt(2))) for x in a])
    return {"out": np.where(kept, whole / 0.75, 0)}


def _chances(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    e = np.exp(generator.standard_normal(shape))
    return (e / e.sum(-1, keepdims=True)).astype(dtype)


ENTRIES: tuple[Entry, ...] = (
    _entry("group_norm", _group_norm, read("a", "float32", 2, 6, 117), read("scale", "float32", 6),
           read("shift", "float32", 6), write("out", "float32", 2, 6, 117), tolerance=1e-5, approximate=_CLOSE),
    _entry("batch_norm", _batch_norm, read("a", "float32", 3, 5, 49), write("out", "float32", 3, 5, 49),
           update("mean", "float32", 5), update("variance", "float32", 5), tolerance=1e-5,
           variance=draws.uniform(0.5, 2)),
    _entry("norm_slopes", _norm_slopes, read("x", "float32", 5, 107), read("scale", "float32", 107),
           read("slope", "float32", 5, 107), write("out", "float32", 5, 107), tolerance=1e-5, approximate=_CLOSE),
    _entry("softmax_slopes", _softmax_slopes, read("p", "float16", 4, 150), read("slope", "float16", 4, 150),
           write("out", "float16", 4, 150), tolerance=1e-3, approximate=_CLOSE_HALVES, p=_chances),
    _entry("huber", _huber, read("a", "float32", 413), read("b", "float32", 413), write("slope", "float32", 413),
           write("loss", "float32", 1), tolerance=1e-5),
    _entry("yes_or_no", _yes_or_no, read("logits", "float32", 213), read("labels", "uint8", 213),
           write("loss", "float32", 213), write("slope", "float32", 213), tolerance=1e-5, approximate=_CLOSE,
           logits=draws.uniform(-12, 12), labels=draws.integers(0, 2)),
    _entry("nesterov", _nesterov, update("weights", "float32", 500), update("speeds", "float32", 500),
           read("slopes", "float32", 500)),
    _entry("clipped_rmsprop", _rmsprop, update("weights", "float32", 450), update("squares", "float32", 450),
           read("slopes", "float32", 450), tolerance=1e-5, squares=draws.uniform(0.01, 1)),
    _entry("spread_out", _spread, read("a", "float32", 4, 5, 11), read("weights", "float32", 4, 2, 3, 3),
           write("out", "float32", 2, 11, 23), tolerance=1e-5),
    _entry("causal_5", _causal, read("a", "float32", 3, 217), read("taps", "float32", 3, 5),
           write("out", "float32", 3, 217)),
    _entry("average_pool", _average, read("a", "float32", 3, 13, 41), write("out", "float32", 3, 7, 21)),
    _entry("unpool", _unpool, read("slopes", "float32", 3, 75), read("places", "uint16", 3, 75),
           update("out", "float32", 3, 200), slopes=draws.integers(-90, 90), places=draws.integers(0, 200),
           out=draws.integers(-90, 90)),
    _entry("look_up_slopes", _table_slopes, read("words", "int32", 43), read("slopes", "float32", 43, 70),
           update("table", "float32", 12, 70), words=draws.integers(-3, 12), slopes=draws.integers(-90, 90),
           table=draws.zeros),
    _entry("decode", _decoded, read("q", "float32", 3, 64), read("keys", "float32", 3, 53, 64),
           read("values", "float32", 3, 53, 64), write("out", "float32", 3, 64), tolerance=1e-5, approximate=_CLOSE),
    _entry("gated_step", _gated, read("inputs", "float32", 5, 135), read("states", "float32", 5, 135),
           read("bias", "float32", 45), update("hidden", "float32", 5, 45), tolerance=1e-5, approximate=_CLOSE),
    _entry("convolve_bytes", _bytes, read("a", "int8", 9, 21, 8), read("weights", "int8", 3, 3, 3, 8),
           read("bias", "int32", 3), write("out", "int8", 9, 21, 3), bias=draws.integers(-9000, 9000)),
    _entry("to_nibbles", _nibbles, read("a", "float32", 224), write("codes", "uint32", 28),
           write("ranges", "float32", 7, 2), a=_some_flat),
    _entry("winograd", _convolved, read("a", "float32", 15, 45), read("taps", "float32", 3, 3),
           write("out", "float32", 15, 45), tolerance=1e-5),
    _entry("viterbi", _viterbi, read("moves", "int32", 19, 19), read("costs", "int32", 19, 6),
           read("seen", "uint8", 3, 25), write("path", "uint8", 3, 25), write("total", "int32", 3),
           moves=draws.integers(0, 90), costs=draws.integers(0, 90), seen=draws.integers(0, 6)),
    _entry("gelu_dropout", _dropped, read("a", "float32", 362), write("out", "float32", 362), tolerance=1e-5,
           approximate=_CLOSE),
)  # fmt: skip
