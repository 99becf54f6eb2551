"""The kernels of notebook 17: the product is right, and exercise 1 is solved by the printed solution alone."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from course.chapters import c17_blackwell_and_beyond as chapter
from course.trial import attempt
from tests.course.kernel_exercises import KernelExercises

pytestmark = pytest.mark.processes

CHAPTER = KernelExercises("17_blackwell_and_beyond", chapter)


def test_the_product_of_section_1_is_right(tmp_path: Path) -> None:
    case = chapter.lanes_case()
    tried = attempt(CHAPTER.cell("product", tmp_path), case)
    assert tried.clean and chapter.is_product(case, tried.output)
    assert (tried.total.tensor_instructions, tried.total.tensor_multiply_adds) == (4, 128 * 128 * 64)


def test_only_the_solution_reads_the_right_lanes(tmp_path: Path) -> None:
    (printed,) = re.findall(r"```python\n( +wait.*?)```", CHAPTER.text, re.S)
    given = CHAPTER.kernels["lanes"]
    assert given.count("    u32 mine = sums;\n") == 1
    assert not CHAPTER.reached("lanes", given, tmp_path)
    assert CHAPTER.reached("lanes", given.replace("    u32 mine = sums;\n", printed), tmp_path)
    for line in printed.splitlines(keepends=True):  # each alone is not enough
        half = line if "mine" in line else line + "    u32 mine = sums;\n"
        assert not CHAPTER.reached("lanes", given.replace("    u32 mine = sums;\n", half), tmp_path)


def test_a_product_is_compared_exactly() -> None:
    case = chapter.lanes_case()
    right = np.einsum("ik,jk->ij", case["a"].astype(int), case["b"].astype(int))
    assert (
        chapter.is_product(case, right)
        and not chapter.is_product(case, right + 1)
        and not chapter.is_product(case, None)
    )
