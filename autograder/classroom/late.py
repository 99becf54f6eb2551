"""Points off what came late.

How late somebody was follows from a deadline and the time of an attempt (`policy`), or is in a table with the columns
`student`, `lab` and `days`: whole and half days.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.roster import read_rows

COLUMNS = ("student", "lab", "days")
Days = Mapping[tuple[str, str], float]  # by student and lab


@dataclass(frozen=True)
class Late:
    """A class's policy: `free` days of each student over all labs together, then `penalty` percent of a grade's points
    a day, `most` percent of them at most."""

    days: Days
    free: float
    penalty: float
    most: float = 100.0


def read_days(path: Path) -> dict[tuple[str, str], float]:
    """The table of days. Raises ClassError with what is wrong in it."""
    rows = read_rows(path)
    heading = [title.strip().lower() for title in rows[0]] if rows else []
    if not set(COLUMNS) <= set(heading):
        raise ClassError(f"{path} has not the columns {', '.join(COLUMNS)}.")
    days: dict[tuple[str, str], float] = {}
    for number, row in enumerate(rows[1:], start=2):
        values = {title: text.strip() for title, text in zip(heading, row, strict=False)}
        if not any(values.values()):
            continue
        student, lab, text = (values.get(name, "") for name in COLUMNS)
        try:
            found = float(text.replace(",", ".")) if text.isascii() else math.nan
        except ValueError:
            found = math.nan
        if not (student and lab and math.isfinite(found) and found >= 0 and (2 * found).is_integer()):
            raise ClassError(f"{path}, line {number}: a student, a lab and whole or half days are wanted.")
        if (student, lab) in days:
            raise ClassError(f"{path}, line {number}: {student} is there twice for {lab}.")
        days[student, lab] = found
    return days


def without_late_points(lines: Iterable[GradeLine], late: Late) -> list[GradeLine]:
    """The lines with what counts of their points. Raises ClassError for days of what nobody has handed in.

    Free days go to a student's labs in the order of the labs' names, as many as each was late, until none is left.
    What was set by hand stays as it is.
    """
    lines = list(lines)
    if unknown := late.days.keys() - {(line.student, line.lab) for line in lines}:
        student, lab = min(unknown)
        raise ClassError(f"{student} has handed in nothing for {lab}, and days late for it: correct one of the two.")
    charged = _charged(sorted(late.days), late)
    return [_charge(line, late, charged.get((line.student, line.lab), 0.0)) for line in lines]


def _charge(line: GradeLine, late: Late, days: float) -> GradeLine:
    percent = min(late.most, 100.0, days * late.penalty)
    late_by = late.days.get((line.student, line.lab), 0.0)
    if line.by_hand or not late_by:
        return line
    words = f"{late_by:g} days late, {late_by - days:g} of them free: {percent:g}% off"
    why = "; ".join(text for text in (line.why, words) if text)
    return replace(line, counts=line.points * (1 - percent / 100), why=why)


def _charged(keys: Sequence[tuple[str, str]], late: Late) -> dict[tuple[str, str], float]:
    """The days that cost points."""
    left: dict[str, float] = {}
    charged = {}
    for student, lab in keys:
        free = min(left.get(student, late.free), late.days[student, lab])
        left[student] = left.get(student, late.free) - free
        charged[student, lab] = late.days[student, lab] - free
    return charged
