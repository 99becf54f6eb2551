"""Safety: the part of the grade made from findings, and from what came of carrying a right submission out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autograder.judge.ruling import Ruling
from autograder.records.report import PartResult
from autograder.records.status import Part, Status
from autograder.spec.lab import AnyLab
from warplab.plan.execution import Finding


def safety_part(
    lab: AnyLab, findings: Sequence[Finding], fault: Ruling | None, right: bool, carried_out: Callable[[], Ruling]
) -> PartResult:
    """The part of the grade: full points to a right submission without a fault that is `carried_out` as it should.

    `fault` is the worst of the findings, or says what kept the submission from being looked at to its end.
    """
    points, feedback = lab.points.safety, lab.feedback.get(Part.SAFETY, "")
    if fault:
        found = tuple(findings)
        return PartResult(Part.SAFETY, fault.status, 0.0, points, fault.message, feedback, findings=found)
    if not right:
        words = f"Nothing found, but points are given only to {lab.task.what_earns}."
        return PartResult(Part.SAFETY, Status.WITHHELD, 0.0, points, words, feedback)
    ended = carried_out()
    earned = points if ended.status is Status.PASSED else 0.0
    # Findings that are no faults are advisories.
    return PartResult(Part.SAFETY, ended.status, earned, points, ended.message, feedback, findings=tuple(findings))
