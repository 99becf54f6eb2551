"""Figures of chapter 15: what is drawn is what was given."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure

from course.figures.sm_timeline import explore_ring, sm_timeline
from systems.megakernel.schedule import Op, schedule
from systems.megakernel.shapes import TOY
from systems.megakernel.timeline import Machine, Span, modelled


def bars(made: Figure, kind: str) -> list[tuple[float, float, int]]:
    """Begin, end and row of all bars of a kind."""
    (axes,) = made.axes
    found = []
    for collection in axes.collections:
        if collection.get_gid() == kind:
            for path in collection.get_paths():
                (left, bottom), (right, top) = path.get_extents().get_points()
                found.append((round(left, 6), round(right, 6), round((bottom + top) / 2)))
    return found


def test_waits_and_work_lie_where_the_spans_say() -> None:
    first = [Span(Op.QKV, 0, 1000, 1500, 1200, 2800, 3000), Span(Op.DOWN, 0, 3000, 3000, 3500, 4000, 4000)]
    made = sm_timeline([first, [Span(Op.ATTEND, 0, 2000, 2000, 2000, 2500, 2500)]], title="t")
    assert bars(made, "inputs") == [(0, 0.5, 0)]
    assert bars(made, "weights") == [(2.0, 2.5, 0)]
    assert bars(made, "QKV") == [(0.5, 1.8, 0)]
    assert bars(made, "tells") == [(1.8, 2.0, 0)]
    assert bars(made, "DOWN") == [(2.5, 3.0, 0)]
    assert bars(made, "ATTEND") == [(1.0, 1.5, 1)]
    with pytest.raises(ValueError, match="nothing to draw"):
        sm_timeline([[]], title="t")


def test_the_sliders_draw_the_model_anew() -> None:
    pytest.importorskip("ipywidgets")
    machine = Machine(page=10, latency=100, compute=2, hand_over=500, slots=13)
    explorer: Any = explore_ring(TOY, 4, machine, position=3)
    times = modelled(schedule(TOY, 4, 3), machine)
    pages = sum(line.pages for each in schedule(TOY, 4, 3) for line in each) / 4
    assert f"takes {times.max() / (10 * pages):.2f} times" in explorer.figure.texts[0].get_text()
    assert bars(explorer.figure, "GATE_UP")
    explorer.controls["weights"].value = "when inputs are there"
    assert explorer.image.value and not explorer.message.value
