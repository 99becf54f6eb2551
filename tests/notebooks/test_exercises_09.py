"""Notebook 09: what exercises give does not reach the goal, the printed solution does; what is not measured is said."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import jupytext
import numpy as np
import pytest
from IPython.display import Markdown

from course.kernel_cell import kernel_cell
from course.lesson import table
from course import results
from warplab.hardware.small_floats import E2M1, E4M3
from course.figures.promotion import Promotion

pytestmark = pytest.mark.stored

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "09_fp8.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
EXERCISES = {
    "1: a quantiser": "def to_e4m3",
    "2: the longest interval": "longest_interval =",
    "3: the tile": "columns =",
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
        "math": math, "np": np, "E4M3": E4M3, "E2M1": E2M1, "Promotion": Promotion, "display": lambda *shown: None,
        "short_sums": kernel_cell("short_sums", kernel), "every_bf16": every_bf16, "by_hardware": {"e4m3": codes},
        "a_cycle": 4096, "data": {"normal": np.random.default_rng(9).standard_normal((256, 2048))},
    }  # fmt: skip
    exec(cell_with("WHOLE = 10**9"), names)
    exec(cell_with("def sums(a, bt").split("\none = ")[0], names)
    exec(cell_with("def from_l2(").split("\nrows = ")[0], names)
    exec(cell_with("def mx(").split("\nFORMATS = ")[0], names)
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
        ("3: the tile", "columns", range(8, 257, 8)),
    ):
        asks, right = cells_of(heading)[1], []
        for choice in choices:
            said: list[bool] = []
            exec(asks, {**prepared, name: choice, "goal": lambda yes, _, said=said: said.append(bool(yes))})
            right += [choice] * said[0]
        assert [f"{name} = {choice}" for choice in right] == [solution_of(heading)]


def test_rules_of_blocks_against_a_loop(prepared: dict[str, Any]) -> None:
    """Scales of each kind, element by element in plain Python."""
    x = np.random.default_rng(0).standard_t(2, (4, 64))
    for form, largest_exponent in ((E4M3, 8), (E2M1, 2)):
        expected = np.empty_like(x)
        for row in range(4):
            for first in range(0, 64, 32):
                block = x[row, first : first + 32]
                scale = 2.0 ** (math.floor(math.log2(max(abs(v) for v in block))) - largest_exponent)
                expected[row, first : first + 32] = [float(form.rounded(v / scale)) * scale for v in block]
        np.testing.assert_array_equal(prepared["mx"](x, form), expected)
    tensor = max(abs(v) for v in x.ravel()) / (6 * 448)
    expected = np.empty_like(x)
    for row in range(4):
        for first in range(0, 64, 16):
            block = x[row, first : first + 16]
            scale = float(E4M3.rounded(max(abs(v) for v in block) / 6 / tensor)) * tensor
            expected[row, first : first + 16] = [float(E2M1.rounded(v / scale)) * scale for v in block]
    np.testing.assert_allclose(prepared["nvfp4"](x), expected, rtol=1e-12)
    two = prepared["largest_of"](np.arange(16.0).reshape(4, 4), (2, 2))
    assert two.tolist() == [[5, 5, 7, 7], [5, 5, 7, 7], [13, 13, 15, 15], [13, 13, 15, 15]]


def test_products_are_quoted_only_if_they_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    names: dict[str, Any] = {"Markdown": Markdown, "table": table, "display": lambda *shown: None}
    cell = cell_with("def products_measured(").rsplit("\nproducts_measured(ON_H200)", 1)[0]
    promotion = cell_with("def promotion_measured(").rsplit("\npromotion_measured(ON_H200)", 1)[0]
    exec(cell + promotion, names)
    for said in (names["products_measured"](names["ON_H100"]), names["promotion_measured"](names["ON_H100"])):
        assert "ot measured yet" in said.data
    header = results.Header("NVIDIA H200", "1", {}, "abc", "make bench", "2026-01-02T00:00:00+00:00")
    shape = (4096, 7168, 2048)
    products = [
        results.Record(
            f"09_fp8_gemm/{name}", "rate", 1.2e15, "FLOP/s", variant=f"beside {library}", shape=shape,
            baseline="torch", baseline_value=1.2e15 / ratio, ratio=ratio,
        )
        for name, factor in (("rung_5_any_shape", 1), ("submission", 3))
        for library, ratio in (("tensor-wise", 0.9 * factor), ("tensor-wise fast", 0.8 * factor), ("bfloat16", 1.5 * factor))
    ]  # fmt: skip
    times = [
        results.Record("09_fp8_gemm/rung_5_any_shape", "time", value, "ms", variant=f"choice {choice}", shape=shape)
        for choice, value in (
            ("128x192-one", 0.12), ("128x192-by2-one", 0.11), ("128x192-none", 0.1),
            ("128x256-half", 0.108), ("128x256-by2-none", 0.09),
        )
    ]  # fmt: skip
    results.write(tmp_path / "fp8.json", header, [*products, *times])
    exec(cell + promotion, names)
    assert "ot measured yet" in names["products_measured"](names["ON_H100"]).data
    said = names["products_measured"](names["ON_H200"]).data
    assert "| 4,096 x 7,168 x 2,048 | 1,200 | 0.90 | 0.80 |  | 1.50 |" in said
    assert "2.7" not in said  # the reference's
    work = 2e-9 * 4096 * 7168 * 2048
    cells = (work / 0.11, work / 0.1, work / 0.108, work / 0.09)
    assert "| {:,.0f} | {:,.0f} | 10% | {:,.0f} | {:,.0f} | 20% |".format(*cells) in names["promotion_measured"](names["ON_H200"]).data

