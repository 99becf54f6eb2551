"""Entries of kernels/unseen_fifth/images.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_fifth", "images")
_PALETTE = np.array(
    [
        (0, 0, 0), (29, 43, 83), (126, 37, 83), (0, 135, 81), (171, 82, 54), (95, 87, 79), (194, 195, 199),
        (255, 241, 232), (255, 0, 77), (255, 163, 0), (255, 236, 39), (0, 228, 54), (41, 173, 255), (131, 118, 156),
        (255, 119, 168), (255, 204, 170),
    ]
)  # fmt: skip


def _seeds(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Nothing but -1 and some pixels that name themselves."""
    seeds = np.full(shape, -1, dtype)
    for x, y in zip(generator.integers(0, shape[1], 14), generator.integers(0, shape[0], 14), strict=True):
        seeds[y, x] = x, y
    return seeds


def _flooded(v: dict) -> dict:
    now, (h, w, _) = v["first"].astype(int), v["first"].shape
    y, x = np.mgrid[:h, :w]
    for step in (16, 8, 4, 2, 1):
        best, least = np.full((h, w, 2), -1), np.full((h, w), 1 << 30)
        for dy in (-step, 0, step):
            for dx in (-step, 0, step):
                j, i = y + dy, x + dx
                inside = (j >= 0) & (i >= 0) & (j < h) & (i < w)
                seed = now[np.clip(j, 0, h - 1), np.clip(i, 0, w - 1)]
                square = (seed[..., 0] - x) ** 2 + (seed[..., 1] - y) ** 2
                better = inside & (seed[..., 0] >= 0) & (square < least)
                least[better], best[better] = square[better], seed[better]
        now = best
    return {"second": now}


def _nearest_colours(v: dict) -> dict:
    apart = (v["image"][:, None, :3].astype(int) - _PALETTE) ** 2 @ np.array([3, 6, 1])
    return {"out": apart.argmin(1)}


def _laid(v: dict) -> dict:
    n = v["layers"].shape[1]
    total, through = np.zeros((n, 3), int), np.full(n, 256)
    for layer in v["layers"][::-1].astype(int):
        part = np.where(layer[:, 3] == 255, through, through * layer[:, 3] >> 8)
        total += layer[:, :3] * part[:, None]
        through -= part
    return {"out": np.column_stack([total >> 8, np.minimum(256 - through, 255)])}


def _layers(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    layers = generator.integers(0, 256, shape)
    layers[..., 3] = np.choose(generator.integers(0, 3, shape[:-1]), [0, layers[..., 3], 255])
    return layers.astype(dtype)


def _eroded(v: dict) -> dict:
    w = v["image"].shape[1]
    p = np.pad(v["image"], ((0, 0), (4, 4)), constant_values=255)
    return {"out": np.min([p[:, k : k + w] for k in range(9)], 0)}


def _around(image: np.ndarray) -> np.ndarray:
    """Which of its 48 neighbours are darker than each pixel, along the last axis."""
    h, w = image.shape
    p = np.pad(image, 3, mode="edge")
    shifted = [p[j : j + h, i : i + w] < image for j in range(7) for i in range(7) if (j, i) != (3, 3)]
    return np.stack(shifted, -1)


def _matched(v: dict) -> dict:
    left, right = _around(v["left"]), _around(v["right"])
    h, w = v["left"].shape
    costs = np.full((12, h, w), 64)
    for d in range(12):
        costs[d, :, d:] = (left[:, d:] != right[:, : w - d]).sum(-1)
    return {"shift": costs.argmin(0), "cost": costs.min(0)}


def _in_565(v: dict) -> dict:
    c = v["image"].view(np.uint8).reshape(-1, 3).astype(np.uint16)
    pixels = (c[:, 0] >> 3) << 11 | (c[:, 1] >> 2) << 5 | c[:, 2] >> 3
    return {"out": pixels.astype(np.uint16).view(np.uint32).reshape(-1, 2)}


def _drawn(v: dict) -> dict:
    h, pitch = v["words"].shape
    bits = np.unpackbits(v["words"].view(np.uint8), axis=1, bitorder="little")
    for x, y, end, bottom in v["lines"].tolist():
        dx, dy = abs(end - x), -abs(bottom - y)
        error = dx + dy
        bits[y, x] = 1
        while (x, y) != (end, bottom):
            twice = 2 * error
            if twice >= dy:
                error, x = error + dy, x + (1 if x < end else -1)
            if twice <= dx:
                error, y = error + dx, y + (1 if y < bottom else -1)
            bits[y, x] = 1
    return {"words": np.packbits(bits, axis=1, bitorder="little").view(np.uint32).reshape(h, pitch)}


def _triangles(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    corners = generator.integers(-5, 50, (shape[0], 6))
    return np.column_stack([corners, generator.permutation(shape[0]), np.arange(shape[0])]).astype(dtype)


def _filled(v: dict) -> dict:
    h, w = v["out"].shape
    y, x = np.mgrid[:h, :w]
    out = np.full((h, w), -1)
    for ax, ay, bx, by, cx, cy, _, colour in sorted(v["triangles"].tolist(), key=lambda row: -row[6]):
        sides = np.stack(
            [
                (qx - px) * (y - py) - (qy - py) * (x - px)
                for px, py, qx, qy in ((ax, ay, bx, by), (bx, by, cx, cy), (cx, cy, ax, ay))
            ]
        )
        out[(sides >= 0).all(0) | (sides <= 0).all(0)] = colour
    return {"out": out}


def _alike(v: dict) -> dict:
    h, w = v["a"].shape
    a, b = (v[n].astype(float).reshape(h // 8, 8, w // 8, 8).transpose(0, 2, 1, 3).reshape(-1, 64) for n in ("a", "b"))
    x, y = a.mean(1), b.mean(1)
    both, spread = (a * b).mean(1) - x * y, a.var(1) + b.var(1)
    return {"out": (2 * x * y + 6.5) * (2 * both + 58.5) / ((x * x + y * y + 6.5) * (spread + 58.5))}


def _mapped(v: dict) -> dict:
    a, p = v["image"].astype(float), v["places"].astype(float)
    h, w = a.shape
    x, y = np.floor(p[:, 0]).astype(int), np.floor(p[:, 1]).astype(int)
    inside = (x >= 0) & (y >= 0) & (x + 1 < w) & (y + 1 < h)
    u, s = p[:, 0] - x, p[:, 1] - y
    x, y = np.clip(x, 0, w - 2), np.clip(y, 0, h - 2)
    above, below = a[y, x] + u * (a[y, x + 1] - a[y, x]), a[y + 1, x] + u * (a[y + 1, x + 1] - a[y + 1, x])
    return {"out": np.where(inside, above + s * (below - above), 0.5)}


def _peaks(v: dict) -> dict:
    a = v["image"].astype(int)
    h, w = a.shape
    p = np.pad(a, 2, constant_values=-1)
    around = [p[j : j + h, i : i + w] for j in range(5) for i in range(5) if (j, i) != (2, 2)]
    found = np.flatnonzero(np.max(around, 0) < a)
    return {"found": found, "count": np.array([found.size])}


ENTRIES: tuple[Entry, ...] = (
    _entry("flood_seeds", _flooded, update("first", "int16", 27, 45, 2), write("second", "int16", 27, 45, 2),
           first=_seeds),
    _entry("to_palette", _nearest_colours, read("image", "uint8", 500, 4), write("out", "uint8", 500)),
    _entry("lay_over", _laid, read("layers", "uint8", 5, 270, 4), write("out", "uint8", 270, 4), layers=_layers),
    _entry("erode_rows", _eroded, read("image", "uint8", 9, 130), write("out", "uint8", 9, 130)),
    _entry("match_rows", _matched, read("left", "uint8", 7, 59), read("right", "uint8", 7, 59),
           write("shift", "uint8", 7, 59), write("cost", "uint8", 7, 59)),
    _entry("to_565", _in_565, read("image", "uint32", 110, 3), write("out", "uint32", 110, 2)),
    _entry("draw_lines", _drawn, read("lines", "int32", 100, 4), update("words", "uint32", 64, 2),
           lines=draws.integers(0, 64), words=draws.zeros),
    _entry("fill_triangles", _filled, read("triangles", "int32", 37, 8), write("out", "int32", 29, 43),
           triangles=_triangles),
    _entry("alike_tiles", _alike, read("a", "uint8", 24, 64), read("b", "uint8", 24, 64), write("out", "float32", 24),
           tolerance=1e-4),
    _entry("remap", _mapped, read("image", "float32", 20, 33), read("places", "float32", 330, 2),
           write("out", "float32", 330), places=draws.uniform(-2, 31), tolerance=1e-5),
    _entry("peaks", _peaks, read("image", "uint16", 31, 47), write("found", "int32", 200), write("count", "int32", 1)),
    _entry("quarter_turn", lambda v: {"out": np.rot90(v["image"].view(np.uint8), -1).copy().view(np.uint32)},
           read("image", "uint32", 44, 13), write("out", "uint32", 52, 11)),
)  # fmt: skip
