"""Notebook 15: what is given does not reach the goals, the printed solutions do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "15_overlap_and_megakernels.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
GIVEN = {1: "def my_targets", 2: "def my_shares", 3: "my_hand_over = "}  # by exercise


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
    (assignment,) = re.findall(rf"`({GIVEN[number]}[^`]+)`", folded)
    return assignment


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the exercises need of the notebook before them; nothing is run on the emulator."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(cell_with("from course.chapters import c15_overlap_and_megakernels as c15"), made)
    exec("from systems.megakernel.schedule import schedule\nfrom systems.megakernel.shapes import TOY", made)
    exec("lists = schedule(shape, SMS, position=511)\nsteps = [schedule(TOY, 4, p) for p in range(3)]", made)
    return made


def reached(number: int, assignment: str, names: dict[str, Any]) -> bool:
    """What the cell says that comes after the given one of an exercise, with `assignment` in its place."""
    given = next(cell for cell in CELLS if cell.startswith(GIVEN[number]))
    said: list[bool] = []
    mine = {**names, "goal": lambda yes, _: said.append(bool(yes))}
    exec(assignment, mine)
    exec(CELLS[CELLS.index(given) + 1], mine)
    return said[0]


@pytest.mark.parametrize("number", sorted(GIVEN))
@pytest.mark.slow
def test_the_given_code_does_not_reach_the_goal_and_the_solution_does(number: int, names: dict[str, Any]) -> None:
    given = next(cell for cell in CELLS if cell.startswith(GIVEN[number]))
    assert not reached(number, given, names)
    assert reached(number, solution_of(number), names)


def test_shares_that_lose_pages_are_not_taken(names: dict[str, Any]) -> None:
    assert not reached(2, "def my_shares(pages, loads):\n    return [0] * len(loads)", names)
