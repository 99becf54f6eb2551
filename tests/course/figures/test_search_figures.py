"""Figures of chapter 16: what they say, against sums made by hand and against float16 in NumPy's own product."""

from __future__ import annotations

import numpy as np
import pytest

from course.figures.averages import Raced, arithmetic, averages, by_time, explore_averages, geometric
from course.figures.found_by_trial import found_by_trial
from course.figures.half_sums import KINDS, drawn, errors, explore_half_sums, half_sums
from course.figures.host_clock import explore_host_clock, host_clock, said

RACES = [Raced(1, 1.0, 2.0), Raced(1000, 8.0, 4.0)]  # twice as fast where it is quick, half where it takes long


def words(figure) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def test_three_means_of_two_shapes() -> None:
    assert arithmetic(RACES) == 1.25 and geometric(RACES) == pytest.approx(1) and by_time(RACES) == pytest.approx(6 / 9)
    for mean in (arithmetic, geometric, by_time):
        with pytest.raises(ValueError, match="no shapes"):
            mean([])


def test_only_what_is_chosen_is_averaged() -> None:
    assert "1 of 2 shapes; mean of ratios 2.000" in words(averages(RACES, 0, 10))
    assert "2 of 2 shapes; mean of ratios 1.250, geometric 1.000 (dashed), by time 0.667" in words(
        explore_averages(RACES).figure
    )
    with pytest.raises(ValueError, match="choose a wider range"):
        averages(RACES, 2, 10)


def test_a_host_clock_hides_a_ratio_and_makes_one_up() -> None:
    assert said(10, 0, 1.5) == 1.5
    assert said(1, 100, 1.5) == pytest.approx(101.5 / 101)
    assert said(1, 100, 1, lighter=10) == pytest.approx(101 / 11)
    assert "1.00 times at 0.5 µs, 1.50 times at 16,384 µs" in words(host_clock(100, 1.5, 1))
    assert explore_host_clock().controls["launch"].value == 100
    with pytest.raises(ValueError, match="0 µs or more"):
        host_clock(-1, 1, 1)


@pytest.mark.parametrize("k", [64, 512, 2048])
def test_zeros_and_ones_show_nothing(k: int) -> None:
    """Sums of up to 2,048 ones are whole numbers that float16 holds."""
    assert (errors("zeros and ones", k) == 0).all()
    assert "catches 0 of 256" in words(half_sums("zeros and ones", k))


def test_normal_numbers_show_it_and_a_bound_of_float32_holds_for_float32() -> None:
    a, b = drawn("normal", 512)
    exact, single = (a.astype(np.float64) * b), np.zeros(len(a), np.float32)
    for p in range(512):
        single += a[:, p].astype(np.float32) * b[:, p].astype(np.float32)
    assert (abs(single - exact.sum(1)) <= 511 * 2.0**-24 * abs(exact).sum(1)).all()
    off = errors("normal", 512)
    assert (off > 1).mean() > 0.8
    figure = explore_half_sums().figure
    assert sum(int(patch.get_height()) for patch in figure.axes[0].patches) == 256
    caught = sum(int(p.get_height()) for p in half_sums("normal", 512).axes[0].patches[3:])
    assert caught == int((off > 1).sum())
    with pytest.raises(ValueError, match="is none of"):
        drawn("fives", 4)
    assert len(KINDS) == 3


def test_the_share_of_searches_that_have_found_one_is_drawn_as_stairs() -> None:
    (axes,) = found_by_trial({"a": [1, 3, 3, 4], "b": [2]}, title="t").axes
    first, second = axes.lines
    assert list(first.get_ydata()) == [0, 25, 25, 75, 100] and list(second.get_ydata()) == [0, 0, 100, 100, 100]
    assert first.get_drawstyle() == "steps-post" and first.get_linestyle() != second.get_linestyle()
    with pytest.raises(ValueError, match="not 0"):
        found_by_trial({}, title="t")
