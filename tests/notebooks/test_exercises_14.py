"""Notebook 14: what is given does not reach the goals, the printed solutions do; its figures say what its text says."""

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
    """What the notebook has made before its exercises, without the budgets of section 5 and what follows from them."""
    threads = torch.get_num_threads()
    made: dict[str, Any] = {"display": lambda *shown: None}
    for text in ("MB, GB =", "one_layer =", "per_layer =", "plain = step(", "full = step(", "measured = operators(",
                 "products = step(", "no_flop_again =", "forward = sum("):  # fmt: skip
        cell = cell_with(text)
        made |= {"bytes_a_unit": None, "too_large": None, "more_flop": None, "share_kept": None, "times_the_best": None}
        exec(cell, made)
    made |= {"table": lambda heads, rows: rows, "reveal": lambda *said, **how: None}
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


def test_the_figures_of_checkpoints_are_those_of_the_text(names: dict[str, Any]) -> None:
    plain, full, products = names["plain"], names["full"], names["products"]
    assert 0.20 < full.flops / plain.flops - 1 < 0.25  # less than the textbook's third
    assert products.flops == plain.flops and 0.6 < products.kept / plain.kept < 0.7  # a third for no FLOP
    assert names["rule"].flops == 2 * names["chosen"].flops
    assert full.peak > 2 * full.kept  # the peak is what is kept and one block


def test_a_large_vocabulary_costs_as_much_as_layers_do(names: dict[str, Any]) -> None:
    parts = names["model_bytes"](names["replace"](names["large"], layers=12, vocabulary=128_256))
    assert parts["loss"] > max(size for name, size in parts.items() if name != "loss")


def test_scales_matter_late_and_then_much(names: dict[str, Any]) -> None:
    mine = {**names, "times_larger": None}
    exec(cell_with("def error_of_the_rest"), mine)
    error = mine["error_of_the_rest"]
    assert error(1000, None) < 0.03 < 0.3 < error(100_000, None) and error(100_000, 128) < 0.06


def test_what_a_product_keeps_touches_its_own_weight_alone(names: dict[str, Any]) -> None:
    mine = {**names, "off_by": None, "row": names["sizes"].tokens * names["sizes"].width}
    exec(cell_with("touched ="), mine)
    found = {row[0]: int(row[2].split()[0]) for row in mine["rows"]}
    layers = names["sizes"].layers
    assert all(found[name] == layers for name in ("qkv", "up", "down"))
    assert all(found[name] > 2 * layers for name in ("norm_1", "attention", "norm_2", "gelu"))
