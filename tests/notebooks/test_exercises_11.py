"""Notebook 11: what is given does not reach the goals, and the printed solutions do."""

from __future__ import annotations

from typing import Any

import pytest

from course.chapters.c11_the_network import schedule_of
from systems.network.schedules import Flaw, check
from tests.course.exercises import Exercises

EXERCISES = Exercises(
    "11_the_network", {1: "gather_size = ", 2: "rings_of_mesh = ", 3: "chunks_of_mine = ", 4: "bucket_mb = "}
)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the exercises use of the notebook."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(EXERCISES.cell_with("c11_the_network as c11"), made)
    exec("from systems.network.costs import Algorithm", made)
    exec(EXERCISES.cell_with("REDUCE = Op.REDUCE"), made)
    exec(EXERCISES.cell_with('tries["wait for each other"]'), made)
    return made


@pytest.mark.parametrize("number", EXERCISES.begins)
def test_only_the_solution_reaches_the_goal(number: int, names: dict[str, Any]) -> None:
    assert EXERCISES.only_the_solution_reaches_the_goal(number, names)


@pytest.mark.parametrize(
    ("number", "attempt"),
    [
        (1, "gather_size = 2**26"),  # near, but not the smallest
        (1, "gather_size = 2**25 - 1"),
        (2, "rings_of_mesh = [[0, 1, 2, 3, 4, 5, 6, 6]]"),  # does not visit all
        (2, "rings_of_mesh = [[0, 3, 2, 1, 5, 6, 7, 4], [4, 7, 6, 5, 1, 2, 3, 0]]"),  # a third of what there is
        (3, EXERCISES.solution(3).replace("(a ^ 1) % 2, REDUCE", "a % 2, REDUCE")),  # the neighbour's share stays away
        (3, "chunks_of_mine = 1\nmine = [Transfer(0, 0, 9, 0)]"),  # no such rank
        (4, "bucket_mb = 78"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not EXERCISES.reached(number, attempt, names)


def test_the_checker_names_what_the_text_is_about(names: dict[str, Any]) -> None:
    found = [check(schedule_of(name, moves)) for name, moves in names["tries"].items()]
    kinds = [finding and finding.kind for finding in found]
    assert kinds == [None, Flaw.MISSING, Flaw.MISSING, Flaw.ADDED_TWICE, Flaw.DEADLOCK]
