"""Entries of kernels/unseen_sixth/numba.py."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_sixth", "numba", "numba_")
_WIDE = Approximate(16, "approximate functions", 1e-12)
_CLOSE = Approximate(32, "approximate functions", 1e-5)


def _blocks(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Messages of up to 55 bytes with SHA-1's padding, word by word."""
    rows = []
    for _ in range(shape[1]):
        size = int(generator.integers(0, 56))
        data = generator.bytes(size) + b"\x80" + bytes(55 - size) + (8 * size).to_bytes(8, "big")
        rows.append(np.frombuffer(data, ">u4"))
    return np.array(rows).T.astype(dtype)


def _sha_1(v: dict) -> dict:
    out = []
    for block in v["blocks"].T:
        data = block.astype(">u4").tobytes()
        size = int.from_bytes(data[56:], "big") // 8
        out.append(np.frombuffer(hashlib.sha1(data[:size], usedforsecurity=False).digest(), ">u4"))
    return {"out": np.array(out).T.astype(np.uint32)}


def _speck(v: dict) -> dict:
    mask, out = 2**64 - 1, []

    def mixed(x: int, y: int, k: int) -> tuple[int, int]:
        x = ((x >> 8 | x << 56) + y & mask) ^ k
        return x, (y << 3 & mask | y >> 61) ^ x

    for x, y in v["text"].tolist():
        a, b = v["keys"].tolist()
        for k in range(32):
            x, y = mixed(x, y, a)
            b, a = mixed(b, a, k)
        out.append((x & mask, y & mask))
    return {"out": np.array(out, np.uint64)}


def _fractions(v: dict) -> dict:
    terms, counts = np.zeros(v["terms"].shape, int), []
    for i, (a, b) in enumerate(v["pairs"].tolist()):
        count = 0
        while b and count < len(terms):
            terms[count, i] = a // b
            a, b = b, a % b
            count += 1
        counts.append(count)
    return {"terms": terms, "counts": np.array(counts)}


def _registers(v: dict) -> dict:
    """Found with lists of bits."""
    taps, lengths = [], []
    for word in v["streams"].tolist():
        s = [word >> k & 1 for k in range(40)]
        c, b = [1] + [0] * 40, [1] + [0] * 40
        length, last = 0, -1
        for k in range(40):
            if sum(c[j] & s[k - j] for j in range(length + 1)) % 2 == 0:
                continue
            before = c[:]
            for j in range(41 - (k - last)):
                c[j + k - last] ^= b[j]
            if 2 * length <= k:
                length, last, b = k + 1 - length, k, before
        taps.append(sum(bit << j for j, bit in enumerate(c)))
        lengths.append(length)
    return {"taps": np.array(taps, np.uint64), "lengths": np.array(lengths)}


def _streams(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Bits that a register of at most 12 made, which is shorter than chance."""
    words = []
    for _ in range(shape[0]):
        length = int(generator.integers(1, 13))
        bits, taps = list(generator.integers(0, 2, length)), generator.integers(0, 2, length)
        while len(bits) < 40:
            bits.append(int(np.dot(taps, bits[-length:])) % 2)
        words.append(sum(int(bit) << k for k, bit in enumerate(bits)))
    return np.array(words, dtype)


def _places(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.array([generator.choice(90, shape[0], replace=False) + 1 for _ in range(shape[1])]).T.astype(dtype)


def _secrets(v: dict) -> dict:
    p, out = 65521, []
    for x, y in zip(v["places"].T.tolist(), v["shares"].T.tolist(), strict=True):
        total = 0
        for k in range(len(x)):
            above = math.prod(x[j] for j in range(len(x)) if j != k)
            below = math.prod(x[j] - x[k] for j in range(len(x)) if j != k)
            total += y[k] * above * pow(below, -1, p)
        out.append(total % p)
    return {"out": np.array(out)}


def _multiples(v: dict) -> dict:
    """Multiples one after the other from adding the first point."""
    p, slope = 9739, 497
    first: tuple[int, int] | None = (3, 6)
    points: list[tuple[int, int] | None] = [None]
    for _ in range(int(v["factors"].max())):
        a, b = points[-1], first
        if a is None or b is None:
            points.append(b)
        elif a[0] == b[0] and (a[1] + b[1]) % p == 0:
            points.append(None)
        else:
            rise, run = (3 * a[0] ** 2 + slope, 2 * a[1]) if a == b else (b[1] - a[1], b[0] - a[0])
            s = rise * pow(run, -1, p)
            x = (s * s - a[0] - b[0]) % p
            points.append((x, (s * (a[0] - x) - a[1]) % p))
    return {"out": np.array([points[k] or (-1, -1) for k in v["factors"].tolist()]).T}


def _sizes(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.integers(0, 2**63, shape, np.uint64) >> generator.integers(0, 63, shape, np.uint64)).astype(dtype)


def _toeplitz(v: dict) -> dict:
    n, out = v["rows"].shape[1], []
    for t, b in zip(v["rows"].astype(np.longdouble), v["right"].astype(np.longdouble), strict=True):
        a = t[abs(np.arange(n)[:, None] - np.arange(n))]
        a = np.column_stack([a, b])
        for k in range(n):
            a[k] = a[k] / a[k, k]
            for j in range(n):
                if j != k:
                    a[j] = a[j] - a[j, k] * a[k]
        out.append(a[:, -1])
    return {"out": np.array(out)}


def _strong(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Rows with 1 first that is more than all else."""
    rows = generator.uniform(-0.04, 0.04, shape)
    rows[:, 0] = 1
    return rows.astype(dtype)


def _swung(v: dict) -> dict:
    angle, speed = v["start"].astype(np.longdouble)
    turns, pi = np.zeros(angle.size), np.longdouble(math.pi)
    dt = np.longdouble(0.1)
    for _ in range(40):
        speed = speed - dt * np.sin(angle)
        angle = angle + dt * speed
        over, under = angle > pi, angle < -pi
        angle = angle - 2 * pi * over + 2 * pi * under
        turns += over * 1.0 - under
    return {"out": np.array([angle, speed, turns])}


def _chained(v: dict) -> dict:
    out = []
    for row in v["turns"].astype(float):
        q = np.array([1.0, 0, 0, 0])
        for r in row:
            w = q[0] * r[0] - q[1:] @ r[1:]
            q = np.concatenate([[w], q[0] * r[1:] + r[0] * q[1:] + np.cross(q[1:], r[1:])])
        out.append(q / np.linalg.norm(q))
    return {"out": np.array(out)}


def _unit(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    q = generator.standard_normal(shape)
    return (q / np.linalg.norm(q, axis=-1, keepdims=True)).astype(dtype)


def _concordant(v: dict) -> dict:
    a, b = np.triu_indices(v["x"].size, 1)
    side = np.sign(v["x"][a] - v["x"][b]) * np.sign(v["y"][a] - v["y"][b])
    return {"counts": np.array([(side > 0).sum(), (side < 0).sum()])}


def _medians(v: dict) -> dict:
    out = []
    for i in range(v["out"].size):
        state, drawn = (i * 747796405 + 1) % 2**32, []
        for _ in range(15):
            state = (state * 1664525 + 1013904223) % 2**32
            drawn.append(v["sample"][(state >> 8) % v["sample"].size])
        out.append(np.sort(drawn)[7])
    return {"out": np.array(out, np.float32)}


def _boxes(v: dict) -> dict:
    image = np.pad(v["image"] != 0, [(0, -size % 16) for size in v["image"].shape])
    h, w = image.shape
    counts = [image.reshape(h // s, s, w // s, s).any((1, 3)).sum() for s in (1, 2, 4, 8, 16)]
    return {"counts": np.array(counts)}


def _path(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    image = np.zeros(shape, dtype)
    at = np.array(shape) // 2
    for _ in range(300):
        at = (at + generator.integers(-1, 2, 2)) % shape
        image[tuple(at)] = 1
    return image


ENTRIES: tuple[Entry, ...] = (
    _entry("sha_1", _sha_1, read("blocks", "uint32", 16, 75), write("out", "uint32", 5, 75), blocks=_blocks),
    _entry("speck", _speck, read("text", "uint64", 190, 2), read("keys", "uint64", 2), write("out", "uint64", 190, 2)),
    _entry("fractions", _fractions, read("pairs", "int64", 120, 2), write("terms", "int64", 14, 120),
           write("counts", "int32", 120), pairs=draws.integers(1, 10**6)),
    _entry("shortest_register", _registers, read("streams", "uint64", 80), write("taps", "uint64", 80),
           write("lengths", "int32", 80), streams=_streams),
    _entry("join_shares", _secrets, read("places", "int64", 4, 75), read("shares", "int64", 4, 75),
           write("out", "int64", 75), places=_places, shares=draws.integers(0, 65521)),
    _entry("curve_multiples", _multiples, read("factors", "int64", 70), write("out", "int64", 2, 70),
           factors=draws.integers(0, 3000)),
    _entry("square_roots",
           lambda v: {"out": np.array([math.isqrt(n) for n in v["numbers"].tolist()], np.uint64)},
           read("numbers", "uint64", 300), write("out", "uint64", 300), numbers=_sizes),
    _entry("levinson", _toeplitz, read("rows", "float64", 75, 11), read("right", "float64", 75, 11),
           write("out", "float64", 75, 11), rows=_strong, tolerance=1e-12),
    _entry("pendulums", _swung, read("start", "float64", 2, 80), write("out", "float64", 3, 80),
           start=draws.uniform(-2.9, 2.9), tolerance=1e-11, approximate=_WIDE),
    _entry("chain_of_turns", _chained, read("turns", "float32", 13, 27, 4), write("out", "float32", 13, 4),
           turns=_unit, tolerance=1e-5, approximate=_CLOSE),
    _entry("concordance", _concordant, read("x", "float32", 210), read("y", "int32", 210),
           update("counts", "int64", 2), y=draws.integers(0, 60), counts=draws.zeros),
    _entry("resampled_medians", _medians, read("sample", "float32", 50), write("out", "float32", 170)),
    _entry("box_counts", _boxes, read("image", "uint8", 41, 70), update("counts", "int32", 5), image=_path,
           counts=draws.zeros),
)  # fmt: skip
