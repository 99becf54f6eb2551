"""Entries of kernels/unseen_sixth/geometry.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, write

_entry = maker("unseen_sixth", "geometry")
_CLOSE = Approximate(32, "approximate functions", 1e-5)


def _star(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A polygon around the origin with far and near corners."""
    angles = np.sort(generator.uniform(0, 2 * np.pi, shape[0]))
    far = generator.uniform(300, 1000, shape[0])
    return np.column_stack([far * np.cos(angles), far * np.sin(angles)]).astype(dtype)


def _inside(v: dict) -> dict:
    b, p = v["corners"].astype(np.int64), v["points"].astype(np.int64)[:, None]
    a = np.roll(b, 1, 0)
    crosses = (a[:, 1] > p[..., 1]) != (b[:, 1] > p[..., 1])
    side = (b[:, 0] - a[:, 0]) * (p[..., 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (p[..., 0] - a[:, 0])
    return {"out": (crosses & ((side > 0) == (b[:, 1] > a[:, 1]))).sum(1) % 2}


def _sorted_points(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    rows = []
    for _ in range(shape[0]):
        keys = np.sort(generator.choice(100 * 100, shape[1], replace=False))
        rows.append(np.column_stack([keys // 100 - 50, keys % 100 - 50]))
    return np.array(rows, dtype)


def _hulls(v: dict) -> dict:
    corners, areas = [], []
    for p in v["points"].astype(np.int64):
        at, area, count = 0, 0, 0
        while True:  # wraps the hull from the leftmost point, farthest of those in line first
            best = -1
            for k in range(len(p)):
                if k == at:
                    continue
                if best < 0:
                    best = k
                    continue
                (ax, ay), (bx, by) = p[best] - p[at], p[k] - p[at]
                turn = ax * by - ay * bx
                if turn < 0 or (turn == 0 and bx * bx + by * by > ax * ax + ay * ay):
                    best = k
            area += int(p[at][0] * p[best][1] - p[at][1] * p[best][0])
            count += 1
            at = best
            if at == 0:
                break
        corners.append(count)
        areas.append(area)
    return {"corners": np.array(corners), "area": np.array(areas)}


def _areas(v: dict) -> dict:
    out, starts = [], v["starts"].tolist()
    for a, b in zip(starts, starts[1:], strict=False):
        p = v["corners"][a:b].astype(np.int64)
        q = np.roll(p, -1, 0)
        out.append((p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]).sum())
    return {"out": np.array(out)}


def _cut(v: dict) -> dict:
    low, high = np.longdouble(-0.75), np.longdouble(1.25)
    out = []
    for row in v["triangles"].astype(np.longdouble):
        polygon = [tuple(p) for p in row.reshape(3, 2)]
        for axis, sign, edge in ((0, 1, low), (1, 1, low), (0, -1, -high), (1, -1, -high)):
            kept = []
            for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
                a, b = sign * p[axis] - edge, sign * q[axis] - edge
                if a >= 0:
                    kept.append(p)
                if (a >= 0) != (b >= 0):
                    t = a / (a - b)
                    kept.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
            polygon = kept
        pairs = zip(polygon, polygon[1:] + polygon[:1], strict=True)
        out.append(abs(sum((p[0] * q[1] - p[1] * q[0] for p, q in pairs), np.longdouble(0))) / 2)
    return {"out": np.array(out)}


def _crossed(v: dict) -> dict:
    s = v["segments"].astype(np.int64)
    a, b = s[:, None, :2], s[:, None, 2:]

    def side(p: np.ndarray) -> np.ndarray:
        return np.sign((b - a)[..., 0] * (p - a)[..., 1] - (b - a)[..., 1] * (p - a)[..., 0])

    apart = side(s[None, :, :2]) * side(s[None, :, 2:]) < 0
    return {"out": (apart & apart.T).sum(1)}


def _box_tree(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    leaves = (shape[0] + 1) // 2
    corner = generator.integers(0, 900, (leaves, 2))
    corner = corner[np.lexsort((corner[:, 1], corner[:, 0] // 150))]
    boxes = np.zeros(shape, int)
    boxes[leaves - 1 :] = np.hstack([corner, corner + generator.integers(0, 100, (leaves, 2))])
    for k in range(leaves - 2, -1, -1):
        a, b = boxes[2 * k + 1], boxes[2 * k + 2]
        boxes[k] = [*np.minimum(a[:2], b[:2]), *np.maximum(a[2:], b[2:])]
    return boxes.astype(dtype)


def _windows(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    corner = generator.integers(0, 950, (shape[0], 2))
    return np.hstack([corner, corner + generator.integers(0, 160, (shape[0], 2))]).astype(dtype)


def _overlapped(v: dict) -> dict:
    leaves = v["boxes"][len(v["boxes"]) // 2 :].astype(int)
    counts, mixes = [], []
    # Leaves of a full tree of a power of two come from left to right.
    for x, y, z, w in v["windows"].astype(int):
        hits = np.nonzero((leaves[:, 0] <= z) & (x <= leaves[:, 2]) & (leaves[:, 1] <= w) & (y <= leaves[:, 3]))[0]
        mix = 0
        for k in hits.tolist():
            mix = (mix * 31 + k) % 2**32
        counts.append(len(hits))
        mixes.append(mix)
    return {"count": np.array(counts), "mix": np.array(mixes)}


def _corners(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Triples of points of 40, mostly of near numbers."""
    first = generator.integers(0, 40, (shape[0], 1))
    return ((first + [[0, 1, 2]] * generator.integers(1, 4, (shape[0], 1))) % 40).astype(dtype)


def _on_spiral(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    angle = np.arange(shape[0]) * 0.35
    return np.column_stack([(9 + 30 * angle) * np.cos(angle), (9 + 30 * angle) * np.sin(angle)]).astype(dtype)


def _circles(v: dict) -> dict:
    points, out = [tuple(p) for p in v["points"].tolist()], []
    for t in v["triangles"].tolist():
        (ax, ay), (bx, by), (cx, cy) = (points[k] for k in t)
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        # The circle's centre times twice the area, from the first corner.
        ux, uy, wx, wy = bx - ax, by - ay, cx - ax, cy - ay
        u, w = ux * ux + uy * uy, wx * wx + wy * wy
        x, y = wy * u - uy * w, ux * w - wx * u
        empty = True
        for k, (px, py) in enumerate(points):
            if k not in t:
                dx, dy = px - ax, py - ay
                empty &= (dx * dx + dy * dy) * abs(area) >= (dx * x + dy * y) * (1 if area > 0 else -1)
        out.append(int(empty))
    bad = [sum(1 - e for e in out[k : k + 96]) for k in range(0, 96 * 3, 96)]
    return {"out": np.array(out), "violations": np.array(bad)}


def _to_triangles(v: dict) -> dict:
    """The nearest point lies on the face, if its foot is within, or on one of three edges."""
    p = v["points"].astype(float)
    least = np.full(len(p), np.inf)
    for a, b, c in v["corners"].astype(float).reshape(-1, 3, 3):
        for s, e in ((a, b), (b, c), (c, a)):
            t = np.clip((p - s) @ (e - s) / ((e - s) @ (e - s)), 0, 1)
            least = np.minimum(least, ((p - s - t[:, None] * (e - s)) ** 2).sum(1))
        normal = np.cross(b - a, c - a)
        within = np.ones(len(p), bool)
        for s, e in ((a, b), (b, c), (c, a)):
            within &= np.cross(e - s, p - s) @ normal >= 0
        height = ((p - a) @ normal) ** 2 / (normal @ normal)
        least = np.where(within, np.minimum(least, height), least)
    return {"out": least}


@np.errstate(divide="ignore", invalid="ignore")  # for lines that the case does not use
def _contours(v: dict) -> dict:
    m = v["map"].astype(float)
    a, b, c, d = m[:-1, :-1], m[:-1, 1:], m[1:, 1:], m[1:, :-1]
    kind = (a > 0.25) | (b > 0.25) << 1 | (c > 0.25) << 2 | (d > 0.25) << 3
    t, r, s, q = ((0.25 - x) / (y - x) for x, y in ((a, b), (b, c), (d, c), (a, d)))
    none, one = np.zeros(t.shape), np.ones(t.shape)
    middle = {"t": (t, none), "r": (one, r), "b": (s, one), "l": (none, q)}
    pairs = "", "tl", "tr", "lr", "br", "tlbr", "tb", "bl"
    length = np.zeros(kind.shape)
    for case in range(16):
        ends = pairs[min(case, 15 - case)]
        for x, y in zip(ends[::2], ends[1::2], strict=True):
            (x0, y0), (x1, y1) = middle[x], middle[y]
            here = kind == case
            length[here] += np.hypot(x1 - x0, y1 - y0)[here]
    return {"cases": kind.astype(int), "length": length}


def _heights(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Sixteenths away from the level, so that lines cross edges well within them."""
    return (generator.integers(-12, 14, shape) / 16 + 1 / 32).astype(dtype)


def _pairs(v: dict) -> dict:
    out = []
    for p in v["points"].astype(np.int64):
        a, b = np.triu_indices(len(p), 1)
        square = ((p[a] - p[b]) ** 2).sum(1)
        out.append((square << 32 | a << 16 | b).min())
    return {"out": np.array(out)}


ENTRIES: tuple[Entry, ...] = (
    _entry("in_polygon", _inside, read("corners", "int32", 23, 2), read("points", "int32", 350, 2),
           write("out", "uint8", 350), corners=_star, points=draws.integers(-1000, 1000)),
    _entry("hulls", _hulls, read("points", "int16", 85, 30, 2), write("corners", "int32", 85),
           write("area", "int32", 85), points=_sorted_points),
    _entry("ring_areas", _areas, read("corners", "int32", 600, 2), read("starts", "int32", 14),
           write("out", "int64", 13), corners=draws.integers(-(10**6), 10**6), starts=draws.row_starts(600)),
    _entry("cut_triangles", _cut, read("triangles", "float64", 130, 6), write("out", "float64", 130)),
    _entry("crossings", _crossed, read("segments", "int32", 200, 4), write("out", "int32", 200),
           segments=draws.integers(0, 1000)),
    _entry("overlaps", _overlapped, read("boxes", "int16", 127, 4), read("windows", "int16", 120, 4),
           write("count", "int32", 120), write("mix", "uint32", 120), boxes=_box_tree, windows=_windows),
    _entry("empty_circles", _circles, read("points", "int32", 40, 2), read("triangles", "int32", 270, 3),
           write("out", "uint8", 270), write("violations", "int32", 3), points=_on_spiral, triangles=_corners),
    _entry("triangle_distances", _to_triangles, read("corners", "float32", 36, 3), read("points", "float32", 180, 3),
           write("out", "float32", 180), points=draws.uniform(-2, 2), tolerance=1e-5, approximate=_CLOSE),
    _entry("contours", _contours, read("map", "float32", 22, 50), write("cases", "uint8", 21, 49),
           write("length", "float32", 21, 49), map=_heights, tolerance=1e-5, approximate=_CLOSE),
    _entry("closest_pairs", _pairs, read("points", "int16", 6, 150, 2), write("out", "uint64", 6),
           points=draws.integers(-8000, 8000)),
)  # fmt: skip
