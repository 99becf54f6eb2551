"""One self-contained page of HTML a student: all their grades, with their source, and nothing of anybody else."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from autograder.classroom.grade_line import GradeLine
from autograder.records.text import clean
from autograder.report.html_page import page
from warplab.files import write_whole

_UNSAFE = re.compile(r"[^A-Za-z0-9@._+-]+")
_LONGEST = 80  # characters of a file's name


def write_feedback(lines: Iterable[GradeLine], folder: Path, pseudonyms: Mapping[str, str]) -> dict[str, Path]:
    """Write a page for each student into `folder`; gives each student's file. Raises ClassError, OSError.

    Each page tells its student the pseudonym that `leaderboard` shows them by.
    """
    by_student: dict[str, list[GradeLine]] = defaultdict(list)
    for line in lines:
        by_student[line.student].append(line)
    files = {student: folder / file_name(student) for student in by_student}
    for student, theirs in by_student.items():
        write_whole(files[student], feedback_page(student, theirs, pseudonyms[student]))
    return files


def feedback_page(student: str, lines: Iterable[GradeLine], pseudonym: str) -> str:
    """The page of one student, whose submissions `lines` are. Raises ClassError."""
    graded, notes, lines = [], [f"On a leaderboard you are {pseudonym}."], list(lines)
    called = next((f" ({line.called})" for line in lines if line.called and line.called != student), "")
    for line in lines:
        if line.counts is not None:
            notes.append(clean(f"{line.lab}: {line.points:g} points count ({line.why})."))
        if report := line.graded():
            graded.append(report)
        elif line.problem or not line.by_hand:
            notes.append(clean(f"{line.lab or line.file}: {line.problem or 'not graded yet.'}"))
    return page(graded, title=clean(f"Feedback for {student}{called}"), notes=notes)


def file_name(student: str) -> str:
    """A file's name for a student, whatever they are called; no two students share one."""
    plain = _UNSAFE.sub("_", student).strip(".")[:_LONGEST]
    if plain == student:
        return f"{plain}.html"
    return f"{plain}-{hashlib.sha256(student.encode(errors='replace')).hexdigest()[:8]}.html"
