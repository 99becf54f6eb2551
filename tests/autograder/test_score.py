from __future__ import annotations

import math

import pytest

from autograder.spec.lab import EfficiencyScale
from autograder.spec.score import efficiency_points

SCALE = EfficiencyScale(floor=0.05, target=0.8)


@pytest.mark.parametrize(
    ("efficiency", "points"),
    [(0.0, 0.0), (0.05, 0.0), (0.2, 20.0), (0.1, 10.0), (0.8, 40.0), (1.1, 40.0), (math.nan, 0.0), (-1.0, 0.0)],
)
def test_each_doubling_of_speed_gives_the_same_points(efficiency: float, points: float) -> None:
    assert efficiency_points(efficiency, SCALE, 40.0) == points


def test_points_are_rounded_to_a_tenth() -> None:
    assert efficiency_points(0.3, SCALE, 40.0) == round(40 * math.log(6) / math.log(16), 1)
