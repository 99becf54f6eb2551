"""The exercises of notebook 07: what is given does not reach the goal, the printed solution does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from course.chapters import c07_tensor_cores
from warplab.hardware.fragments import mma

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "07_tensor_cores.md"
TEXT = SOURCE.read_text(encoding="utf-8")
HEADINGS = {
    "1: where does an element go?": "def place",
    "2: a swizzle for short rows": "def swizzle",
    "3: the tile of a warp": "wm, wn =",
}


def cells_of(heading: str) -> tuple[str, str, str]:
    """What an exercise gives, the cell that says whether it is solved, and the solution that is printed."""
    _, after = re.split(rf"### Exercise {re.escape(heading)}(?: · optional)?\n", TEXT)
    part = after.split("\n### ")[0].split("\n## ")[0]
    given, asks = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", part, re.S)
    (solution,) = re.findall(r"```python\n(.*?)```", part, re.S)
    return given, asks, solution


def helpers() -> dict[str, Any]:
    """The names that earlier cells give to the exercises."""
    said: list[bool] = []
    names: dict[str, Any] = {
        "mma": mma,
        "c07": c07_tensor_cores,
        "goal": lambda yes, _: said.append(bool(yes)),
        "said": said,
    }
    return names


@pytest.mark.parametrize("heading", HEADINGS)
def test_only_the_solution_reaches_the_goal(heading: str) -> None:
    given, asks, solution = cells_of(heading)
    assert HEADINGS[heading] in given and HEADINGS[heading] in solution
    for attempt, reached in ((given, False), (solution, True)):
        names = helpers()
        exec(attempt, names)
        exec(asks, names)
        assert names["said"] == [reached]


def test_only_the_tiles_that_the_solution_names_fit() -> None:
    _, asks, solution = cells_of("3: the tile of a warp")
    solved = []
    for wm in range(16, 257, 16):
        for wn in range(16, 257, 16):
            names = helpers() | {"wm": wm, "wn": wn}
            exec(asks, names)
            if names["said"] == [True]:
                solved.append((wm, wn))
    assert solved == [(48, 96), (64, 64), (96, 48)] and solution.strip() == "wm, wn = 64, 64"
    assert "48 × 96 and 96 × 48 just fit as well" in TEXT
