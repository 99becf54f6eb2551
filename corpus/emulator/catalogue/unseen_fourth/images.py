"""Entries of kernels/unseen_fourth/images.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, write

_entry = maker("unseen_fourth", "images")
_ANGLES = np.pi / 20 * np.arange(20)
_TURNS = np.rint(1024 * np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], 1)).astype(int)


def _colours(v: dict) -> dict:
    y = 298 * (v["luma"].astype(int) - 16)
    u, w = (np.kron(v["chroma"][..., k].astype(int) - 128, np.ones((2, 2), int)) for k in range(2))
    rgb = [y + 409 * w, y - 100 * u - 208 * w, y + 516 * u]
    colours = [np.clip(c + 128 >> 8, 0, 255) for c in rgb]
    return {"out": np.stack([*colours, np.full_like(y, 255)], -1)}


def _voted(v: dict) -> dict:
    votes = np.zeros(v["votes"].shape, np.int64)
    y, x = np.nonzero(v["marks"])
    for row, (c, s) in zip(votes, v["turns"].tolist(), strict=True):
        np.add.at(row, (x * c + y * s) // 1024 + row.size // 2, 1)
    return {"votes": votes}


def _kept(v: dict) -> dict:
    h, w = v["edges"].shape
    out = np.zeros((h, w), int)
    for top in range(0, h, 16):
        for left in range(0, w, 32):
            tile = v["edges"][top : top + 16, left : left + 32]
            wide = np.pad(tile, 1)
            strong = np.pad(tile >= 215, 1)
            waiting = [(int(y), int(x)) for y, x in np.argwhere(strong)]
            while waiting:
                y, x = waiting.pop()
                for j in range(y - 1, y + 2):
                    for i in range(x - 1, x + 2):
                        if wide[j, i] >= 120 and not strong[j, i]:
                            strong[j, i] = True
                            waiting.append((j, i))
            out[top : top + 16, left : left + 32] = 255 * strong[1:-1, 1:-1]
    return {"out": out}


def _median(v: dict) -> dict:
    h, w = v["image"].shape
    p = np.pad(v["image"], 2, mode="edge")
    return {"out": np.median([p[j : j + h, i : i + w] for j in range(5) for i in range(5)], 0).astype(np.uint8)}


def _levels(v: dict) -> dict:
    level, parts = v["image"].astype(int), []
    for _ in range(4):
        level = (level[::2, ::2] + level[::2, 1::2] + level[1::2, ::2] + level[1::2, 1::2] + 2) // 4
        parts.append(level.reshape(-1, 4))
    return {"out": np.concatenate(parts)}


def _diffused(v: dict) -> dict:
    n, h, w = v["images"].shape
    out = np.zeros((n, h, w), int)
    for image, result in zip(v["images"].astype(int), out, strict=True):
        wide = np.zeros((h + 1, w + 2), int)
        wide[:h, 1:-1] = 16 * image
        for y in range(h):
            for x in range(w):
                value = wide[y, x + 1]
                result[y, x] = 255 * (value >= 2048)
                error = int((value - 16 * result[y, x]) / 16)
                wide[y, x + 2] += 7 * error
                wide[y + 1, x : x + 3] += [3 * error, 5 * error, error]
    return {"out": out}


def _corners(v: dict) -> dict:
    a = v["image"].astype(np.float64)
    h, w = a.shape
    dx, dy = np.zeros_like(a), np.zeros_like(a)
    dx[1:-1, 1:-1] = a[1:-1, 2:] - a[1:-1, :-2]
    dy[1:-1, 1:-1] = a[2:, 1:-1] - a[:-2, 1:-1]
    xx, xy, yy = (
        sum(p[j : j + h - 2, i : i + w - 2] for j in range(3) for i in range(3)) for p in (dx * dx, dx * dy, dy * dy)
    )
    return {"out": xx * yy - xy**2 - 0.05 * (xx + yy) ** 2}


ENTRIES: tuple[Entry, ...] = (
    _entry("from_nv12", _colours, read("luma", "uint8", 24, 62), read("chroma", "uint8", 12, 31, 2),
           write("out", "uint8", 24, 62, 4)),
    _entry("hough", _voted, read("marks", "uint8", 22, 34), read("turns", "int32", 20, 2),
           write("votes", "uint32", 20, 90), marks=lambda g, shape, dtype: (g.random(shape) < 0.15).astype(dtype),
           turns=draws.fixed(_TURNS)),
    _entry("hysteresis", _kept, read("edges", "uint8", 40, 75), write("out", "uint8", 40, 75)),
    _entry("median_25", _median, read("image", "uint8", 15, 45), write("out", "uint8", 15, 45)),
    _entry("pyramid", _levels, read("image", "uint8", 32, 48, 4), write("out", "uint8", 510, 4)),
    _entry("diffuse_errors", _diffused, read("images", "uint8", 3, 27, 41), write("out", "uint8", 3, 27, 41)),
    _entry("harris", _corners, read("image", "float32", 29, 43), write("out", "float32", 27, 41), tolerance=1e-5),
)  # fmt: skip
