"""The exercises of a chapter: the cell that each gives, the cell after it, which judges, and the printed solution."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jupytext

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "source"


class Exercises:
    """Those of notebooks/source/`chapter`.md; `begins` has what the given cell of each begins with, by its number."""

    def __init__(self, chapter: str, begins: Mapping[int, str]) -> None:
        source = SOURCES / f"{chapter}.md"
        self.begins = begins
        self.text = source.read_text(encoding="utf-8")
        self.cells = [cell.source for cell in jupytext.read(source).cells if cell.cell_type == "code"]

    def cell_with(self, text: str) -> str:
        """The first code cell with that text, without magics."""
        cell = next(cell for cell in self.cells if text in cell)
        return "\n".join(line for line in cell.splitlines() if not line.startswith("%"))

    def given(self, number: int) -> str:
        """The cell that an exercise begins with."""
        return next(cell for cell in self.cells if cell.startswith(self.begins[number]))

    def solution(self, number: int) -> str:
        """The fenced Python of a printed solution, or the assignment in backticks."""
        after = self.text[self.text.index(f"### Exercise {number}:") :]
        folded = after[after.index("<details>") : after.index("</details>")]
        if found := re.search(r"```python\n(.*?)```", folded, re.S):
            return found.group(1)
        (assignment,) = re.findall(rf"`({self.begins[number]}[^`]+)`", folded)
        return assignment

    def reached(self, number: int, attempt: str, names: Mapping[str, Any]) -> bool:
        """What the judging cell says of `attempt`, which runs after the given cell, among `names` of the notebook."""
        given = self.given(number)
        said: list[bool] = []
        mine = {**names, "goal": lambda yes, _: said.append(bool(yes))}
        for cell in (given, attempt, self.cells[self.cells.index(given) + 1]):
            exec(cell, mine)
        return said[0]

    def only_the_solution_reaches_the_goal(self, number: int, names: Mapping[str, Any]) -> bool:
        """Whether the given cell falls short, and the printed solution does not."""
        return not self.reached(number, self.given(number), names) and self.reached(
            number, self.solution(number), names
        )
