"""Points off what came late, for gradebooks that are imported as tables.

The record knows no deadlines: how many days late somebody was is what the platform that took the files says, in a
table with the columns `student`, `lab` and `days`, whole numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.classroom.entries import ClassError
from autograder.classroom.ledger import GradeLine

COLUMNS = ("student", "lab", "days")
Days = Mapping[tuple[str, str], int]  # by student and lab


@dataclass(frozen=True)
class Late:
    """A class's policy: `free` days of each student over all labs together, then `penalty` percent of a grade's points
    a day."""

    days: Days
    free: int
    penalty: float


def read_days(path: Path) -> dict[tuple[str, str], int]:
    """The table of days. Raises ClassError with what is wrong in it."""
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise ClassError(f"{path} cannot be read as a table.") from None
    days: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows, start=2):
        student, lab, text = ((row.get(name) or "").strip() for name in COLUMNS)
        if not (student and lab and text.isascii() and text.isdigit()):
            raise ClassError(f"{path}, line {number}: a student, a lab and a whole number of days are wanted.")
        if (student, lab) in days:
            raise ClassError(f"{path}, line {number}: {student} is there twice for {lab}.")
        days[student, lab] = int(text)
    return days


def without_late_points(lines: Iterable[GradeLine], late: Late) -> list[GradeLine]:
    """The lines with what is left of their points. Raises ClassError for days of what nobody has handed in.

    Free days go to a student's labs in the order of the labs' names, as many as each was late, until none is left.
    """
    lines = list(lines)
    if unknown := late.days.keys() - {(line.student, line.lab) for line in lines}:
        student, lab = min(unknown)
        raise ClassError(f"{student} has handed in nothing for {lab}, and days late for it: correct one of the two.")
    charged = _charged(sorted(late.days), late)
    return [
        replace(line, score=line.score * max(0.0, 1 - charged.get((line.student, line.lab), 0) * late.penalty / 100))
        for line in lines
    ]


def _charged(keys: Sequence[tuple[str, str]], late: Late) -> dict[tuple[str, str], int]:
    """The days that cost points."""
    left: dict[str, int] = {}
    charged = {}
    for student, lab in keys:
        free = min(left.get(student, late.free), late.days[student, lab])
        left[student] = left.get(student, late.free) - free
        charged[student, lab] = late.days[student, lab] - free
    return charged
