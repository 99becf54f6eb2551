"""What every platform shows of a grade: the judged parts of a report, each with its points and a text."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.records.report import PartResult, Report
from autograder.records.status import NOT_JUDGED, Status
from autograder.records.text import clean

_MOST_LINES = 8  # cases and findings of a part; a report in HTML has them all


@dataclass(frozen=True)
class JudgedPart:
    """One part of a grade that counts on the machine that gave it: points, and the words for a student."""

    name: str
    score: float
    most: float
    text: str

    @property
    def passed(self) -> bool:
        """Whether it earned all its points."""
        return self.score >= self.most


def is_judged(report: Report) -> bool:
    """Whether a report says something of the submission: not where the judge itself failed."""
    return report.status not in NOT_JUDGED


def judged_parts(report: Report) -> list[JudgedPart]:
    """The parts of a report that count, in its order."""
    parts = [part for part in report.parts if part.judged]
    return [JudgedPart(part.part.value, max(0.0, part.score), part.max_score, _text(part)) for part in parts]


def headline(report: Report) -> str:
    """A few lines about the whole grade: what it is, what to do first, what was not judged."""
    lines = [f"{report.status}: {report.score:g} of {report.max_score:g} points. {report.message}"]
    lines += [f"First: {report.next_step}"] if report.next_step else []
    if report.max_score < report.full_score and is_judged(report):
        lines.append(
            f"The lab gives {report.full_score:g} points; the rest was not judged on this machine ({report.hardware})."
        )
    if report.resemblance:
        lines.append(report.resemblance.words)
    return clean("\n".join(lines))


def _text(part: PartResult) -> str:
    lines = [part.message]
    failed = [case for case in part.cases if case.status not in (Status.PASSED, Status.SKIPPED)]
    shown = [f"{case.name}: {case.message} {case.cause}".strip() for case in failed]
    shown += [f"{finding.kind}: {finding.message}" for finding in part.findings]
    lines += shown[:_MOST_LINES]
    if len(shown) > _MOST_LINES:
        lines.append(f"... and {len(shown) - _MOST_LINES} more.")
    if part.feedback and part.score < part.max_score:
        lines.append(f"See {part.feedback}.")
    return clean("\n".join(line for line in lines if line))
