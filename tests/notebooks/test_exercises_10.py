"""Notebook 10: what exercises give does not reach the goal, the printed solution does; what is not measured is said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import numpy as np
import pytest
from IPython.display import Markdown

from autograder.spec.lab import find_lab
from course import measured as module
from course.lesson import table
from course.measured import measured
from course import results
from warplab.hardware import Math, Roofline
from warplab.hardware.chips import H200
from warplab.hardware.small_floats import E4M3
from course.figures.experts import Groups, routed

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "10_experts.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
EXERCISES = {"1: rows of padding": "def for_nobody", "2: find the tile": "def find(", "3: more GPUs": "tokens_each ="}


def cell_with(text: str) -> str:
    return next(cell for cell in CELLS if text in cell)


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
    names: dict[str, Any] = {
        "np": np, "E4M3": E4M3, "Groups": Groups, "routed": routed, "table": table, "H200": H200,
        "roof": Roofline(H200.peak(Math.FP8_TENSOR) or 0.0, H200.bandwidth), "display": lambda *shown: None,
        "Markdown": Markdown, "measured": measured,
    }  # fmt: skip
    exec("from dataclasses import dataclass", names)
    exec(cell_with("class Model"), names)
    return names


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
    asks = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", part_of("3: more GPUs"), re.S)[1]
    right = []
    for tokens in range(90, 120):
        said: list[bool] = []
        names = {**prepared, "tokens_each": tokens, "goal": lambda yes, _, said=said: said.append(bool(yes))}
        exec(asks, names)
        right += [tokens] * said[0]
    assert [f"tokens_each = {tokens}" for tokens in right] == [solution_of("3: more GPUs")]


def test_the_walk_of_the_picture_makes_every_tile_once(prepared: dict[str, Any]) -> None:
    names = dict(prepared)
    exec(cell_with("def tiles_of").split("\ncounts, blocks")[0], names)
    for counts, columns, blocks in (((130, 0, 300, 5), 3, 4), ((0, 0), 2, 3), ((1, 129), 5, 1)):
        made = sorted(tile for block in range(blocks) for tile in names["tiles_of"](block, blocks, counts, columns))
        tall = [-(-count // 128) for count in counts]
        assert made == [(e, r, c) for e, rows in enumerate(tall) for r in range(rows) for c in range(columns)]


def test_codes_of_rows_are_those_of_lab_09(prepared: dict[str, Any]) -> None:
    task = find_lab("09_fp8_gemm").task
    names = dict(prepared)
    exec(cell_with("def quantised_rows").split("\nslots, width")[0], names)
    x = np.random.default_rng(3).standard_normal((7, 272)).astype(np.float16)
    x[2, 128:256] = 0
    codes, scale = names["quantised_rows"](x)
    expected = task.expected(np, {"x": x, "w8": np.zeros((8, 272), np.uint8), "w_scale": np.ones((1, 3), np.float32)})
    np.testing.assert_array_equal(codes, expected["x8"])
    np.testing.assert_array_equal(scale, expected["x_scale"])


@pytest.mark.processes
def test_what_is_not_measured_is_said(
    prepared: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a record a sentence; with one of a single shape, its row."""
    cell = cell_with("def products_measured").rsplit('\nproducts_measured("experts")', 1)[0]
    monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    names = dict(prepared)
    exec(cell, names)
    assert "not measured yet" in names["products_measured"]("experts").data
    record = results.Record(
        names["BEST"], "weights read", 4e12, "B/s", variant="masked, beside grouped fast", shape=(32, 4096, 7168),
        baseline="torch", baseline_value=2e12, ratio=2.0,
    )  # fmt: skip
    results.write(tmp_path / "experts.json", results.make_header("nothing"), [record])
    shown = names["products_measured"]("experts").data
    assert "4.00 TB/s" in shown and "2.00" in shown and "contiguous" not in shown
