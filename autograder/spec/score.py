"""Points for an efficiency, and for counters that miss their budgets."""

from __future__ import annotations

import math

from autograder.spec.lab import EfficiencyScale

NONE_FROM = 1.5  # times a budget: docs/grading.md has the corpus's misses, the least of which is 1.9


def efficiency_points(efficiency: float, scale: EfficiencyScale, points: float) -> float:
    """Points for a fraction of the roofline: none at `scale.floor`, all at `scale.target`, log-linear between.

    A logarithm, because each doubling of speed is one step of equal effort. Rounded to a tenth of a point.
    """
    if not efficiency > scale.floor:
        return 0.0
    share = math.log(efficiency / scale.floor) / math.log(scale.target / scale.floor)
    return round(points * min(share, 1.0), 1)


def budget_share(value: float, limit: float) -> float:
    """The share of the points for traffic that a counter leaves: 1 within its limit, 0 from NONE_FROM times that on,
    log-linear between. Where nothing is allowed, anything is too much."""
    if value <= limit:
        return 1.0
    if limit <= 0:
        return 0.0
    return max(1 - math.log(value / limit) / math.log(NONE_FROM), 0.0)


def traffic_points(share: float, points: float) -> float:
    """Points for a share: whole tenths, rounded down, so that a miss never earns full points."""
    return math.floor(points * share * 10) / 10
