"""Notebook 09: what exercises give does not reach the goal, the printed solution does."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import jupytext
import numpy as np
import pytest

from course.chapters import c09_fp8
from course.figures.promotion import Promotion
from course.kernel_cell import kernel_cell
from warplab.hardware.small_floats import E4M3

pytestmark = pytest.mark.stored

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "09_fp8.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
EXERCISES = {
    "1: a quantiser · optional": "def to_e4m3",
    "2: the longest interval": "longest_interval =",
    "3: the tile · optional": "columns =",
    "4: a scale that does not clamp · optional": "def scale_exponent",
}


def cell_with(text: str) -> str:
    return next(cell for cell in CELLS if text in cell)


def part_of(heading: str) -> str:
    return TEXT.split(f"### Exercise {heading}\n")[1].split("\n### ")[0].split("\n## ")[0]


def cells_of(heading: str) -> tuple[str, str]:
    """What an exercise gives, and the cell that says whether it is solved."""
    given, asks = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", part_of(heading), re.S)
    return given, asks


def solution_of(heading: str) -> str:
    """The printed solution: a block of code, or an assignment in the text."""
    part = part_of(heading)
    blocks = re.findall(r"```python\n(.*?)```", part, re.S)
    return blocks[0] if blocks else re.findall(r"`(\w+ = \d+)`", part)[0]


@pytest.fixture(scope="module")
def prepared() -> dict[str, Any]:
    """What the exercises use of the notebook. The codes that the instruction gives are found by the rule here."""
    kernel = cell_with("%%kernel short_sums").split("\n", 1)[1]
    every_bf16 = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):
        codes = E4M3.encode(every_bf16)
    names: dict[str, Any] = {
        "math": math, "np": np, "E4M3": E4M3, "Promotion": Promotion, "c09": c09_fp8, "display": lambda *shown: None,
        "short_sums": kernel_cell("short_sums", kernel), "every_bf16": every_bf16, "outputs": {"e4m3": codes.astype(np.uint8)},
        "data": {"normal": np.random.default_rng(9).standard_normal((256, 2048))},
    }  # fmt: skip
    return names


@pytest.mark.parametrize("heading", EXERCISES)
def test_only_the_solution_reaches_the_goal(heading: str, prepared: dict[str, Any]) -> None:
    given, asks = cells_of(heading)
    solution = solution_of(heading)
    assert EXERCISES[heading] in given and EXERCISES[heading] in solution

    def reached(attempt: str) -> bool:
        said: list[bool] = []
        names = {**prepared, "goal": lambda yes, _: said.append(bool(yes))}
        with np.errstate(invalid="ignore"):
            exec(attempt, names)
            exec(asks, names)
        return said[0]

    assert not reached(given)
    assert reached(solution)


def test_only_one_interval_and_one_tile_are_right(prepared: dict[str, Any]) -> None:
    for heading, name, choices in (
        ("2: the longest interval", "longest_interval", (256, 512, 1024)),
        ("3: the tile · optional", "columns", range(8, 257, 8)),
    ):
        asks, right = cells_of(heading)[1], []
        for choice in choices:
            said: list[bool] = []
            exec(asks, {**prepared, name: choice, "goal": lambda yes, _, said=said: said.append(bool(yes))})
            right += [choice] * said[0]
        assert [f"{name} = {choice}" for choice in right] == [solution_of(heading)]
