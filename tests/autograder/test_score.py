from __future__ import annotations

import math

import pytest

from autograder.spec.lab import EfficiencyScale
from autograder.spec.score import budget_share, efficiency_points, traffic_points

SCALE = EfficiencyScale(floor=0.05, target=0.8)


@pytest.mark.parametrize(
    ("efficiency", "points"),
    [(0.0, 0.0), (0.05, 0.0), (0.2, 20.0), (0.1, 10.0), (0.8, 40.0), (1.1, 40.0), (math.nan, 0.0), (-1.0, 0.0)],
)
def test_each_doubling_of_speed_gives_the_same_points(efficiency: float, points: float) -> None:
    assert efficiency_points(efficiency, SCALE, 40.0) == points


def test_points_are_rounded_to_a_tenth() -> None:
    assert efficiency_points(0.3, SCALE, 40.0) == round(40 * math.log(6) / math.log(16), 1)


@pytest.mark.parametrize(
    ("value", "limit", "share"),
    [(0, 0, 1), (1, 0, 0), (100, 100, 1), (50, 100, 1), (150, 100, 0), (10**9, 100, 0), (15, 15.5, 1)],
)
def test_a_budget_leaves_all_within_it_and_nothing_from_half_as_much_again(
    value: int, limit: float, share: float
) -> None:
    assert budget_share(value, limit) == share


def test_each_percent_above_a_budget_costs_the_same() -> None:
    assert budget_share(math.sqrt(1.5) * 1e6, 1e6) == pytest.approx(0.5)  # half the way by ratios
    shares = [budget_share(1.1**power * 1e6, 1e6) for power in range(5)]
    steps = [a - b for a, b in zip(shares, shares[1:], strict=False)]
    assert steps == pytest.approx([steps[0]] * 4) and steps[0] > 0.2


@pytest.mark.parametrize("points", [15.0, 25.0, 0.1, 12.5])
def test_one_too_many_never_earns_full_points(points: float) -> None:
    earned = traffic_points(budget_share(10**9 + 1, 1e9), points)
    assert points - 0.11 < earned < points
    assert traffic_points(1.0, points) == points
