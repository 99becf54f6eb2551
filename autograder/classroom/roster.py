"""Reads the list of a class's students that a platform exports, as CSV.

| platform | list | the ID that counts | also known by |
|---|---|---|---|
| Canvas | "Export Entire Gradebook" | `ID` | SIS user ID, login |
| Moodle | grading worksheet, or participants | e-mail, else participant's number | participant's number, ID number |
| Gradescope | "Download roster" | `Email` | `SID` |
| GitHub Classroom | roster or grades | `github_username` | roster identifier, repository |
| nbgrader | `nbgrader db student list` as a table with `id` | `id` | |
| any other | a table with `student`, and perhaps `name` | `student` | |
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.classroom.entries import ClassError, read_text
from autograder.classroom.moodle_headings import in_english
from autograder.classroom.people import Person, spelled

_PARTICIPANT = re.compile(r".*?(\d+)")


@dataclass(frozen=True)
class _Form:
    """A platform's table: the columns that it is known by, those that have the ID (the first that is not empty counts),
    those of other names of a student, and those that their name is made of."""

    known_by: frozenset[str]
    ids: tuple[str, ...]
    aliases: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]


_NAMES = (
    ("full name",),
    ("name",),
    ("first name", "last name"),
    ("first name", "surname"),
    ("first_name", "last_name"),
)
_FORMS = (
    _Form(frozenset({"student", "id"}), ("id",), ("sis user id", "sis login id"), (("student",),)),
    _Form(
        frozenset({"github_username"}), ("github_username", "identifier", "roster_identifier"),
        ("identifier", "roster_identifier", "student_repository_name"), _NAMES,
    ),
    _Form(frozenset({"identifier"}), ("email address", "identifier"), ("identifier", "id number", "username"), _NAMES),
    _Form(frozenset({"id"}), ("id",), (), _NAMES),
    _Form(frozenset({"email address"}), ("email address",), ("id number", "username"), _NAMES),
    _Form(frozenset({"email"}), ("email", "sid"), ("sid",), _NAMES),
    _Form(frozenset({"student"}), ("student",), (), _NAMES),
)  # fmt: skip


def read_roster(path: Path) -> list[Person]:
    """The people in a platform's list, by ID. Raises ClassError with what is wrong in it."""
    rows = read_rows(path)
    heading = [title.strip().lower() for title in in_english(rows[0])] if rows else []
    form = next((one for one in _FORMS if one.known_by <= set(heading)), None)
    if form is None:
        raise ClassError(
            f"{path} has no column that names students (Canvas `ID`, Moodle `Identifier` or `Email address`, "
            "Gradescope `Email`, GitHub `github_username`, or `student`): export the list again, "
            "from Moodle in English."
        )
    people: dict[str, Person] = {}
    for number, row in enumerate(rows[1:], start=2):
        values = {title: text.strip() for title, text in zip(heading, row, strict=False)}
        if not any(values.values()) or _is_nobody(values):
            continue
        person = _person(values, form)
        if not person.id:
            raise ClassError(f"{path}, line {number}: there is no {form.ids[0]}.")
        if person.id in people:
            raise ClassError(f"{path}, line {number}: {person.id} is there twice.")
        people[person.id] = person
    return [people[name] for name in sorted(people)]


def read_rows(path: Path) -> list[list[str]]:
    """The rows of a table with commas, semicolons or tabs, as its first line has them. Raises ClassError."""
    try:
        text = read_text(path)
        delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
        return list(csv.reader(text.splitlines(keepends=True), delimiter=delimiter))
    except csv.Error:
        raise ClassError(f"{path} cannot be read as a table: save it as CSV in UTF-8.") from None


def _person(values: Mapping[str, str], form: _Form) -> Person:
    def named(title: str) -> str:
        text = values.get(title, "")
        found = _PARTICIPANT.fullmatch(text) if title == "identifier" and "github_username" not in values else None
        return found[1] if found else text

    chosen = next((named(title) for title in form.ids if named(title)), "")
    parts: Sequence[str] = next((names for names in form.names if all(values.get(one) for one in names)), ())
    aliases = frozenset(spelled(named(title)) for title in form.aliases if named(title))
    return Person(spelled(chosen), spelled(" ".join(values[one] for one in parts)), aliases)


def _is_nobody(values: Mapping[str, str]) -> bool:
    """Whether a row is none of a student's: Canvas's points and test student, Gradescope's staff."""
    points = values.get("student", "").lower() in ("points possible", "student, test")
    return points or values.get("role", "student").lower() not in ("student", "")
