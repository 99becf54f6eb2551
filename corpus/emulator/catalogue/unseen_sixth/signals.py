"""Entries of kernels/unseen_sixth/signals.py."""

from __future__ import annotations

import itertools

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, write

_entry = maker("unseen_sixth", "signals")
_CLOSE = Approximate(4, "approximate functions", 1e-6)


def _tones(v: dict) -> dict:
    x, factors = v["frames"].astype(np.longdouble), v["factors"].astype(np.longdouble)
    a = b = np.zeros((len(x), factors.size), np.longdouble)
    for k in range(x.shape[1]):
        a, b = x[:, k, None] + factors * a - b, a
    return {"out": a * a + b * b - factors * a * b}


def _decoded(v: dict) -> dict:
    sizes = [
        *(7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97),
        *(107, 118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724),
        *(796, 876, 963, 1060, 1166, 1282, 1411, 1552, 1707, 1878, 2066, 2272, 2499, 2749, 3024, 3327, 3660, 4026),
        *(4428, 4871, 5358, 5894, 6484, 7132, 7845, 8630, 9493, 10442, 11487, 12635, 13899, 15289, 16818, 18500),
        *(20350, 22385, 24623, 27086, 29794, 32767),
    ]
    steps, n = np.array(sizes), v["packed"].shape[1]
    value, at, out = np.zeros(n, int), np.zeros(n, int), []
    for word in v["packed"].astype(int):
        for k in range(8):
            code, size = word >> 4 * k & 15, steps[at]
            change = (size >> 3) + (code & 1) * (size >> 2) + (code >> 1 & 1) * (size >> 1) + (code >> 2 & 1) * size
            value = np.clip(value + np.where(code & 8, -change, change), -32768, 32767)
            at = np.clip(at + np.array([-1, -1, -1, -1, 2, 4, 6, 8])[code & 7], 0, 88)
            out.append(value)
    return {"out": np.array(out)}


def _mu_law(v: dict) -> dict:
    s = v["samples"].astype(int)
    size = np.minimum(abs(s), 32635) + 132
    exponent = np.floor(np.log2(size)).astype(int) - 7
    mantissa = size // 2 ** (exponent + 3) % 16
    return {"out": 255 - (128 * (s < 0) + 16 * exponent + mantissa)}


def _waves(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    pace = generator.uniform(0.05, 1.5, (shape[0], 1))
    return (np.sin(pace * np.arange(shape[1])) + 0.2 * generator.standard_normal(shape)).astype(dtype)


def _crossed(v: dict) -> dict:
    counts, longest = [], []
    for row in v["frames"]:
        runs = [len(list(group)) for _, group in itertools.groupby(row < 0)]
        counts.append(len(runs) - 1)
        longest.append(max(runs))
    return {"count": np.array(counts), "longest": np.array(longest)}


def _learnt(v: dict) -> dict:
    heard, noise = v["heard"].astype(np.longdouble), v["noise"].astype(np.longdouble)
    weight, past = np.zeros((2, 8, heard.shape[1]), np.longdouble)
    out, rate = [], np.longdouble(0.02)
    for h, x in zip(heard, noise, strict=True):
        past = np.vstack([x, past[:-1]])
        left = h - (weight * past).sum(0)
        weight = weight + rate * left * past
        out.append(left)
    return {"out": np.array(out)}


def _decimated(v: dict) -> dict:
    """Three averages over eight samples one after the other, scaled, in the words of the kernel."""
    window = np.convolve(np.convolve(np.ones(8, int), np.ones(8, int)), np.ones(8, int))
    out = []
    for row in v["samples"].astype(int):
        sums = np.convolve(row, window)[7 : row.size : 8]
        out.append(((sums << 20) + 2**31) % 2**32 - 2**31 >> 9)
    return {"out": np.array(out).T}


def _pitches(v: dict) -> dict:
    out = []
    for row in v["frames"].astype(int):
        out.append(20 + int(np.argmax([row[:-s] @ row[s:] for s in range(20, 116)])))
    return {"out": np.array(out)}


def _voices(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    period = generator.uniform(25, 100, (shape[0], 1))
    return (900 * np.sin(2 * np.pi * np.arange(shape[1]) / period) + generator.normal(0, 300, shape)).astype(dtype)


def _far(v: dict) -> dict:
    image = v["image"] > 0
    h, w = image.shape
    y, x = np.arange(h), np.arange(w)
    down = np.where(image[None], abs(y[:, None] - y)[..., None], 100).min(1).clip(max=100)
    square = down[:, None, :] ** 2 + (x[:, None] - x) ** 2
    return {"down": down, "out": square.min(2)}


def _spots(share: float) -> draws.Draw:
    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return (generator.random(shape) < share).astype(dtype)

    return draw


def _scrambled(v: np.ndarray) -> np.ndarray:
    v = (v ^ v >> 16) * 0x7FEB352D % 2**32
    v = (v ^ v >> 15) * 0x846CA68B % 2**32
    return v ^ v >> 16


def _cells(v: dict) -> dict:
    h, w = v["nearest"].shape
    y, x = np.mgrid[:h, :w]
    least, which = np.full((h, w), 1 << 30), np.zeros((h, w), int)
    for j, i in itertools.product((-1, 0, 1), (-1, 0, 1)):
        cx, cy = x // 8 + i, y // 8 + j
        r = _scrambled(((cx * 7 + cy * 131 + 77) % 2**32).astype(np.uint64)).astype(int)
        far = (cx * 8 + (r & 7) - x) ** 2 + (cy * 8 + (r >> 3 & 7) - y) ** 2
        nearer = (far < least) & (r >> 28 > 0)
        least, which = np.where(nearer, far, least), np.where(nearer, r >> 8 & 255, which)
    return {"nearest": least, "cell": which}


def _moved(v: dict) -> dict:
    a, b = v["first"].astype(int), v["second"].astype(int)
    gx, gy, gt = np.zeros((3, *a.shape), int)
    gx[1:-1, 1:-1] = a[1:-1, 2:] - a[1:-1, :-2]
    gy[1:-1, 1:-1] = a[2:, 1:-1] - a[:-2, 1:-1]
    gt[1:-1, 1:-1] = (b - a)[1:-1, 1:-1]

    def sums(field: np.ndarray) -> np.ndarray:
        return np.lib.stride_tricks.sliding_window_view(np.pad(field, 2), (5, 5)).sum((2, 3)).astype(float)

    xx, xy, yy, xt, yt = (sums(f) for f in (gx * gx, gx * gy, gy * gy, gx * gt, gy * gt))
    area = xx * yy - xy * xy
    safe = np.where(area > 1e6, area, np.inf)
    return {"out": np.stack([(xy * yt - yy * xt) / safe, (xy * xt - xx * yt) / safe], -1)}


def _half_smooth(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Waves, noisy on the left half, flat in a corner."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    image = 128 + 60 * np.sin(x / 3) * np.cos(y / 4) + generator.normal(0, 20, shape) * (x < shape[1] // 2)
    image[-9:, -15:] = 100
    return image.clip(0, 255).astype(dtype)


def _mixed(v: dict) -> dict:
    total = np.zeros(v["out"].shape)
    for track, gain in zip(v["tracks"].astype(float), v["gains"].astype(float), strict=True):
        total = (total + track * gain).astype(np.float16).astype(float)
    return {"out": total.clip(-1, 1).astype(np.float16)}


def _edges(v: dict) -> dict:
    """Sides and squares of the first square's spot with its holes; squares that touch at a corner are apart."""
    lengths, areas = [], []
    for word in v["pictures"].tolist():
        spot = {k for k in range(64) if word >> k & 1}
        if not spot:
            lengths.append(0)
            areas.append(0)
            continue
        wall = {10 * (k // 8) + k % 8 for k in spot}
        board = {10 * y + x for y in range(-1, 9) for x in range(-1, 9)}
        grown, new = set(), {min(wall)}
        while new:
            grown |= new
            new = {k + d for k in new for d in (-10, -1, 1, 10)} & wall - grown
        outside, new = set(), {-11}
        while new:
            outside |= new
            new = {k + d for k in new for d in (-11, -10, -9, -1, 1, 9, 10, 11)} & board - outside - grown
        inner = board - outside
        lengths.append(sum(k + d not in inner for k in inner for d in (-10, -1, 1, 10)))
        areas.append(len(inner))
    return {"lengths": np.array(lengths), "areas": np.array(areas)}


def _pictures(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    share = generator.uniform(0, 0.9, (*shape, 1))
    bits = generator.random((*shape, 64)) < share
    return (bits.astype(np.uint64) << np.arange(64, dtype=np.uint64)).sum(-1).astype(dtype)


ENTRIES: tuple[Entry, ...] = (
    _entry("goertzel", _tones, read("frames", "float32", 30, 60), read("factors", "float64", 11),
           write("out", "float64", 30, 11), factors=draws.uniform(-1.9, 1.9), tolerance=1e-12),
    _entry("adpcm", _decoded, read("packed", "uint32", 6, 85), write("out", "int16", 48, 85)),
    _entry("to_mu_law", _mu_law, read("samples", "int16", 330, 4), write("out", "uint8", 330, 4)),
    _entry("zero_crossings", _crossed, read("frames", "float32", 7, 544), write("count", "int32", 7),
           write("longest", "int32", 7), frames=_waves),
    _entry("learn_filter", _learnt, read("heard", "float64", 50, 80), read("noise", "float64", 50, 80),
           write("out", "float64", 50, 80), tolerance=1e-12),
    _entry("decimate_by_sums", _decimated, read("samples", "int8", 90, 88), write("out", "int32", 11, 90)),
    _entry("pitch", _pitches, read("frames", "int16", 5, 290), write("out", "int32", 5), frames=_voices),
    _entry("distances_to_set", _far, read("image", "uint8", 41, 47), write("down", "int32", 41, 47),
           write("out", "int32", 41, 47), image=_spots(0.02)),
    _entry("worley", _cells, write("nearest", "int32", 37, 45), write("cell", "uint8", 37, 45)),
    _entry("flow", _moved, read("first", "uint8", 29, 43), read("second", "uint8", 29, 43),
           write("out", "float32", 29, 43, 2), first=_half_smooth, second=_half_smooth, approximate=_CLOSE),
    _entry("mix_tracks", _mixed, read("tracks", "float16", 5, 270, 2), read("gains", "float16", 5, 2),
           write("out", "float16", 270, 2)),
    _entry("walk_edges", _edges, read("pictures", "uint64", 90), write("lengths", "int32", 90),
           write("areas", "int32", 90), pictures=_pictures),
)  # fmt: skip
