"""Fits alpha and bandwidth to times by size: up to three lines, each for a range of sizes.

A library that changes its protocol with the size changes its alpha and its bandwidth, so one line fits badly.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LINES = 3  # as many as NCCL has protocols
_LEAST_POINTS = 3  # of a line
_WORTH = 0.99  # of the error before: a further line must make it smaller than this


@dataclass(frozen=True)
class Line:
    """Seconds = alpha + size / bandwidth, for sizes from `first` to `last` bytes."""

    first: float
    last: float
    alpha: float
    bandwidth: float

    def seconds(self, size: float) -> float:
        return self.alpha + size / self.bandwidth


def fit(points: Sequence[tuple[float, float]], lines: int = LINES) -> list[Line]:
    """The lines, one after the other over the sizes, whose largest relative error on (bytes, seconds) is least.

    Each has three points or more, and is the least-squares line of relative errors; neither alpha nor the time a byte
    is below 0. Fewer points give fewer lines. Raises ValueError for less than two points.
    """
    if len(points) < 2:
        raise ValueError("a line needs two points")
    ordered = sorted(points)
    best: tuple[float, list[Line]] | None = None
    for count in range(1, max(1, min(lines, len(ordered) // _LEAST_POINTS)) + 1):
        for cuts in itertools.combinations(range(_LEAST_POINTS, len(ordered) - _LEAST_POINTS + 1), count - 1):
            ends = [0, *cuts, len(ordered)]
            parts = [ordered[a:b] for a, b in itertools.pairwise(ends)]
            if count > 1 and min(map(len, parts)) < _LEAST_POINTS:
                continue
            found = [_line(part) for part in parts]
            error = max(abs(line.seconds(s) / t - 1) for line, part in zip(found, parts, strict=True) for s, t in part)
            if best is None or error < best[0] * _WORTH:
                best = error, found
    assert best is not None
    return best[1]


def predicted(lines: Sequence[Line], size: float) -> float:
    """Seconds by the lines of a fit; between two of them, by the one whose sizes are nearer."""
    return min(lines, key=lambda line: max(line.first / size, size / line.last)).seconds(size)


def _line(points: Sequence[tuple[float, float]]) -> Line:
    size, time = (np.array(column, np.float64) for column in zip(*points, strict=True))
    rows = np.stack([1 / time, size / time], 1)
    (alpha, beta), *_ = np.linalg.lstsq(rows, np.ones(len(size)), rcond=None)
    if alpha < 0:
        alpha, beta = 0.0, float((size / time).sum() / ((size / time) ** 2).sum())
    if beta <= 0:
        alpha, beta = float((1 / time).sum() / ((1 / time) ** 2).sum()), 1e-30
    return Line(float(size[0]), float(size[-1]), float(alpha), 1 / float(beta))
