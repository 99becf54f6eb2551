"""The exercises of notebook 08: what is given does not reach the goal, the solution that is printed does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "08_hopper.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
NAMES = ("arrivals_at_empty", "stages", "rows_of_a_group", "leading, stride")


def cell_with(text: str) -> str:
    """The first code cell with that text, without magics."""
    cell = next(cell for cell in CELLS if text in cell)
    return "\n".join(line for line in cell.splitlines() if not line.startswith("%"))


@pytest.fixture(scope="module")
def prepared() -> dict[str, Any]:
    """What the exercises use of the notebook."""
    names: dict[str, Any] = {"display": lambda *shown: None}
    for text in ("lesson = Lesson(", "def variant("):
        exec(cell_with(text), names)
    exec("from warplab.show.pipeline import Pipeline\nfrom warplab.show.tile_order import Product", names)
    exec(cell_with("def twice_round(").split("\nprint(")[0], names)
    return names


@pytest.mark.parametrize("name", NAMES)
def test_only_the_solution_reaches_the_goal(name: str, prepared: dict[str, Any]) -> None:
    given = next(cell for cell in CELLS if cell.startswith(f"{name} = "))
    goal = CELLS[CELLS.index(given) + 1]
    (solution,) = re.findall(rf"`({name} = [\d, ]+)`", TEXT)

    def reached(assignment: str) -> bool:
        said: list[bool] = []
        names = {**prepared, "goal": lambda yes, _: said.append(bool(yes))}
        exec(assignment, names)
        exec(goal, names)
        return said[0]

    assert not reached(given)
    assert reached(solution)
