"""A class's grades as the CSV files that Canvas and Moodle import, and the pages that Moodle hands to students.

Canvas wants its own gradebook back: the file of "Export Entire Gradebook" names the students and its column of each
assignment, and what it does not know it would make a new assignment of. Moodle takes its "Offline grading worksheet"
back (mod/assign/feedback/offline/importgradeslib.php says which columns it reads), or in the gradebook any table with a
column that names a user, by e-mail or ID number, and one a grade.

Grades without a place in the platform's table go to `skipped`, if a list is given, with the reason; otherwise they are
an error.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.moodle_headings import (
    EMAIL,
    FULL_NAME,
    GRADE,
    GRADED_AT,
    ID_NUMBER,
    IDENTIFIER,
    LOCK,
    MOST,
    NO,
    USERNAME,
    in_english,
)
from autograder.classroom.table import cell
from autograder.records.status import NOT_JUDGED

_CANVAS_IDS = ("ID", "SIS User ID", "SIS Login ID", "Student")  # what a submission's student may be called by
_EXCUSED = "EX"  # in the place of points
_POINTS_POSSIBLE = "points possible"  # the second line of Canvas's file, after blanks
_MOODLE_COLUMNS = (IDENTIFIER, GRADE, GRADED_AT)  # without which Moodle takes no worksheet
COLUMN = "column"  # a scale: the points of the platform's column

Scale = float | str | None  # points that a lab's maximum becomes, COLUMN, or the points as they are


def canvas(
    lines: Iterable[GradeLine],
    exported: str,
    columns: Mapping[str, str],
    scale: Scale = None,
    skipped: list[str] | None = None,
) -> str:
    """Canvas's exported gradebook with the grades filled in; everything else in it stays.

    `columns` maps a lab to the heading of its assignment, or a part of it ("03_transpose"). A student is found by ID,
    SIS user ID, login or name, as Canvas's own downloads name them ("lovelaceada"). Raises ClassError.
    """
    rows = _rows(exported)
    if not rows or "Student" not in rows[0]:
        raise ClassError("This is no gradebook of Canvas: its first line has no column `Student`.")
    heading = rows[0]
    places = {lab: _column(heading, lab, name) for lab, name in columns.items()}
    students = [row for row in rows[1:] if not _is_points(row)]
    possible = next((row for row in rows[1:] if _is_points(row)), [])
    wanted = graded(lines)
    points = _points(wanted, scale)
    unknown = []
    for line in wanted:
        if line.lab not in places:
            raise ClassError(f"Nothing says which column of Canvas's gradebook {line.lab} is: name it with --column.")
        place = places[line.lab]
        row = _canvas_row(heading, students, line.student)
        if row is None or row[place : place + 1] == [_EXCUSED]:
            unknown.append(line.student)
            continue
        row += [""] * (len(heading) - len(row))
        row[place] = points(line, possible[place] if place < len(possible) else "")
    account(unknown, skipped, "Canvas's gradebook has not exactly one line that can be changed for")
    return _written(rows, _delimiter(exported))


def moodle(lines: Iterable[GradeLine], key: str = EMAIL, scale: Scale = None) -> str:
    """A table for Moodle's "Import, CSV file": the student under `key`, and a column a lab with its points.

    A student without a grade for a lab has an empty cell there, which Moodle leaves alone. Raises ClassError for
    participants' numbers, which Moodle's gradebook does not know.
    """
    wanted = graded(lines)
    numbers = sorted({line.student for line in wanted if line.student.isdigit()})
    if key == EMAIL and numbers:
        raise ClassError(
            f"{numbers[0]} is a participant's number and no e-mail address: name the assignment's grading worksheet "
            "with --gradebook, or give it to `autograder class` as --roster."
        )
    labs = sorted({line.lab for line in wanted})
    number = _points(wanted, scale)
    points = {(line.student, line.lab): number(line, "") for line in wanted}
    rows = [[key, *labs]]
    rows += [
        [cell(student), *(points.get((student, lab), "") for lab in labs)]
        for student in sorted({line.student for line in wanted})
    ]
    return _written(rows)


def worksheet(
    lines: Iterable[GradeLine], exported: str, lab: str, scale: Scale = None, skipped: list[str] | None = None
) -> str:
    """Moodle's grading worksheet of a lab's assignment with the grades filled in. A student is found by participant's
    number, e-mail address, ID number or user name. Raises ClassError."""
    rows = _rows(exported)
    heading = _worksheet_heading(rows, _MOODLE_COLUMNS)
    wanted = [line for line in graded(lines) if line.lab == lab]
    points = _points(wanted, scale)
    grade = heading.index(GRADE)
    most = heading.index(MOST) if MOST in heading else -1
    locked = heading.index(LOCK) if LOCK in heading else -1
    unknown = []
    for line in wanted:
        row = _participant(heading, rows[1:], line.student)
        if row is None or (0 <= locked < len(row) and row[locked].strip().lower() in NO):
            unknown.append(line.student)
            continue
        row += [""] * (len(heading) - len(row))
        row[grade] = points(line, row[most] if most >= 0 else "")
    account(unknown, skipped, "Moodle's worksheet has not exactly one line that can be changed for")
    return _written(rows, _delimiter(exported))


def feedback_files(pages: Mapping[str, str], exported: str, skipped: list[str] | None = None) -> bytes:
    """The zip for Moodle's "Upload multiple feedback files in a zip": each student's page (HTML) in a folder whose name
    has their number in the worksheet `exported`. Raises ClassError.

    The form of the names: mod/assign/feedback/file/importziplib.php.
    """
    rows = _rows(exported)
    heading = _worksheet_heading(rows, (IDENTIFIER,))
    out, unknown = io.BytesIO(), []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, page in sorted(pages.items()):
            row = _participant(heading, rows[1:], student)
            if row is None:
                unknown.append(student)
                continue
            values = dict(zip(heading, row, strict=False))
            name = re.sub(r"[^\w .-]|_", " ", values.get(FULL_NAME, "")).strip() or "Participant"
            archive.writestr(f"{name}_{_number(values[IDENTIFIER])}_assignfeedback_file_/feedback.html", page)
    account(unknown, skipped, "Moodle's worksheet has not exactly one line for")
    return out.getvalue()


def graded(lines: Iterable[GradeLine]) -> list[GradeLine]:
    """The lines with points, each of a group's members by themselves."""
    every = [one for line in lines for one in line.each()]
    found: dict[tuple[str, str], GradeLine] = {}
    for line in every:
        if not (line.by_hand or (line.status and line.status not in NOT_JUDGED)):
            continue
        if found.setdefault((line.student, line.lab), line).points != line.points:
            raise ClassError(
                f"{line.student} has two grades for {line.lab}, alone and in a group: say which counts with "
                "`autograder override`."
            )
    return list(found.values())


def _points(lines: Sequence[GradeLine], scale: Scale) -> Callable[[GradeLine, str], str]:
    """A function that words the points of a line, given those of its column as text."""
    most = {lab: max(line.max_score for line in lines if line.lab == lab) for lab in {line.lab for line in lines}}

    def words(line: GradeLine, column: str) -> str:
        if scale is None:
            return f"{line.points:g}"
        whole = line.max_score or most[line.lab]
        try:
            to = float(column.replace(",", ".")) if scale == COLUMN else float(scale)
        except ValueError:
            raise ClassError(
                f"The platform's table does not say how many points {line.lab} has: give --scale a number."
            ) from None
        if not whole:
            raise ClassError(f"Nothing graded says how many points {line.lab} has, so none can be scaled.")
        return f"{round(line.points / whole * to, 4):g}"

    return words


def account(unknown: Iterable[str], skipped: list[str] | None, words: str) -> None:
    names = sorted(set(unknown))
    if skipped is not None:
        skipped += [f"{words} {name}" for name in names]
    elif names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise ClassError(f"{words} {', '.join(names[:5])}{more}: correct the names there or here, or --skip-unknown.")


def _column(heading: Sequence[str], lab: str, name: str) -> int:
    found = [place for place, title in enumerate(heading) if title == name]
    found = found or [place for place, title in enumerate(heading) if name in title]
    if len(found) != 1:
        words = "no column" if not found else f"{len(found)} columns"
        raise ClassError(f"Canvas's gradebook has {words} called {name!r} for {lab}: name one with --column.")
    return found[0]


def _is_points(row: Sequence[str]) -> bool:
    return bool(row) and row[0].strip().lower() == _POINTS_POSSIBLE


def _canvas_row(heading: Sequence[str], rows: Sequence[list[str]], student: str) -> list[str] | None:
    """The one row of a student, by the first of Canvas's IDs that has the name; None if there are none or several."""
    for title in _CANVAS_IDS:
        if title in heading:
            place = heading.index(title)
            if found := [row for row in rows if place < len(row) and row[place].strip() == student]:
                return found[0] if len(found) == 1 else None
    # A download's files begin with the sortable name in lower case without anything but letters and digits.
    place = heading.index("Student")
    found = [row for row in rows if row and "".join(c for c in row[place].lower() if c.isalnum()) == student]
    return found[0] if len(found) == 1 else None


def _worksheet_heading(rows: Sequence[list[str]], needed: Iterable[str]) -> list[str]:
    """The titles of Moodle's worksheet in English. Raises ClassError if one that is needed is not there."""
    heading = in_english(rows[0]) if rows else []
    if missing := [name for name in needed if name not in heading]:
        raise ClassError(
            f"This is no grading worksheet of Moodle in a language that is known: it has no column `{missing[0]}`. "
            "Download it with Moodle's language set to English."
        )
    return heading


def _participant(heading: Sequence[str], rows: Sequence[list[str]], student: str) -> list[str] | None:
    """The one row of a worksheet for a student; None if there are none or several."""
    for title in (IDENTIFIER, EMAIL, ID_NUMBER, USERNAME):
        if title in heading:
            place = heading.index(title)
            values = [(row[place].strip() if place < len(row) else "", row) for row in rows]
            if title == IDENTIFIER:
                values = [(_number(text), row) for text, row in values]
            if found := [row for text, row in values if text and text.casefold() == student.casefold()]:
                return found[0] if len(found) == 1 else None
    return None


def _number(identifier: str) -> str:
    """The number in "Participant 123", in whatever language."""
    found = re.search(r"\d+$", identifier.strip())
    return found.group() if found else ""


def _delimiter(text: str) -> str:
    """What separates the cells of a table: Canvas has a setting for semicolons."""
    return max(",;\t", key=text.split("\n", 1)[0].count)


def _rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=_delimiter(text)))


def _written(rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()
