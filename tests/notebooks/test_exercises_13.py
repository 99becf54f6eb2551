"""Notebook 13: what is given does not reach the goals, and the printed solutions do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.course.exercises import Exercises

EXERCISES = Exercises(
    "13_parallelism", {1: "enough = ", 2: "from systems.parallel.timeline", 3: "my_layout = ", 4: "nic_gbs = "}
)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the exercises use of the notebook."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(EXERCISES.cell_with("from course.chapters import c13_parallelism as c13"), made)
    exec(EXERCISES.cell_with("F, I, W = "), made)
    return made


@pytest.mark.parametrize("number", EXERCISES.begins)
def test_only_the_solution_reaches_the_goal(number: int, names: dict[str, Any]) -> None:
    assert EXERCISES.only_the_solution_reaches_the_goal(number, names)


@pytest.mark.parametrize(
    ("number", "attempt"),
    [
        (1, "enough = 286"),
        (1, "enough = 284"),
        (1, "enough = 0"),
        (2, "my_orders = orders(Schedule.GPIPE, 2, 4)"),
        (2, "my_orders = [order[:-1] for order in orders(Schedule.ZERO_BUBBLE, 2, 4)]"),  # a pass is missing
        (2, "my_orders = [[Pass(I, 0, 0), Pass(F, 0, 0)], []]"),  # waits for itself
        (2, "my_orders = [[1, 2], [3]]"),
        (3, "my_layout = Layout(data=128, tensor=2, zero=3)"),  # fits, and is too slow
        (3, "my_layout = Layout(data=32, tensor=4, zero=3, recompute=Recompute.FULL)"),  # 128 GPUs
        (3, "my_layout = Layout(data=16, tensor=7)"),
        (4, "nic_gbs = 68"),
        (4, "nic_gbs = 0"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not EXERCISES.reached(number, attempt, names)
