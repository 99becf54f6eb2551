"""A Plan shown to a reader: its files, its launch, the instructions that matter."""

from __future__ import annotations

import pytest

from autograder.spec.lab import solutions_folder
from course.lesson import Lesson
from course.opened_plan import contents, heart, plan_of

pytestmark = pytest.mark.stored


def test_a_plan_is_listed_and_its_heart_shown() -> None:
    lesson = Lesson("01_axpy")
    plan = plan_of(lesson, solutions_folder() / "01_axpy" / "rung_1_one_element.py")
    listed = contents(plan)
    assert (
        "plan.json" in listed
        and ".ptx" in listed
        and "block (256, 1, 1)" in listed
        and "out (output, float32" in listed
    )
    lines = heart(plan, lesson.machine.architecture).splitlines()
    kinds = [line.split()[0].rsplit(".", 1)[0] for line in lines]
    assert kinds.count("ld.global") == 2 and kinds.count("st.global") == 1 and "fma.rn" in kinds
