"""Notebook 16: what is given does not reach the goals, the printed solutions do; what its text says is so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from course.chapters import c16_searching_for_kernels as c16
from tests.course.exercises import Exercises

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = Exercises("16_searching_for_kernels", {1: "def my_inputs", 2: "my_range = ", 3: "def my_proposer"})


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """What the notebook has made before its exercises, without what runs on the emulator."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(EXERCISES.cell_with("import numpy as np"), made)
    made |= {"goal": None, "races": c16.sixty_races()}
    exec("from course.figures.averages import geometric", made)
    exec("from systems.search import product\nfrom systems.search.proposers import ByChance, ByGuess", made)
    yield made


@pytest.mark.parametrize("number", EXERCISES.begins)
def test_what_is_given_does_not_reach_the_goal_and_the_solution_does(number: int, names: dict[str, Any]) -> None:
    assert EXERCISES.only_the_solution_reaches_the_goal(number, names)


def test_each_criterion_names_a_test_that_there_is() -> None:
    """The checklist of section 7, and the criteria that others published."""
    section = EXERCISES.text[EXERCISES.text.index("## 7 ·") : EXERCISES.text.index("## 8 ·")]
    rows = re.findall(r"\| `(tests/[\w/]+\.py)::(\w+)` \|", section)
    assert len(rows) == section.count("| `tests/") == 23
    for path, name in rows:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (path, name)


@pytest.mark.slow
def test_the_table_of_fusion_has_pytorchs_operators_and_their_bytes() -> None:
    """By the operators that PyTorch's dispatcher sees: what each reads and writes of an element."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    moved: list[int] = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            moved.append(sum(one.element_size() for one in (*args, out) if isinstance(one, torch.Tensor)))
            return out

    made: dict[str, Any] = {"reveal": lambda *shown, **how: None, "fused_gain": None}
    exec(EXERCISES.cell_with("eager_bytes = ").replace("table(", "print("), made)
    x, mask = torch.ones(8, 8), torch.ones(8, 8, dtype=torch.uint8)
    (chain,) = re.findall(r"```python\n(\(scale \* x\).*)\n```", EXERCISES.text)
    with Counting():
        exec(chain, {"scale": 0.5, "x": x, "mask": mask})
    assert moved == list(made["eager_bytes"].values())
