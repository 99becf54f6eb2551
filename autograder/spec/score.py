"""Points for an efficiency."""

from __future__ import annotations

import math

from autograder.spec.lab import EfficiencyScale


def efficiency_points(efficiency: float, scale: EfficiencyScale, points: float) -> float:
    """Points for a fraction of the roofline: none at `scale.floor`, all at `scale.target`, log-linear between.

    A logarithm, because each doubling of speed is one step of equal effort. Rounded to a tenth of a point.
    """
    if not efficiency > scale.floor:
        return 0.0
    share = math.log(efficiency / scale.floor) / math.log(scale.target / scale.floor)
    return round(points * min(share, 1.0), 1)
