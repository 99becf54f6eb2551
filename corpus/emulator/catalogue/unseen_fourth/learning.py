"""Entries of kernels/unseen_fourth/learning.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_fourth", "learning")
_CLOSE = Approximate(32, "approximate functions", 1e-5)
_HALF = Approximate(1, "approximate functions may round to the next half", 1e-3)


def _linear(v: dict) -> dict:
    q, k, values = (v[name].astype(np.float64) for name in "qkv")
    s = np.arange(q.shape[1])
    age = s[:, None] - s
    weights = np.where(age >= 0, 0.875 ** np.maximum(age, 0), 0)
    return {"out": np.einsum("hsd,htd,st,hte->hse", q, k, weights, values, optimize=True)}


def _scanned(v: dict) -> dict:
    x, step, rate, into, out = (v[name].astype(np.float64) for name in ("x", "step", "rate", "into", "read"))
    state, rows = np.zeros_like(rate), []
    for t in range(len(x)):
        state = np.exp(-step[t][:, None] * rate) * state + (step[t] * x[t])[:, None] * into[t]
        rows.append(state @ out[t])
    return {"y": np.array(rows)}


def _drawn(v: dict) -> dict:
    words, kept = [], []
    for row, chance in zip(v["weights"], v["chances"], strict=True):
        order = np.argsort(-row, kind="stable")
        sums = np.cumsum(row[order])
        last = int(np.searchsorted(sums, int(np.float32(0.75) * np.float32(sums[-1]))))
        kept.append(last + 1)
        words.append(order[np.searchsorted(sums, int(chance * np.float32(sums[last])), side="right")])
    return {"word": np.array(words), "kept": np.array(kept)}


def _gumbel(v: dict) -> dict:
    x = (2026 + np.arange(v["logits"].size, dtype=np.uint64)) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ x >> np.uint64(shift)) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    u = ((x >> np.uint64(8)).astype(np.float32) + np.float32(0.5)).astype(np.float64) / 2**24
    return {"out": (v["logits"] - np.log(-np.log(u)).reshape(v["logits"].shape)).argmax(1)}


def _normalised(v: dict) -> dict:
    whole = v["x"] + v["residual"]
    wide = whole.astype(np.float64)
    scale = 1 / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
    return {"residual": whole, "out": wide * scale * v["gain"].astype(np.float64)}


def _bytes_multiplied(v: dict) -> dict:
    product = (v["a"].astype(np.int64) - 7) @ v["b"].astype(np.int64).T
    factor, shift = v["scales"].astype(np.int64).T
    return {"c": np.clip((product * factor + 2 ** (shift - 1) >> shift) + 128, 0, 255)}


_BYTES = np.random.default_rng(46).integers(-128, 128, (48, 64))
_SCALES = np.stack([np.random.default_rng(47).integers(2**14, 2**15, 48), np.full(48, 24)], 1)


def _aligned(v: dict) -> dict:
    loss = []
    for scores, text in zip(np.exp(v["scores"].astype(np.float64)), v["texts"].astype(int), strict=True):
        symbols = np.zeros(2 * text.size + 1, int)
        symbols[1::2] = text
        moves = np.eye(symbols.size) + np.eye(symbols.size, k=1)
        for i in range(3, symbols.size, 2):
            moves[i - 2, i] = symbols[i] != symbols[i - 2]
        chance = np.zeros(symbols.size)
        chance[:2] = scores[0, symbols[:2]]
        for frame in scores[1:]:
            chance = chance @ moves * frame[symbols]
        loss.append(-np.log(chance[-2:].sum()))
    return {"loss": np.array(loss)}


def _scores(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    a = generator.standard_normal(shape)
    return a - np.log(np.exp(a).sum(-1, keepdims=True))


def _routed(v: dict) -> dict:
    best = np.argsort(-v["scores"], 2, kind="stable")[..., :2]
    load, place = np.zeros((2, 16), int), np.zeros_like(best)
    for layer in range(2):
        for token, pair in enumerate(best[layer]):
            place[layer, token] = np.where(load[layer, pair] < 30, load[layer, pair], -1)
            load[layer, pair] += 1
    return {"expert": best, "place": place, "load": np.minimum(load, 30)}


def _boxes(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    corners = generator.integers(0, 60, (shape[0], 2))
    return np.concatenate([corners, corners + generator.integers(10, 40, corners.shape)], 1)


def _kept_boxes(v: dict) -> dict:
    b = v["boxes"].astype(int)
    kept: list[int] = []
    for i, (left, top, right, bottom) in enumerate(b.tolist()):
        size = (right - left) * (bottom - top)
        for k in (k for k in range(i) if kept[k]):
            across = min(right, b[k, 2]) - max(left, b[k, 0])
            down = min(bottom, b[k, 3]) - max(top, b[k, 1])
            both = max(across, 0) * max(down, 0)
            if 10 * both > 4 * (size + (b[k, 2] - b[k, 0]) * (b[k, 3] - b[k, 1]) - both):
                kept.append(0)
                break
        else:
            kept.append(1)
    return {"kept": np.array(kept)}


def _two_of_four(v: dict) -> dict:
    a = v["a"].astype(int)
    kept = np.sort(np.argsort(-np.abs(a), 1, kind="stable")[:, :2], 1)
    bits = (kept[:, 0] + 4 * kept[:, 1]).reshape(-1, 8)
    return {"values": np.take_along_axis(a, kept, 1), "places": (bits << 4 * np.arange(8)).sum(1)}


def _four_bits(v: dict) -> dict:
    groups = v["a"].astype(np.float64).reshape(-1, 16)
    exponents = np.floor(np.log2(np.abs(groups).max(1))).astype(int) - 2
    scaled = groups / 2.0 ** exponents[:, None]
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = np.abs(np.abs(scaled)[..., None] - values).argmin(-1) + 8 * (scaled < 0)
    codes = codes.reshape(-1, 2)
    return {"codes": codes[:, 0] + 16 * codes[:, 1], "exponents": exponents}


ENTRIES: tuple[Entry, ...] = (
    _entry("linear_attention", _linear, read("q", "float32", 3, 40, 16), read("k", "float32", 3, 40, 16),
           read("v", "float32", 3, 40, 48), write("out", "float32", 3, 40, 48), tolerance=1e-5),
    _entry("selective_scan", _scanned, read("x", "float16", 25, 90), read("step", "float16", 25, 90),
           read("rate", "float32", 90, 4), read("into", "float32", 25, 4), read("read", "float32", 25, 4),
           write("y", "float16", 25, 90), tolerance=1e-3, approximate=_HALF, step=draws.uniform(0.05, 0.5),
           rate=draws.uniform(0.5, 4)),
    _entry("draw_from_top", _drawn, read("weights", "int32", 7, 100), read("chances", "float32", 7),
           write("word", "int32", 7), write("kept", "int32", 7), weights=draws.integers(1, 400),
           chances=draws.uniform(0, 0.99)),
    _entry("gumbel_draws", _gumbel, read("logits", "float32", 22, 77), write("out", "int32", 22)),
    _entry("add_and_normalise", _normalised, read("x", "float16", 5, 512), update("residual", "float16", 5, 512),
           read("gain", "float16", 512), write("out", "float16", 5, 512), tolerance=1e-3, approximate=_HALF),
    _entry("byte_product", _bytes_multiplied, read("a", "int8", 32, 64), read("b", "int8", 48, 64),
           read("sums", "int32", 48), read("scales", "int32", 48, 2), write("c", "uint8", 32, 48),
           b=draws.fixed(_BYTES), sums=draws.fixed(_BYTES.sum(1)), scales=draws.fixed(_SCALES)),
    _entry("alignment_loss", _aligned, read("scores", "float32", 4, 30, 9), read("texts", "uint8", 4, 11),
           write("loss", "float32", 4), tolerance=1e-5, approximate=_CLOSE, scores=_scores,
           texts=draws.integers(1, 9)),
    _entry("route_tokens", _routed, read("scores", "float32", 2, 270, 16), write("expert", "int32", 2, 270, 2),
           write("place", "int32", 2, 270, 2), write("load", "int32", 2, 16)),
    _entry("suppress", _kept_boxes, read("boxes", "int16", 150, 4), write("masks", "uint64", 150, 3),
           write("kept", "uint8", 150), boxes=_boxes),
    _entry("two_of_four", _two_of_four, read("a", "int8", 232, 4), write("values", "int8", 232, 2),
           write("places", "uint32", 29)),
    _entry("to_four_bits", _four_bits, read("a", "float32", 400), write("codes", "uint8", 200),
           write("exponents", "int8", 25)),
)  # fmt: skip
