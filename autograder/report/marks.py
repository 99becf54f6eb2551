"""A report's faults by line, for an editor that underlines them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from autograder.records.report import Report
from autograder.records.status import Part
from autograder.report.words import first_line

_MOST = 2  # messages of a line


class Severity(StrEnum):
    """What a mark is about: a fault, or traffic and time that are wasted."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Mark:
    """One line of the submission, counted from 1, with all that the report says of it in sentences."""

    line: int
    severity: Severity
    message: str


def marks(report: Report) -> tuple[Mark, ...]:
    """The lines that have a fault or waste traffic, in their order; a line with both is a fault's."""
    found: dict[int, list[Mark]] = {}
    lines = report.source.count("\n") + 1
    for mark in _all(report):
        if 1 <= mark.line <= lines:
            found.setdefault(mark.line, []).append(mark)
    if not found and 1 <= (line := first_line(report)) <= lines:
        found[line] = [Mark(line, Severity.WARNING, report.next_step)]
    return tuple(_together(found[line]) for line in sorted(found))


def _all(report: Report) -> Iterator[Mark]:
    """Faults first."""
    if report.line:
        yield Mark(report.line, Severity.ERROR, report.message)
    for part in report.parts:
        for finding in part.findings:
            yield Mark(finding.line, Severity.ERROR, finding.message)
    for part in report.parts:
        for case in part.cases:
            if case.first_wrong and case.first_wrong.writer:
                yield Mark(case.first_wrong.writer.line, Severity.ERROR, f"{case.name}: {case.message}")
    if any(report.part(name).lost for name in (Part.TRAFFIC, Part.EFFICIENCY)):
        for wasted in report.wasted:
            yield Mark(wasted.line, Severity.WARNING, wasted.words)


def _together(of_line: list[Mark]) -> Mark:
    """One mark for those of a line."""
    messages = list(dict.fromkeys(mark.message for mark in of_line))
    more = [f"… and {len(messages) - _MOST} more in the report"] if len(messages) > _MOST else []
    return Mark(of_line[0].line, of_line[0].severity, "\n".join(messages[:_MOST] + more))
