"""Medians with confidence intervals that assume nothing about the distribution of the samples, and means of such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np

# What 95% of Student's distribution lie within, for 1 to 9 degrees of freedom
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its 95% confidence interval, in the unit of the samples."""

    value: float
    low: float
    high: float
    samples: int

    @property
    def width(self) -> float:
        """Width of the interval relative to the estimate."""
        return (self.high - self.low) / self.value


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


def mean_interval(batches: Sequence[Interval]) -> Interval:
    """The mean of the estimates of one to ten batches of samples, with its 95% interval; of one batch, that itself.

    The interval is Student's over the batches' estimates, so it has in it whatever differs between batches and not
    within one (batch means: Law, Simulation Modeling and Analysis, 5th ed., section 9.5.3). Raises ValueError for no
    batches or more than ten.
    """
    n = len(batches)
    if not 1 <= n <= len(_STUDENT) + 1:
        raise ValueError(f"a mean of 1 to {len(_STUDENT) + 1} batches can be had, not of {n}")
    if n == 1:
        return batches[0]
    values = np.array([batch.value for batch in batches])
    mean, half = float(values.mean()), _STUDENT[n - 2] * float(values.std(ddof=1)) / sqrt(n)
    return Interval(mean, mean - half, mean + half, sum(batch.samples for batch in batches))
