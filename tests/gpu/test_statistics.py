"""The interval of the median against the tabled order statistics and against simulation."""

import numpy as np
import pytest

from warplab.gpu.statistics import Interval, mean_interval, median_interval
from warplab.gpu.stopwatch import Placed, TurnTimes


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
    assert (interval.low, interval.value, interval.high, interval.samples) == (1.0, 2.0, 3.0, 3)


def test_no_samples_are_an_error():
    with pytest.raises(ValueError):
        median_interval([])


def test_interval_of_a_mean_of_batches_covers_the_true_mean_though_each_batch_has_an_offset():
    """Within a batch there is hardly any scatter: the intervals of single batches would nearly always miss."""
    rng = np.random.default_rng(2)
    covered = []
    for _ in range(4000):
        batches = [median_interval(1 + 0.01 * rng.normal() + 1e-4 * rng.normal(size=12)) for _ in range(4)]
        mean = mean_interval(batches)
        covered.append(mean.low <= 1 <= mean.high)
    assert 0.94 < np.mean(covered) < 0.96
    assert mean.samples == 48


def test_one_batch_keeps_its_own_interval_and_none_is_an_error():
    alone = Interval(2.0, 1.0, 4.0, 7)
    assert mean_interval([alone]) == alone
    with pytest.raises(ValueError):
        mean_interval([])


def test_going_first_makes_no_difference_to_a_ratio() -> None:
    """Who goes first takes 2% longer, and every other turn goes backwards; an odd turn at the end has no partner."""
    draw = np.random.default_rng(1)
    first, second = (1.02 + 0.001 * draw.standard_normal(41), 1 + 0.001 * draw.standard_normal(41))
    turns = np.arange(41) % 2 == 0
    race = TurnTimes({"one": list(np.where(turns, first, second)), "two": list(np.where(turns, second, first))})
    ratio = race.ratio("one", "two")
    assert abs(ratio.value - 1) < 0.0005
    assert ratio.low <= 1 <= ratio.high
    assert ratio.samples == 20
    assert abs(race.time("one").value - 1.01) < 0.001


def test_every_place_counts_the_same_however_often_it_was_visited() -> None:
    """In one of three places the kernel takes 3% longer: a median of all samples would not know of it."""
    place = np.arange(14) % 3  # of a sample, which is two turns: five visits to the first two, four to the last
    times = np.repeat(np.where(place == 2, 1.03, 1.0), 2)
    race = TurnTimes({"one": list(times), "two": [1.0] * 28}, placements=3)
    assert race.time("one").value == pytest.approx(1.01)
    assert race.ratio("one", "two").value == pytest.approx(1.01)
    assert race.ratio("one", "two").samples == 14
    assert race.ratio("one", "two").low < 1 and race.ratio("one", "two").high > 1.03
    assert race.width("one", "two") == pytest.approx(0.03)


class Noted:
    """A candidate that notes which turns it was given."""

    launches = 2

    def __init__(self) -> None:
        self.turns: list[int] = []
        self.done: list[str] = []

    def prepare(self, turn: int) -> None:
        self.turns.append(turn)

    def launch(self) -> None:
        self.done.append("launched")

    def check(self, turn: int) -> None:
        self.done.append(f"checked {turn}")


def test_a_sample_is_taken_in_one_place() -> None:
    places = [Noted(), Noted()]
    placed = Placed(places)
    for turn in (-2, -1, 0, 1, 2, 3, 4):
        placed.prepare(turn)
        placed.launch()
        placed.check(turn)
    assert [p.turns for p in places] == [[0, 1, 4], [-2, -1, 2, 3]]
    assert places[0].done == ["launched", "checked 0", "launched", "checked 1", "launched", "checked 4"]
    assert placed.launches == 2
