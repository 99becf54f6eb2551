"""Figures of chapter 14: what is drawn is what was given."""

from __future__ import annotations

import pytest

from course.figures.kept_operators import kept_operators
from course.figures.live_memory import Course, live_memory
from course.figures.trade import trade
from systems.training.planner import Operator


def test_the_first_curve_is_stairs_and_points_have_names() -> None:
    plans = [(n, 40 - 3 * n) for n in (3, 1, 2, *range(4, 11))]
    made = trade(
        {"plans": plans, "others": [(1, 50), (3, 30)]}, {"full": (0.5, 60)}, title="t", across="MB", up="%",
    )  # fmt: skip
    (axes,) = made.axes
    stairs, others, full = axes.lines
    assert list(stairs.get_xdata()) == [*range(1, 11)] and list(stairs.get_ydata())[:2] == [37, 34]
    assert stairs.get_drawstyle() == "steps-post" and others.get_drawstyle() == "default"
    assert (full.get_xdata()[0], full.get_ydata()[0]) == (0.5, 60)
    assert "full" in [text.get_text() for text in axes.texts]
    with pytest.raises(ValueError, match="between 1 and 6 curves, not 0"):
        trade({}, {}, title="t", across="", up="")


def test_memory_is_drawn_over_the_work_done_and_the_turn_is_marked() -> None:
    course = Course(live=[4_000_000, 9_000_000, 2_000_000], flops=[10**9, 0, 3 * 10**9], forward=2)
    (axes,) = live_memory({"plain": course}, title="t").axes
    line, turn = axes.lines
    assert list(line.get_xdata()) == [1, 1, 4] and list(line.get_ydata()) == [4, 9, 2]
    assert (turn.get_xdata()[0], turn.get_ydata()[0]) == (1, 9)
    with pytest.raises(ValueError, match="not 0"):
        live_memory({}, title="t")


def test_operators_lie_side_by_side_as_wide_as_their_results() -> None:
    table = [
        Operator(0, "qkv", 3_000_000, 5, 1),
        Operator(0, "norm", 1_000_000, 0, 1),
        Operator(1, "qkv", 2_000_000, 5, 1),
    ]
    (axes,) = kept_operators(table, {(0, "qkv")}, title="t").axes
    assert [(one.get_x(), one.get_width(), int(one.get_y())) for one in axes.patches] == [
        (0, 3, 0),
        (3, 1, 0),
        (0, 2, 1),
    ]
    assert len({one.get_facecolor() for one in axes.patches}) == 3  # kept, without FLOP, by a product
    assert axes.get_xlim() == (0, 4) and [text.get_text() for text in axes.texts] == ["qkv", "norm", "qkv"]
    with pytest.raises(ValueError, match="nothing to draw"):
        kept_operators([], set(), title="t")
