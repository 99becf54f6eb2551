"""Notebooks 10 and 10b: what exercises give does not reach the goal, the printed solution does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

from course.chapters import c10_experts
from course.figures.experts import Groups, routed

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "10_experts.md"
TEXT = SOURCE.read_text(encoding="utf-8")
EXERCISES = {
    "1: rows of padding": "def rows_of_padding",
    "2: find the tile": "def find(",
    "3: more GPUs · optional": "tokens_each =",
}
OF_LAYER = [cell.source for cell in jupytext.read(SOURCE.with_name("10b_layer.md")).cells if cell.cell_type == "code"]


def part_of(heading: str) -> str:
    return TEXT.split(f"### Exercise {heading}\n")[1].split("\n### ")[0].split("\n## ")[0]


def solution_of(heading: str) -> str:
    """The printed solution: a block of code, or an assignment in the text."""
    part = part_of(heading)
    blocks = re.findall(r"```python\n(.*?)```", part, re.S)
    return blocks[0] if blocks else re.findall(r"`(\w+ = \d+)`", part)[0]


@pytest.fixture(scope="module")
def prepared() -> dict[str, Any]:
    """What the exercises use of the notebook."""
    return {"Groups": Groups, "routed": routed, "c10": c10_experts, "display": lambda *shown: None}


@pytest.mark.parametrize("heading", EXERCISES)
def test_only_the_solution_reaches_the_goal(heading: str, prepared: dict[str, Any]) -> None:
    given, asks = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", part_of(heading), re.S)
    solution = solution_of(heading)
    assert EXERCISES[heading] in given and EXERCISES[heading] in solution

    def reached(attempt: str) -> bool:
        said: list[bool] = []
        names = {**prepared, "goal": lambda yes, _: said.append(bool(yes))}
        exec(attempt, names)
        exec(asks, names)
        return said[0]

    assert not reached(given)
    assert reached(solution)


def test_one_number_of_tokens_is_right(prepared: dict[str, Any]) -> None:
    asks = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", part_of("3: more GPUs · optional"), re.S)[1]
    right = []
    for tokens in range(90, 120):
        said: list[bool] = []
        names = {**prepared, "tokens_each": tokens, "goal": lambda yes, _, said=said: said.append(bool(yes))}
        exec(asks, names)
        right += [tokens] * said[0]
    assert [f"tokens_each = {tokens}" for tokens in right] == [solution_of("3: more GPUs · optional")]


def test_zeros_of_the_last_step() -> None:
    given, asks = (next(cell for cell in OF_LAYER if text in cell) for text in ("def zeros(", "def by_steps("))
    (solution,) = re.findall(r"```python\n(def zeros.*?)```", SOURCE.with_name("10b_layer.md").read_text(), re.S)
    reached = []
    for text in (given, solution):
        names: dict[str, Any] = {"goal": lambda yes, _: reached.append(bool(yes))}
        exec(text, names)
        exec(asks, names)
    assert reached == [False, True]
