"""The kernels of notebook 05b: exercises are solved by the printed solution alone, and forms differ as the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from course.chapters import c05b_patterns as chapter
from course.experiment import emulate
from course.kernel_cell import KernelCell, kernel_cell
from course.trial import attempt
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.stored

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "05b_patterns.md"
TEXT = SOURCE.read_text(encoding="utf-8")
CELLS = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", TEXT, re.S)
KERNELS = {head.split()[1]: cell for head, cell in (one.split("\n", 1) for one in CELLS if one.startswith("%%kernel"))}
EXERCISES = ("exclusive", "in_order")


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


def test_subtracting_is_not_a_solution(tmp_path: Path) -> None:
    assert not reached("exclusive", KERNELS["exclusive"].replace("out[i] = s\n", "out[i] = s - x[i]\n"), tmp_path)


def test_relaxed_flags_are_a_race_and_released_ones_are_not(tmp_path: Path) -> None:
    case = {"x": chapter.whole_numbers(64 * 128, np.int32), "out": np.zeros(64 * 128, np.int32)}
    good, bad = (emulate(cell("lookback", tmp_path), [case], name, seed=3)[0] for name in ("lookback", "relaxed"))
    chapter.agree(np.cumsum(case["x"]), good, bad)
    assert good.findings == ()
    assert {finding.kind for finding in bad.findings} == {FindingKind.RACE}


def test_atomics_lose_the_order(tmp_path: Path) -> None:
    x = chapter.signed(4096)
    case = {"x": x, "out": np.zeros(int((x > 0).sum()), np.float32)}
    assert chapter.order_of(x, emulate(cell("keep", tmp_path), [case])[0]) == chapter.KEPT
    for seed in range(1, 4):
        assert chapter.order_of(x, emulate(cell("keep", tmp_path), [case], seed=seed)[0]) == chapter.OTHER


def test_the_merge_takes_the_same_for_all_rows(tmp_path: Path) -> None:
    found = chapter.products(chapter.matrices(), lambda _, cases: emulate(cell("merge", tmp_path), cases), ("merge",))
    for one in found["merge"].values():
        assert one.findings == ()
