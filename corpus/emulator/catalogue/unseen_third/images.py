"""Entries of kernels/unseen_third/images.py."""

from __future__ import annotations

import colorsys

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, write

_entry = maker("unseen_third", "images")


def _ycbcr(v: dict) -> dict:
    r, g, b, alpha = v["image"].astype(int).T
    y = (19595 * r + 38470 * g + 7471 * b + 32768) // 65536
    cb = (-11059 * r - 21709 * g + 32768 * b + 32767) // 65536 + 128
    cr = (32768 * r - 27439 * g - 5329 * b + 32767) // 65536 + 128
    return {"out": np.stack([y, cb, cr, alpha], 1)}


def _turned(v: dict) -> dict:
    turn = float(np.float32(1.7)) / 6
    colours = [colorsys.rgb_to_hsv(*pixel) for pixel in v["image"].astype(np.float64)]
    return {"out": np.array([colorsys.hsv_to_rgb(hue + turn, s, value) for hue, s, value in colours])}


def _colours(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Any colours, some of them grey or black."""
    drawn = generator.random(shape)
    drawn[::7] = drawn[::7, :1]
    drawn[::14] = 0
    return drawn.astype(dtype)


def _box(v: dict) -> dict:
    a = v["image"].astype(int)
    w = a.shape[1]
    spans = [(max(x - 3, 0), min(x + 4, w)) for x in range(w)]
    return {"out": np.stack([a[:, low:high].sum(1) // (high - low) for low, high in spans], 1)}


def _dilated(v: dict) -> dict:
    h, w = v["image"].shape
    a = np.pad(v["image"], 2)
    near = [(j, i) for j in range(5) for i in range(5) if abs(j - 2) + abs(i - 2) <= 2]
    return {"out": np.max([a[j : j + h, i : i + w] for j, i in near], 0)}


def _thinned(v: dict) -> dict:
    g = v["slopes"].astype(int)
    size = np.abs(g).sum(2)
    out = np.zeros_like(size)
    for y in range(1, len(g) - 1):
        for x in range(1, g.shape[1] - 1):
            gx, gy = g[y, x]
            if abs(gx) > 2 * abs(gy):
                dy, dx = 0, 1
            elif abs(gy) > 2 * abs(gx):
                dy, dx = 1, 0
            else:
                dy, dx = 1, 1 if (gx > 0) == (gy > 0) else -1
            if size[y, x] > size[y - dy, x - dx] and size[y, x] >= size[y + dy, x + dx]:
                out[y, x] = size[y, x]
    return {"out": out}


def _otsu(v: dict) -> dict:
    best = []
    for image in v["image"].astype(np.int64):
        scores = []
        for level in range(256):
            below = image <= level
            n, m = int(below.sum()), int((~below).sum())
            off = int(image[below].sum()) * image.size - int(image.sum()) * n
            scores.append(float(off) * float(off) / (n * m) if n and m else -1.0)
        best.append(int(np.argmax(scores)))
    return {"out": np.where(v["image"] > np.array(best)[:, None], 255, 0), "threshold": np.array(best)}


def _rotated(v: dict) -> dict:
    h, w = v["image"].shape
    a = np.pad(v["image"].astype(np.float64), 40)
    y, x = np.mgrid[0:h, 0:w]
    dy, dx = y - (h - 1) / 2, x - (w - 1) / 2
    u, w_ = 0.8 * dx + 0.6 * dy + (w - 1) / 2 + 40, 0.8 * dy - 0.6 * dx + (h - 1) / 2 + 40
    i, j = np.floor(u).astype(int), np.floor(w_).astype(int)
    p, q = u - i, w_ - j
    upper, lower = a[j, i] * (1 - p) + a[j, i + 1] * p, a[j + 1, i] * (1 - p) + a[j + 1, i + 1] * p
    return {"out": upper * (1 - q) + lower * q}


def _dithered(v: dict) -> dict:
    order = np.array([[0]])
    for _ in range(3):
        order = np.block([[4 * order, 4 * order + 2], [4 * order + 3, 4 * order + 1]])
    h, w = v["image"].shape
    lit = np.zeros((h, v["out"].shape[1] * 32), bool)
    lit[:, :w] = v["image"] * 64 > np.tile(order, (h // 8 + 1, w // 8 + 1))[:h, :w] + 0.5
    return {"out": np.packbits(lit, axis=1, bitorder="little").view(np.uint32)}


def _sharpened(v: dict) -> dict:
    a = np.pad(v["image"].astype(int), 1, mode="edge")
    rows = a[:-2] + 2 * a[1:-1] + a[2:]
    blur = (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:] + 8) // 16
    return {"out": np.clip(2 * v["image"].astype(int) - blur, 0, 255)}


def _distances(v: dict) -> dict:
    h, w = v["marks"].shape
    marked = np.argwhere(v["marks"])
    squares = ((np.argwhere(np.ones((h, w)))[:, None] - marked) ** 2).sum(-1).min(1)
    return {"out": squares.reshape(h, w)}


def _colours_of(v: dict) -> dict:
    h, w = v["mosaic"].shape
    a = np.pad(v["mosaic"].astype(int), 1, mode="reflect")
    y, x = np.mgrid[-1 : h + 1, -1 : w + 1]
    red, blue = (y % 2 == 0) & (x % 2 == 0), (y % 2 == 1) & (x % 2 == 1)
    out = []
    for there in (red, ~red & ~blue, blue):
        sums, counts = np.zeros((h, w), int), np.zeros((h, w), int)
        for j in range(3):
            for i in range(3):
                # The corners of a place without green have none; those of a green one are not asked, as it has its own.
                sums += (a * there)[j : j + h, i : i + w]
                counts += there[j : j + h, i : i + w]
        own = there[1:-1, 1:-1]
        out.append(np.where(own, v["mosaic"], (sums + counts // 2) // np.maximum(counts, 1)))
    return {"out": np.stack(out, -1)}


def _seam(v: dict) -> dict:
    costs = v["costs"].astype(int)
    h, w = costs.shape
    sums, steps = costs[0], []
    for row in costs[1:]:
        # Straight on is best of equals, then to the left.
        around = np.pad(sums, 1, constant_values=10**6)
        choices = np.stack([around[1:-1], around[:-2], around[2:]])
        steps.append(np.array([0, -1, 1])[choices.argmin(0)])
        sums = choices.min(0) + row
    path = [int(sums.argmin())]
    for step in reversed(steps):
        path.append(path[-1] + int(step[path[-1]]))
    return {"path": np.array(path[::-1], np.int32), "total": np.array([sums.min()], np.int32)}


ENTRIES: tuple[Entry, ...] = (
    _entry("to_ycbcr", _ycbcr, read("image", "uint8", 301, 4), write("out", "uint8", 301, 4)),
    _entry("turn_hue", _turned, read("image", "float32", 203, 3), write("out", "float32", 203, 3), tolerance=1e-5,
           image=_colours),
    _entry("box_rows", _box, read("image", "uint8", 45, 37), write("out", "uint8", 45, 37)),
    _entry("dilate", _dilated, read("image", "uint8", 21, 70), write("out", "uint8", 21, 70)),
    _entry("thin_edges", _thinned, read("slopes", "int16", 21, 43, 2), write("out", "uint16", 21, 43),
           slopes=draws.integers(-9, 10)),
    _entry("otsu", _otsu, read("image", "uint8", 2, 777), write("out", "uint8", 2, 777), write("threshold", "int32", 2),
           image=draws.integers(20, 200)),
    _entry("rotate_image", _rotated, read("image", "float32", 27, 41), write("out", "float32", 27, 41), tolerance=2e-5),
    _entry("dither", _dithered, read("image", "float32", 18, 75), write("out", "uint32", 18, 3),
           image=draws.uniform(0, 1)),
    _entry("sharpen", _sharpened, read("image", "uint8", 19, 76), write("out", "uint8", 19, 76)),
    _entry("distances", _distances, read("marks", "uint8", 23, 51), write("near", "int32", 23, 51),
           write("out", "int32", 23, 51), marks=draws.fixed(np.arange(23 * 51).reshape(23, 51) % 97 == 5)),
    _entry("demosaic", _colours_of, read("mosaic", "uint8", 18, 46), write("out", "uint8", 18, 46, 3)),
    _entry("cheapest_seam", _seam, read("costs", "uint8", 24, 90), write("path", "int32", 24),
           write("total", "int32", 1), costs=draws.integers(0, 12)),
)  # fmt: skip
