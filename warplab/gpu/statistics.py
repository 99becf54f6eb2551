"""Medians with confidence intervals that assume nothing about the distribution of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A median and the bounds of its 95% confidence interval, in the unit of the samples."""

    median: float
    low: float
    high: float
    samples: int

    @property
    def width(self) -> float:
        """Width of the interval relative to the median."""
        return (self.high - self.low) / self.median


def median_interval(samples: Sequence[float]) -> Interval:
    """The median of `samples` with its 95% interval from order statistics.

    The number of samples below the true median is binomial(n, 1/2), so the interval between the k-th smallest and k-th
    largest sample misses it with probability 2 P(B < k); k is the largest for which that is at most 5% (Conover,
    Practical Nonparametric Statistics, section 3.2). With fewer than 6 samples no such k exists, and the whole range is
    given, which is then less than a 95% interval. Raises ValueError for no samples.
    """
    if not len(samples):
        raise ValueError("a median needs at least one sample")
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    n = len(ordered)
    tail, k = 0.0, 0
    while k < n // 2 and tail + comb(n, k) / 2**n <= 0.025:
        tail += comb(n, k) / 2**n
        k += 1
    k = max(k, 1)
    return Interval(float(np.median(ordered)), float(ordered[k - 1]), float(ordered[n - k]), n)
