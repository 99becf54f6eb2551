"""Figures of the planner: what is drawn is what was planned, and sliders say a sentence instead of failing."""

import pytest

from course.figures.plan_sliders import plan_figure, plan_sliders
from course.figures.planned_runs import planned_runs
from course.figures.stacks import stacks
from course.figures.stages import stages
from systems.parallel.layout import Job, Layout, Schedule
from systems.parallel.machines import DGX_H100
from systems.parallel.models import find_model
from systems.parallel.runs import runs
from systems.parallel.shapes import LayoutError
from systems.parallel.step import plan
from systems.parallel.timeline import Kind, orders, run

JOB = Job(find_model("Llama 3 70B"), 512, 8192)
LAYOUT = Layout(data=16, tensor=8, pipeline=4, chunks=16)


def test_a_schedule_has_a_rectangle_a_pass_and_its_share_of_waiting() -> None:
    cells = run(orders(Schedule.ONE_F_ONE_B, 4, 8), 1, 1, 1)
    made = stages(cells, title="1F1B")
    (axes,) = made.axes
    assert len(axes.patches) == len(cells) == 4 * 16
    assert sum(patch.get_width() for patch in axes.patches) == pytest.approx(4 * 8 * 3)
    assert "27% of 33 is waiting" in " ".join(text.get_text() for text in [*made.texts, *axes.texts])
    with pytest.raises(ValueError, match="nothing to draw"):
        stages([], title="none")


def test_passes_beside_each_other_share_a_cell() -> None:
    cells = run(orders(Schedule.DUALPIPE, 4, 12), 1, 1, 1)
    both = sum(cell.done.beside is not None for cell in cells)
    made = stages(cells, title="DualPipe")
    (axes,) = made.axes
    assert both > 0 and len(axes.patches) == len(cells) + both
    assert {label.get_text() for label in made.legends[0].get_texts()} >= {"forward", "backward"}
    assert any(cell.done.kind is Kind.WEIGHTS for cell in cells)


def test_bars_add_up_and_empty_parts_have_no_name() -> None:
    made = stacks({"a": {"x": 1.0, "y": 2.0, "z": 0.0}, "b": {"x": 3.0}}, title="t", across="s", limit=2.0)
    (axes,) = made.axes
    assert [label.get_text() for label in made.legends[0].get_texts()] == ["x", "y"]
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    assert ends == [1.0, 3.0, 3.0, 3.0]
    with pytest.raises(ValueError, match="parts"):
        stacks({}, title="t", across="s")
    with pytest.raises(ValueError, match="below zero"):
        stacks({"a": {"x": -1.0, "y": 3.0}}, title="t", across="s")


def test_every_run_is_a_dot_and_fitted_ones_are_hollow() -> None:
    (axes,) = planned_runs(runs(), title="t").axes
    dots = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
    assert sum(len(line.get_xdata()) for line in dots) == len(runs())
    hollow = [line for line in dots if line.get_markerfacecolor() != line.get_color()]
    assert sum(len(line.get_xdata()) for line in hollow) == sum(one.fit for one in runs())
    with pytest.raises(ValueError, match="no runs"):
        planned_runs([], title="t")


def test_a_plan_shows_its_seconds() -> None:
    step = plan(JOB, LAYOUT, DGX_H100)
    (axes,) = plan_figure(step).axes
    assert max(bar.get_x() + bar.get_width() for bar in axes.patches) == pytest.approx(step.seconds)


def test_sliders_draw_anew_or_say_why_not() -> None:
    made = plan_sliders(JOB, LAYOUT, DGX_H100)
    made.sliders["tensor"].value = 4
    assert made.picture.value[:4] == b"\x89PNG" and made.sentence.value == ""
    before = made.picture.value
    made.sliders["expert"].value = 8
    assert "no experts to share" in made.sentence.value and made.picture.value == before
    made.sliders["expert"].value = 1
    assert made.sentence.value == ""
    with pytest.raises(LayoutError):
        plan_sliders(JOB, Layout(tensor=7), DGX_H100)


@pytest.mark.slow
def test_no_choice_of_the_sliders_raises() -> None:
    made = plan_sliders(JOB, LAYOUT, DGX_H100)
    for slider in made.sliders.values():
        for _, value in ((None, option) for option in slider.options):
            slider.value = value
