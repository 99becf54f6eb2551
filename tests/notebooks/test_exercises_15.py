"""Notebook 15: what is given does not reach the goals, the printed solutions do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.course.exercises import Exercises

EXERCISES = Exercises("15_overlap_and_megakernels", {1: "def my_targets", 2: "def my_shares", 3: "my_hand_over = "})


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the exercises need of the notebook before them; nothing is run on the emulator."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(EXERCISES.cell_with("from course.chapters import c15_overlap_and_megakernels as c15"), made)
    exec("from systems.megakernel.schedule import schedule\nfrom systems.megakernel.shapes import TOY", made)
    exec("lists = schedule(shape, SMS, position=511)\nsteps = [schedule(TOY, 4, p) for p in range(3)]", made)
    return made


@pytest.mark.parametrize("number", EXERCISES.begins)
@pytest.mark.slow
def test_the_given_code_does_not_reach_the_goal_and_the_solution_does(number: int, names: dict[str, Any]) -> None:
    assert EXERCISES.only_the_solution_reaches_the_goal(number, names)


def test_shares_that_lose_pages_are_not_taken(names: dict[str, Any]) -> None:
    assert not EXERCISES.reached(2, "def my_shares(pages, loads):\n    return [0] * len(loads)", names)
