"""The kernels of notebook 09b: exercises are solved by the printed solution alone, and both forms are attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from course.chapters import c09b_attention as chapter
from course.experiment import emulate
from tests.course.kernel_exercises import KernelExercises

pytestmark = pytest.mark.stored

CHAPTER = KernelExercises("09b_attention", chapter)
EXERCISES = ("joined", "paged")


@pytest.mark.parametrize("name", EXERCISES)
def test_only_the_solution_reaches_the_goal(name: str, tmp_path: Path) -> None:
    assert CHAPTER.solved(name) != CHAPTER.kernels[name]
    assert not CHAPTER.reached(name, CHAPTER.kernels[name], tmp_path)
    assert CHAPTER.reached(name, CHAPTER.solved(name), tmp_path)


def test_the_online_form_writes_the_result_alone(tmp_path: Path) -> None:
    case = chapter.head(n=128, d=32)
    obvious, fused = (emulate(CHAPTER.cell("fused", tmp_path), [case], name)[0] for name in ("obvious", "fused"))
    chapter.agree(case, obvious, fused)
    assert fused.total.global_store_sectors == case["out"].nbytes / 32
    assert obvious.total.global_store_sectors == (case["out"].nbytes + 2 * 4 * 128**2) / 32
