"""The kernels of notebook 05b: exercises are solved by the printed solution alone, and forms differ as the text says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from course.chapters import c05b_patterns as chapter
from course.experiment import emulate
from tests.course.kernel_exercises import KernelExercises
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.stored

CHAPTER = KernelExercises("05b_patterns", chapter)
EXERCISES = ("exclusive", "in_order")


@pytest.mark.parametrize("name", EXERCISES)
def test_only_the_solution_reaches_the_goal(name: str, tmp_path: Path) -> None:
    assert CHAPTER.solved(name) != CHAPTER.kernels[name]
    assert not CHAPTER.reached(name, CHAPTER.kernels[name], tmp_path)
    assert CHAPTER.reached(name, CHAPTER.solved(name), tmp_path)


def test_subtracting_is_not_a_solution(tmp_path: Path) -> None:
    assert not CHAPTER.reached("exclusive", CHAPTER.kernels["exclusive"].replace("out[i] = s\n", "out[i] = s - x[i]\n"), tmp_path)


def test_relaxed_flags_are_a_race_and_released_ones_are_not(tmp_path: Path) -> None:
    case = {"x": chapter.whole_numbers(64 * 128, np.int32), "out": np.zeros(64 * 128, np.int32)}
    good, bad = (emulate(CHAPTER.cell("lookback", tmp_path), [case], name, seed=3)[0] for name in ("lookback", "relaxed"))
    chapter.agree(np.cumsum(case["x"]), good, bad)
    assert good.findings == ()
    assert {finding.kind for finding in bad.findings} == {FindingKind.RACE}


def test_atomics_lose_the_order(tmp_path: Path) -> None:
    x = chapter.signed(4096)
    case = {"x": x, "out": np.zeros(int((x > 0).sum()), np.float32)}
    assert chapter.order_of(x, emulate(CHAPTER.cell("keep", tmp_path), [case])[0]) == chapter.KEPT
    for seed in range(1, 4):
        assert chapter.order_of(x, emulate(CHAPTER.cell("keep", tmp_path), [case], seed=seed)[0]) == chapter.OTHER


def test_the_merge_takes_the_same_for_all_rows(tmp_path: Path) -> None:
    found = chapter.products(chapter.matrices(), lambda _, cases: emulate(CHAPTER.cell("merge", tmp_path), cases), ("merge",))
    for one in found["merge"].values():
        assert one.findings == ()
