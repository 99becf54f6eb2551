"""Efficiency: the part of the grade made from shares of what is possible, measured on a GPU or modelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autograder.judge.ruling import Ruling
from autograder.records.report import CaseResult, PartResult
from autograder.records.status import Part, Status
from autograder.spec.lab import AnyLab
from autograder.spec.score import efficiency_points


@dataclass(frozen=True)
class Shares:
    """What was reached, as fractions of the roofline or of a bound, with equal shares of the points; and in words."""

    reached: tuple[float, ...]
    message: str
    cases: tuple[CaseResult, ...] = ()


def efficiency_part(lab: AnyLab, found: Shares | Ruling, points: float | None = None) -> PartResult:
    """The part of the grade, of `points` or of all that the lab gives for it. `found` may say why nothing was."""
    most = lab.points.efficiency if points is None else points
    feedback = lab.feedback.get(Part.EFFICIENCY, "")
    if isinstance(found, Ruling):
        return PartResult(Part.EFFICIENCY, found.status, 0.0, most, found.message, feedback)
    earned = earned_by(lab, found.reached, most)
    return PartResult(
        Part.EFFICIENCY, status_of(earned, most), earned, most, found.message, feedback, cases=found.cases
    )


def earned_by(lab: AnyLab, reached: Sequence[float], points: float) -> float:
    """Points for fractions that have equal shares of `points`."""
    return round(sum(efficiency_points(one, lab.efficiency, points / len(reached)) for one in reached), 1)


def is_enough(lab: AnyLab, reached: float, points: float) -> bool:
    """Whether a fraction earns all of its `points`."""
    return efficiency_points(reached, lab.efficiency, points) >= round(points, 1)


def status_of(earned: float, most: float) -> Status:
    """The status of a part that earned so many points of so many."""
    return Status.PASSED if earned >= most else Status.PARTIAL if earned > 0 else Status.SLOW
