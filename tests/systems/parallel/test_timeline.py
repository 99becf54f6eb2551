"""Schedules carried out pass by pass against the closed forms of their papers, and what makes an order right."""

import pytest

from systems.parallel.bubbles import bubble, copies
from systems.parallel.bubbles import held as held_at_most
from systems.parallel.layout import Schedule
from systems.parallel.shapes import LayoutError
from systems.parallel.timeline import Kind, Pass, held, idle, orders, run

CASES = [
    (Schedule.GPIPE, 4, 8, 1),
    (Schedule.GPIPE, 8, 3, 1),
    (Schedule.ONE_F_ONE_B, 4, 8, 1),
    (Schedule.ONE_F_ONE_B, 8, 32, 1),
    (Schedule.ONE_F_ONE_B, 4, 8, 2),
    (Schedule.ONE_F_ONE_B, 8, 16, 3),
    (Schedule.ZERO_BUBBLE, 4, 8, 1),
    (Schedule.ZERO_BUBBLE, 8, 20, 1),
    (Schedule.DUALPIPE, 4, 12, 1),
    (Schedule.DUALPIPE, 8, 20, 1),
    (Schedule.DUALPIPE, 16, 64, 1),
]


@pytest.mark.parametrize(("schedule", "stages", "many", "chunks"), CASES)
def test_bubble_and_memory_are_the_closed_forms(schedule: Schedule, stages: int, many: int, chunks: int) -> None:
    cells = run(orders(schedule, stages, many, chunks), 1.0, 1.0, 1.0, chunks)
    for gpu in range(stages):
        assert idle(cells, gpu) == pytest.approx(bubble(schedule, stages, 1.0, 2.0, 1.0, chunks))
    fullest = max(held(cells, gpu) for gpu in range(stages)) / chunks
    assert fullest == pytest.approx(held_at_most(schedule, stages, many, chunks))


@pytest.mark.parametrize(("schedule", "stages", "many", "chunks"), CASES)
def test_every_stage_does_every_micro_batch_once(schedule: Schedule, stages: int, many: int, chunks: int) -> None:
    forward, inputs, weights = [], [], []
    for order in orders(schedule, stages, many, chunks):
        for one in order:
            for part in (one, one.beside):
                if part is None:
                    continue
                place = (part.micro_batch, part.stage)
                if part.kind is Kind.FORWARD:
                    forward.append(place)
                if part.kind in (Kind.BACKWARD, Kind.INPUT):
                    inputs.append(place)
                if part.kind in (Kind.BACKWARD, Kind.WEIGHTS):
                    weights.append(place)
    every = sorted((m, stage) for m in range(many) for stage in range(stages * chunks))
    assert sorted(forward) == sorted(inputs) == sorted(weights) == every


@pytest.mark.parametrize(
    ("schedule", "bubble_of_16"),
    [(Schedule.ONE_F_ONE_B, 15 * 3), (Schedule.ZERO_BUBBLE, 15 * 1), (Schedule.DUALPIPE, 7 * (3 + 2 - 3))],
)
def test_table_2_of_deepseek_v3(schedule: Schedule, bubble_of_16: float) -> None:
    """F = W = 1, B = 2, F&B = 3 put into its rows by hand."""
    assert bubble(schedule, 16, 1, 2, 1) == bubble_of_16


def test_uneven_times_only_make_waiting_longer_for_1f1b() -> None:
    """Its bubble is the sum of one pass of each kind for each other stage, whatever their times."""
    cells = run(orders(Schedule.ONE_F_ONE_B, 6, 12), 1.0, 2.5, 0.7)
    assert idle(cells, 0) == pytest.approx(5 * (1.0 + 2.5 + 0.7))


def test_only_dualpipe_holds_parameters_twice() -> None:
    assert [copies(one) for one in Schedule] == [1, 1, 1, 1, 2]


def test_one_stage_never_waits() -> None:
    assert all(bubble(one, 1, 1, 2, 1) == 0 for one in Schedule)


def test_orders_that_cannot_be_are_refused() -> None:
    with pytest.raises(LayoutError, match="multiple of 4"):
        orders(Schedule.ONE_F_ONE_B, 4, 6, 2)
    with pytest.raises(LayoutError, match="even number"):
        orders(Schedule.DUALPIPE, 4, 6)
    with pytest.raises(LayoutError, match="not known here"):
        orders(Schedule.ZERO_BUBBLE_V, 4, 8)
    with pytest.raises(LayoutError, match="1 or more"):
        orders(Schedule.GPIPE, 4, 0)
    swapped = [[Pass(Kind.BACKWARD, 0, 0), Pass(Kind.FORWARD, 0, 0)]]
    with pytest.raises(LayoutError, match="wait for each other"):
        run(swapped, 1, 1, 1)
