"""A class's grades as the CSV files that Canvas and Moodle import.

Canvas wants its own gradebook back: the file of "Export Entire Gradebook" names the students and its column of each
assignment, and what it does not know it would make a new assignment of. Moodle takes any table with a column that
names a user, by e-mail or ID number, and one a grade.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.table import cell
from autograder.records.status import NOT_JUDGED

_CANVAS_IDS = ("ID", "SIS User ID", "SIS Login ID", "Student")  # what a submission's student may be called by
_POINTS_POSSIBLE = "points possible"  # the second line of Canvas's file, after blanks


def canvas(lines: Iterable[GradeLine], exported: str, columns: Mapping[str, str]) -> str:
    """Canvas's exported gradebook with the grades filled in; everything else in it stays.

    `columns` maps a lab to the heading of its assignment, or a part of it ("03_transpose"). A student is found by ID,
    SIS user ID, login or name, as Canvas's own downloads name them ("lovelaceada"). Raises ClassError.
    """
    rows = list(csv.reader(io.StringIO(exported.removeprefix("\ufeff"))))
    if not rows or "Student" not in rows[0]:
        raise ClassError("This is no gradebook of Canvas: its first line has no column `Student`.")
    heading = rows[0]
    places = {lab: _column(heading, lab, name) for lab, name in columns.items()}
    students = [row for row in rows[1:] if not _is_points(row)]
    wanted = _graded(lines)
    unknown = []
    for line in wanted:
        if line.lab not in places:
            raise ClassError(f"Nothing says which column of Canvas's gradebook {line.lab} is: name it with --column.")
        found = [row for row in students if _is_student(heading, row, line.student)]
        if len(found) != 1:
            unknown.append(line.student)
            continue
        row = found[0]
        row += [""] * (len(heading) - len(row))
        row[places[line.lab]] = f"{line.points:g}"
    if unknown:
        names = ", ".join(sorted(set(unknown))[:5])
        raise ClassError(f"Canvas's gradebook has not exactly one line for {names}: correct the names there or here.")
    return _written(rows)


def moodle(lines: Iterable[GradeLine], key: str = "Email address") -> str:
    """A table for Moodle's "Import, CSV file": the student under `key`, and a column a lab with its points.

    A student without a grade for a lab has an empty cell there, which Moodle leaves alone.
    """
    wanted = _graded(lines)
    labs = sorted({line.lab for line in wanted})
    points = {(line.student, line.lab): f"{line.points:g}" for line in wanted}
    rows = [[key, *labs]]
    rows += [
        [cell(student), *(points.get((student, lab), "") for lab in labs)]
        for student in sorted({line.student for line in wanted})
    ]
    return _written(rows)


def _graded(lines: Iterable[GradeLine]) -> list[GradeLine]:
    every = [one for line in lines for one in line.each()]
    return [line for line in every if line.by_hand or (line.status and line.status not in NOT_JUDGED)]


def _column(heading: Sequence[str], lab: str, name: str) -> int:
    found = [place for place, title in enumerate(heading) if title == name]
    found = found or [place for place, title in enumerate(heading) if name in title]
    if len(found) != 1:
        words = "no column" if not found else f"{len(found)} columns"
        raise ClassError(f"Canvas's gradebook has {words} called {name!r} for {lab}: name one with --column.")
    return found[0]


def _is_points(row: Sequence[str]) -> bool:
    return bool(row) and row[0].strip().lower() == _POINTS_POSSIBLE


def _is_student(heading: Sequence[str], row: Sequence[str], student: str) -> bool:
    values = dict(zip(heading, row, strict=False))
    if any(values.get(name, "").strip() == student for name in _CANVAS_IDS):
        return True
    # A download's files begin with the sortable name in lower case without anything but letters and digits.
    return "".join(c for c in values.get("Student", "").lower() if c.isalnum()) == student


def _written(rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()
