"""The kernels of notebook 09b: exercises are solved by the printed solution alone, and both forms are attention."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from course.chapters import c09b_attention as chapter
from course.experiment import emulate
from course.kernel_cell import KernelCell, kernel_cell
from course.trial import attempt

pytestmark = pytest.mark.stored

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "09b_attention.md"
TEXT = SOURCE.read_text(encoding="utf-8")
CELLS = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", TEXT, re.S)
KERNELS = {head.split()[1]: cell for head, cell in (one.split("\n", 1) for one in CELLS if one.startswith("%%kernel"))}
EXERCISES = ("joined", "paged")


def cell(name: str, folder: Path) -> KernelCell:
    return kernel_cell(name, KERNELS[name], folder)


def solved(name: str) -> str:
    """The given cell with its kernel replaced by the one of the folded solution."""
    found = re.search(r"<details>.*?```python\n(.*?)```", TEXT[TEXT.index(f"%%kernel {name}\n") :], re.S)
    assert found
    return re.sub(r"^@cuda\.jit\n.*?(?=\n\n\n)", lambda _: found.group(1).rstrip(), KERNELS[name], flags=re.S | re.M)


def reached(name: str, text: str, folder: Path) -> bool:
    (goal,) = [one for one in CELLS if f"attempt({name}," in one]
    said: list[bool] = []
    names: dict[str, Any] = {"np": np, "attempt": attempt, "chapter": chapter, "goal": lambda yes, _: said.append(yes)}
    exec(goal, names | {name: kernel_cell(name, text, folder)})
    return bool(said[0])


@pytest.mark.parametrize("name", EXERCISES)
def test_only_the_solution_reaches_the_goal(name: str, tmp_path: Path) -> None:
    assert solved(name) != KERNELS[name]
    assert not reached(name, KERNELS[name], tmp_path)
    assert reached(name, solved(name), tmp_path)


def test_the_online_form_writes_the_result_alone(tmp_path: Path) -> None:
    case = chapter.head(n=128, d=32)
    obvious, fused = (emulate(cell("fused", tmp_path), [case], name)[0] for name in ("obvious", "fused"))
    chapter.agree(case, obvious, fused)
    assert fused.total.global_store_sectors == case["out"].nbytes / 32
    assert obvious.total.global_store_sectors == (case["out"].nbytes + 2 * 4 * 128**2) / 32
