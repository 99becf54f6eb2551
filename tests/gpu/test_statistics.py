"""The interval of the median against the tabled order statistics and against simulation."""

import numpy as np
import pytest

from warplab.gpu.statistics import median_interval
from warplab.gpu.stopwatch import Race


@pytest.mark.parametrize(("n", "k"), [(6, 1), (10, 2), (20, 6), (30, 10), (50, 18), (100, 40)])
def test_ranks_are_the_tabled_ones(n, k):
    # Ranks of 95% intervals of a median, as in any table of the sign test's critical values
    interval = median_interval(np.arange(1, n + 1))
    assert (interval.low, interval.high) == (k, n + 1 - k)


def test_interval_covers_the_true_median_of_a_skewed_distribution():
    rng = np.random.default_rng(1)
    intervals = [median_interval(rng.exponential(size=25)) for _ in range(4000)]
    covered = np.mean([i.low <= np.log(2) <= i.high for i in intervals])
    assert 0.945 < covered < 0.985  # 95% at least, by construction a little more


def test_few_samples_give_their_range():
    interval = median_interval([3.0, 1.0, 2.0])
    assert (interval.low, interval.median, interval.high, interval.samples) == (1.0, 2.0, 3.0, 3)


def test_no_samples_are_an_error():
    with pytest.raises(ValueError):
        median_interval([])


def test_going_first_makes_no_difference_to_a_ratio() -> None:
    """Who goes first takes 2% longer, and every other turn goes backwards; an odd turn at the end has no partner."""
    draw = np.random.default_rng(1)
    first, second = (1.02 + 0.001 * draw.standard_normal(41), 1 + 0.001 * draw.standard_normal(41))
    turns = np.arange(41) % 2 == 0
    race = Race({"one": list(np.where(turns, first, second)), "two": list(np.where(turns, second, first))})
    ratio = race.ratio("one", "two")
    assert abs(ratio.median - 1) < 0.0005
    assert ratio.low <= 1 <= ratio.high
    assert ratio.samples == 20
    assert abs(race.time("one").median - 1.01) < 0.001
