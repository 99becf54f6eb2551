"""Reports made by hand, as a class's record holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autograder.classroom.grade_line import GradeLine
from autograder.records.report import PartResult
from autograder.records.status import Executor, Part, Status
from tests.autograder.report.example_reports import measured, report

WRONG: Mapping[str, Any] = report().to_json()  # hostile texts, no points
ON_GPU: Mapping[str, Any] = measured(1e9).to_json()  # half of the efficiency
BROKEN: Mapping[str, Any] = report(
    status=Status.JUDGE_ERROR,
    message="The judge failed: x",
    parts=tuple(PartResult(part, Status.JUDGE_ERROR, 0.0, 25.0, "Not judged.") for part in Part),
).to_json()


def line(
    student: str, lab: str = "03_transpose", found: Mapping[str, Any] = ON_GPU, content: bytes = b"# x"
) -> GradeLine:
    """A graded submission as `Ledger.lines` gives it."""
    return GradeLine(
        student, lab, "submission.py", "", found["status"], found["score"], found["max_score"], found["full_score"],
        found["efficiency"], str(Executor.GPU), 1.5, "2026-11-23T20:00:00+0000", dict(found), content,
    )  # fmt: skip


def problem(student: str, lab: str = "03_transpose") -> GradeLine:
    """A submission that cannot be graded."""
    return GradeLine(student, lab, "x.py", "x.py is empty.", "", 0, 0, 0, None, "", 0, "", {})
