"""The exercises of notebook 08: what is given does not reach the goal, the solution that is printed does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import numpy as np
import pytest

from course.chapters import c08_hopper, c08b_ladder
from course.figures.pipeline import Pipeline
from course.kernel_cell import KernelCell, kernel_cell
from course.trial import attempt

pytestmark = pytest.mark.stored

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "source"
SOURCES = [FOLDER / "08_hopper.md", FOLDER / "08b_ladder.md"]
CELLS = [cell.source for path in SOURCES for cell in jupytext.read(path).cells if cell.cell_type == "code"]
TEXT = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
NAMES = ("arrivals_at_empty", "stages", "rows_of_a_group", "leading, stride")
GROUPS = """
        first = number // (8 * across) * 8
        within, height = number % (8 * across), min(down - first, 8)
        out[number, 0], out[number, 1] = first + within % height, within // height
"""


def cell_with(text: str) -> str:
    """The first code cell with that text, without magics."""
    cell = next(cell for cell in CELLS if text in cell)
    return "\n".join(line for line in cell.splitlines() if not line.startswith("%"))


def kernel_of(name: str, folder: Path) -> KernelCell:
    """A `%%kernel` cell of the notebooks."""
    cell = next(cell for cell in CELLS if cell.startswith(f"%%kernel {name}\n"))
    return kernel_cell(name, cell.partition("\n")[2], folder)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the exercises use of the notebooks."""
    folder = tmp_path_factory.mktemp("cells")
    names: dict[str, Any] = {"display": lambda *shown: None, "np": np, "rng": np.random.default_rng(8)}
    names |= {"c08": c08_hopper, "c08b": c08b_ladder, "attempt": attempt, "Pipeline": Pipeline}
    names |= {name: kernel_of(name, folder) for name in ("ring", "tile_product", "my_order")}
    exec(cell_with("ring_case = ").split("\nattempt(")[0], names)
    exec(cell_with("both_case = ").split("\nattempt(")[0], names)
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


def test_an_order_in_groups_reaches_the_goal_and_one_by_rows_does_not(prepared: dict[str, Any]) -> None:
    by_rows = prepared["my_order"]
    text = by_rows.path.read_text(encoding="utf-8")
    line = next(row for row in text.splitlines(keepends=True) if "# change this" in row)
    folder = by_rows.path.parent

    def needed(rows: str) -> tuple[float | None, float]:
        return c08b_ladder.check_order(kernel_cell("my_order", text.replace(line, rows), folder), 8192)

    mine, groups = needed(line)
    assert mine is not None and mine > groups
    assert needed(GROUPS.lstrip("\n")) == (groups, groups)
    assert needed(line.replace("% across", "% down"))[0] is None  # some tiles twice
