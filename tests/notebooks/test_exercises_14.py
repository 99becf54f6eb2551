"""Notebook 14: what is given does not reach the goals, and the printed solutions do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
import pytest

torch = pytest.importorskip("torch")

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "14_memory_for_training.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
GIVEN = {1: "my_kept = ", 2: "def my_values", 3: "my_share = "}  # by exercise


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
def names() -> Iterator[dict[str, Any]]:
    """What the exercises use of the notebook."""
    threads = torch.get_num_threads()
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(cell_with("from course.chapters import c14_memory_for_training as c14"), made)
    made |= {"reveal": lambda *said, **how: None, "more_flop": None, "share_kept": None}
    for text in ("torch.set_num_threads(1)", "plain = step(", "measured = operators("):
        exec(cell_with(text).replace("by_hooks =", "by_hooks = 0 #"), made)
    exec("from systems.training.planner import frontier, greedy, plan", made)
    yield made
    torch.set_num_threads(threads)


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
        (1, 'my_kept = {"qkv", "attention", "up"}'),  # the residual stream needs the projection
        (1, 'my_kept = {"qkv", "attention", "projection", "up", "gelu"}'),
        (2, "def my_values(h, f):\n    return h + 3 * f"),
        (3, "my_share = 0.35"),
        (3, "my_share = 0.33"),
        (3, "my_share = 0"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not reached(number, attempt, names)
