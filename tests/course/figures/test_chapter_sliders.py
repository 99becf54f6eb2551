"""The figures behind sliders of the first chapters: what they say, against counts and laws of their own."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from course.figures.divergence import CONDITIONS, divergence, explore_divergence, paths
from course.figures.in_flight import bandwidth_of, explore_in_flight, in_flight
from course.figures.issue_slots import explore_issue_slots, issue_slots, issues, slots_used
from course.figures.pitch import down_a_column, explore_pitch
from course.figures.roof_explorer import explore_roof, under_the_roof
from warplab.hardware.chips import H100, H200


def said(figure) -> str:
    return " ".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize(("warps", "chains", "latency"), list(itertools.product((1, 3, 4, 16), (1, 2, 5), (1, 4, 23))))
def test_slots_are_used_as_littles_law_has_it(warps: int, chains: int, latency: int) -> None:
    assert slots_used(warps, chains, latency) == pytest.approx(min(1, warps * chains / latency))
    shown = issues(warps, chains, latency, 200)
    for warp in range(warps):  # no more of a warp within one latency than it has chains
        turns = [cycle for cycle, who in enumerate(shown) if who == warp]
        assert all(later - turn >= latency for turn, later in zip(turns, turns[chains:], strict=False))


def test_the_slots_drawn_are_those_counted() -> None:
    figure = issue_slots(3, 1, 4)
    (axes,) = figure.axes
    drawn = [patch.get_gid() for patch in axes.patches]
    assert drawn.count("used") == 36 and drawn.count("empty") == 12 and "75% of the issue slots" in said(figure)
    with pytest.raises(ValueError, match="at least one"):
        issues(0, 1, 4, 10)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_lanes_of_both_paths(condition: str) -> None:
    first, second = 3, 5
    taken = sum(eval(condition, {"lane": lane, "block": 0}) for lane in range(32))
    useful = first * taken + second * (32 - taken)
    issued = first * (taken > 0) + second * (taken < 32)
    masks = paths(condition, first, second)
    assert len(masks) == issued and sum(map(sum, masks)) == useful
    figure = divergence(condition, first, second)
    assert [p.get_gid() for p in figure.axes[0].patches].count("works") == useful
    assert f"{useful / (32 * issued):.0%} of their lanes" in said(figure)


def test_no_such_condition() -> None:
    with pytest.raises(ValueError, match="choose one of"):
        paths("lane is odd", 1, 1)


@pytest.mark.parametrize("pitch", [24, 31, 32, 33, 36, 40, 64])
def test_a_column_takes_the_wavefronts_of_the_common_divisor(pitch: int) -> None:
    wavefronts, title = math.gcd(pitch, 32), said(down_a_column(pitch))
    assert f"{wavefronts} wavefront" in title
    assert ("do not begin" in title) == (4 * pitch % 16 != 0)


def test_a_kernel_on_the_curve_of_bytes_in_flight() -> None:
    points = [(1024, 1e12), (2048, 1.8e12), (2048, 2.2e12), (4096, 3e12)]
    assert in_flight(16, 1, 4) == 16 * np.empty(32, np.float32).nbytes
    figure = bandwidth_of(points, 3000, 16, 1, 4)  # 2,048 bytes: the mean of two
    assert "2.00 TB/s, 67% of the best" in said(figure)
    (here,) = [line for line in figure.axes[0].lines if line.get_gid() == "here"]
    assert (here.get_xdata()[0], here.get_ydata()[0]) == (2, 2)
    with pytest.raises(ValueError, match="needs points"):
        bandwidth_of([], 1, 1, 1, 4)


def test_the_limit_under_a_roof() -> None:
    ridge = H100.peaks["fp16 tensor"] / H100.bandwidth
    assert "limited by memory" in said(under_the_roof("H100", "fp16 tensor", 0.9 * ridge))
    assert "limited by compute" in said(under_the_roof("H100", "fp16 tensor", 1.1 * ridge))
    assert f"{H200.name}, fp32" in said(under_the_roof("H200", "fp32", 1))
    for chip, kind, intensity, complaint in (("A100", "fp8 tensor", 1, "no fp8"), ("H100", "fp32", 0, "positive")):
        with pytest.raises(ValueError, match=complaint):
            under_the_roof(chip, kind, intensity)


def test_controls_draw_anew_and_refusals_are_sentences() -> None:
    for explorer in (
        explore_issue_slots(), explore_divergence(), explore_pitch(), explore_in_flight([(1024, 1e12)], 2000),
    ):  # fmt: skip
        name, control = next(iter(explorer.controls.items()))
        control.value = next(value for value in control.options if value != control.value)
        assert bytes(explorer.image.value).startswith(b"\x89PNG") and not explorer.message.value, name
    roof = explore_roof()
    roof.controls["intensity"].value = -1
    assert "positive" in roof.message.value
