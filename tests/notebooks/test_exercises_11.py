"""Notebook 11: what is given does not reach the goals, and the printed solutions do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

from course.chapters.c11_the_network import schedule_of
from systems.network.schedules import Flaw, check

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "11_the_network.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
GIVEN = {1: "gather_size = ", 2: "rings_of_mesh = ", 3: "chunks_of_mine = ", 4: "bucket_mb = "}  # by exercise


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


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the exercises use of the notebook."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(cell_with("c11_the_network as c11"), made)
    exec("from systems.network.costs import Algorithm", made)
    exec(cell_with("REDUCE = Op.REDUCE"), made)
    exec(cell_with('tries["wait for each other"]'), made)
    return made


def reached(number: int, assignment: str, names: dict[str, Any]) -> bool:
    """What the cell says that comes after the given one of an exercise, with `assignment` in its place."""
    given = next(cell for cell in CELLS if cell.startswith(GIVEN[number]))
    said: list[bool] = []
    mine = {**names, "goal": lambda yes, _: said.append(bool(yes))}
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
        (1, "gather_size = 2**26"),  # near, but not the smallest
        (1, "gather_size = 2**25 - 1"),
        (2, "rings_of_mesh = [[0, 1, 2, 3, 4, 5, 6, 6]]"),  # does not visit all
        (2, "rings_of_mesh = [[0, 3, 2, 1, 5, 6, 7, 4], [4, 7, 6, 5, 1, 2, 3, 0]]"),  # a third of what there is
        (3, solution_of(3).replace("(a ^ 1) % 2, REDUCE", "a % 2, REDUCE")),  # the neighbour's share stays away
        (3, "chunks_of_mine = 1\nmine = [Transfer(0, 0, 9, 0)]"),  # no such rank
        (4, "bucket_mb = 78"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not reached(number, attempt, names)


def test_the_checker_names_what_the_text_is_about(names: dict[str, Any]) -> None:
    found = [check(schedule_of(name, moves)) for name, moves in names["tries"].items()]
    kinds = [finding and finding.kind for finding in found]
    assert kinds == [None, Flaw.MISSING, Flaw.MISSING, Flaw.ADDED_TWICE, Flaw.DEADLOCK]
