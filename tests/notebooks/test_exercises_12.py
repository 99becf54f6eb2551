"""Notebook 12: what is given does not reach the goals, and the printed solutions do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.course.exercises import Exercises

EXERCISES = Exercises(
    "12_collectives", {1: "curve_alpha_us = ", 2: "from systems.network.schedules", 3: "nodes_for_trees = "}
)


@pytest.fixture
def names() -> dict[str, Any]:
    """What the exercises use of the notebook, nothing drawn or shown."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(EXERCISES.cell_with("c12_collectives as c12"), made)
    return made


@pytest.mark.parametrize("number", EXERCISES.begins)
def test_only_the_solution_reaches_the_goal(number: int, names: dict[str, Any]) -> None:
    assert EXERCISES.only_the_solution_reaches_the_goal(number, names)


@pytest.mark.parametrize(
    ("number", "attempt"),
    [
        (1, "curve_alpha_us = 21\ncurve_bus_gb = 341.1"),
        (1, "curve_alpha_us = 20.66\ncurve_bus_gb = 321.7"),  # size over time at 64 MiB, as if there were no latency
        (2, EXERCISES.solution(2).replace("32", "4")),  # too few pieces
        (2, EXERCISES.solution(2).replace("rank + chunk, rank,", "chunk, rank,")),  # sent before it is there
        (2, "broadcast_chunks = 1\nbroadcast = [Transfer(0, 0, 9, 0)]"),  # no such rank
        (3, "nodes_for_trees = 32"),
        (3, "nodes_for_trees = 128"),
        (3, "nodes_for_trees = 60"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not EXERCISES.reached(number, attempt, names)
