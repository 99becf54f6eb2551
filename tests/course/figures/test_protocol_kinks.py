"""The figure of protocols: the thick curve is the fastest of them, and each change has its words."""

from __future__ import annotations

from course.figures.protocol_kinks import protocol_kinks


def test_the_thick_curve_is_the_fastest() -> None:
    made = protocol_kinks(
        [1.0, 2.0, 4.0], {"ll": [3e9, 4e9, 5e9], "simple": [1e9, 4e9, 9e9]}, [(2.0, "simple from 2 B")], title="t"
    )
    (axes,) = made.axes
    thick, first, second, change = axes.lines
    assert list(thick.get_ydata()) == [3, 4, 9] and thick.get_linewidth() > 2 * first.get_linewidth()
    assert list(second.get_ydata()) == [1, 4, 9] and first.get_color() != second.get_color()
    assert list(change.get_xdata()) == [2, 2] and [text.get_text() for text in axes.texts] == ["simple from 2 B"]
    assert axes.get_yscale() == "linear"
