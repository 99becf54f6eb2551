"""The cache-aware roofline: marks stand where they should, and the level that is suspected is the filled one."""

from __future__ import annotations

import pytest
from matplotlib.colors import same_color

from course.figures.hierarchical_roofline import LevelIntensities, hierarchical_roofline
from warplab.figures import style

LEVELS = {"L1": 30e12, "L2": 6e12, "memory": 4e12}
NEAR_L1 = LevelIntensities("near L1", 20e12, {"L1": 0.8, "L2": 40, "memory": 1000})
NEAR_L2 = LevelIntensities("near L2", 10e12, {"L1": 9, "L2": 2, "memory": 500})


def marks(figure) -> dict[str, object]:
    (axes,) = figure.axes
    return {line.get_gid(): line for line in axes.lines if line.get_gid() and "/" in line.get_gid()}


def test_each_kernel_has_a_mark_a_level_at_its_intensity_and_rate() -> None:
    drawn = marks(hierarchical_roofline(60e12, LEVELS, [NEAR_L1, NEAR_L2]))
    assert len(drawn) == 6
    for kernel in (NEAR_L1, NEAR_L2):
        for level, intensity in kernel.intensities.items():
            line = drawn[f"{kernel.name}/{level}"]
            assert (line.get_xdata()[0], line.get_ydata()[0]) == (intensity, kernel.flops)
            assert intensity * LEVELS[level] >= kernel.flops, "the sample lies under its roofs"


def test_the_mark_under_the_lowest_slope_is_filled() -> None:
    drawn = marks(hierarchical_roofline(60e12, LEVELS, [NEAR_L1, NEAR_L2]))
    assert NEAR_L1.tightest(LEVELS) == "L1" and NEAR_L2.tightest(LEVELS) == "L2"
    filled = {name for name, line in drawn.items() if not same_color(line.get_markerfacecolor(), style.PANEL)}
    assert filled == {"near L1/L1", "near L2/L2"}


def test_slopes_are_named_with_their_bandwidth_and_end_at_the_peak() -> None:
    (axes,) = hierarchical_roofline(60e12, LEVELS, [NEAR_L1]).axes
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["L1, 30 TB/s", "L2, 6 TB/s", "memory, 4 TB/s"]
    slopes = axes.lines[:3]
    for line, bandwidth in zip(slopes, LEVELS.values(), strict=True):
        assert max(line.get_ydata()) == 60e12
        assert line.get_ydata()[0] == pytest.approx(bandwidth * line.get_xdata()[0])
    assert any("near L1: 20 TFLOP/s" in t.get_text() for t in axes.texts)


def test_names_and_marks_are_inside() -> None:
    figure = hierarchical_roofline(
        60e12, LEVELS, [NEAR_L1, NEAR_L2, LevelIntensities("slow", 1e10, {"L1": 0.01, "memory": 2})]
    )
    figure.canvas.draw()
    (axes,) = figure.axes
    inside = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1, text.get_text()


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ValueError, match="no place"):
        hierarchical_roofline(60e12, LEVELS, [LevelIntensities("x", 0, {"L1": 1})])
    with pytest.raises(ValueError, match="no level here"):
        hierarchical_roofline(60e12, LEVELS, [LevelIntensities("x", 1, {"L3": 1})])
