"""Notebook 12: what is given does not reach the goals, and the printed solutions do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "12_collectives.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
GIVEN = {1: "curve_alpha_us = ", 2: "from systems.network.schedules", 3: "nodes_for_trees = "}  # by exercise


def cell_with(text: str) -> str:
    """The first code cell with that text, without magics."""
    cell = next(cell for cell in CELLS if text in cell)
    return "\n".join(line for line in cell.splitlines() if not line.startswith("%"))


def solution_of(number: int) -> str:
    """The fenced Python of a printed solution, or the assignment in backticks."""
    after = TEXT[TEXT.index(f"### Exercise {number}:") :]
    folded = after[after.index("<details>") : after.index("</details>")]
    if found := re.search(r"```python\n(.*?)```", folded, re.S):
        return found.group(1)
    (assignment,) = re.findall(r"`(\w+ = [\w*]+)`", folded)
    return assignment


@pytest.fixture
def names() -> dict[str, Any]:
    """What the exercises use of the notebook, nothing drawn or shown."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(cell_with("c12_collectives as c12"), made)
    return made


def reached(number: int, assignment: str, names: dict[str, Any]) -> bool:
    """What the cell says that comes after the given one of an exercise, with `assignment` in its place."""
    given = next(cell for cell in CELLS if cell.startswith(GIVEN[number]))
    said: list[bool] = []
    mine = {**names, "goal": lambda yes, _: said.append(bool(yes))}
    exec(given, mine)
    exec(assignment, mine)
    exec(CELLS[CELLS.index(given) + 1], mine)
    return said[0]


@pytest.mark.parametrize("number", GIVEN)
def test_only_the_solution_reaches_the_goal(number: int, names: dict[str, Any]) -> None:
    given = next(cell for cell in CELLS if cell.startswith(GIVEN[number]))
    assert not reached(number, given, names)
    assert reached(number, solution_of(number), names)


@pytest.mark.parametrize(
    ("number", "attempt"),
    [
        (1, "curve_alpha_us = 21\ncurve_bus_gb = 341.1"),
        (1, "curve_alpha_us = 20.66\ncurve_bus_gb = 321.7"),  # size over time at 64 MiB, as if there were no latency
        (2, solution_of(2).replace("32", "4")),  # too few pieces
        (2, solution_of(2).replace("rank + chunk, rank,", "chunk, rank,")),  # sent before it is there
        (2, "broadcast_chunks = 1\nbroadcast = [Transfer(0, 0, 9, 0)]"),  # no such rank
        (3, "nodes_for_trees = 32"),
        (3, "nodes_for_trees = 128"),
        (3, "nodes_for_trees = 60"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not reached(number, attempt, names)
