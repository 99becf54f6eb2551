"""Chapter 00: the stride that is as bad as it gets, counted by hand, and a table that adds up."""

from __future__ import annotations

import re

from course.chapters import c00_start_here as c00
from course.lesson import Lesson


def test_the_worst_stride_by_counting_sectors() -> None:
    counts = [len({4 * stride * lane // 32 for lane in range(32)}) for stride in range(1, 33)]
    assert counts[c00.worst_stride() - 1] == 32 and max(counts[: c00.worst_stride() - 1]) < 32


def test_the_parts_of_a_grade_add_up() -> None:
    rows = c00.table_of_points(Lesson("01_axpy")).data.splitlines()[2:]
    assert sum(int(re.findall(r"\| *(\d+)", row)[0]) for row in rows) == 100
