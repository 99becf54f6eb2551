"""Notebook 14: what is given does not reach the goals, and the printed solutions do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.course.exercises import Exercises

torch = pytest.importorskip("torch")

EXERCISES = Exercises("14_memory_for_training", {1: "my_kept = ", 2: "def my_values", 3: "my_share = "})


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """What the exercises use of the notebook."""
    threads = torch.get_num_threads()
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(EXERCISES.cell_with("from course.chapters import c14_memory_for_training as c14"), made)
    made |= {"reveal": lambda *said, **how: None, "more_flop": None, "share_kept": None}
    for text in ("torch.set_num_threads(1)", "plain = step(", "measured = operators("):
        exec(EXERCISES.cell_with(text).replace("by_hooks =", "by_hooks = 0 #"), made)
    exec("from systems.training.planner import frontier, greedy, plan", made)
    yield made
    torch.set_num_threads(threads)


@pytest.mark.parametrize("number", EXERCISES.begins)
def test_only_the_solution_reaches_the_goal(number: int, names: dict[str, Any]) -> None:
    assert EXERCISES.only_the_solution_reaches_the_goal(number, names)


@pytest.mark.parametrize(
    ("number", "attempt"),
    [
        (1, 'my_kept = {"qkv", "attention", "up"}'),  # the residual stream needs the projection
        (1, 'my_kept = {"qkv", "attention", "projection", "up", "gelu"}'),
        (2, "def my_values(h, f):\n    return h + 3 * f"),
        (3, "my_share = 0.35"),
        (3, "my_share = 0.33"),
        (3, "my_share = 0"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not EXERCISES.reached(number, attempt, names)
