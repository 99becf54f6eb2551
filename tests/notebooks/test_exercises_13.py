"""Notebook 13: what is given does not reach the goals, and the printed solutions do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "13_parallelism.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
GIVEN = {1: "enough = ", 2: "from systems.parallel.timeline", 3: "my_layout = ", 4: "nic_gbs = "}  # by exercise


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
    exec(cell_with("from course.chapters import c13_parallelism as c13"), made)
    exec(cell_with("F, I, W = "), made)
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
    assert not reached(number, attempt, names)
