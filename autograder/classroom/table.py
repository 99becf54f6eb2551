"""The class's grades as a table for spreadsheets and gradebooks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from autograder.classroom.grade_line import GradeLine
from autograder.classroom.hand_in import Fate
from autograder.classroom.people import Person
from autograder.records.text import clean

TABLE = "results.csv"  # its name in the folder of a class's results
ABSENT = "nothing handed in"
COLUMNS = (
    "student", "lab", "status", "score", "max_score", "full_score", "efficiency", "device", "seconds", "finished",
    "file", "problem", "name", "attempt", "counts", "note", "gpu_seconds",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "'")  # what spreadsheets compute when a cell begins with it, and what stops them


def table(lines: Iterable[GradeLine], people: Iterable[Person] = ()) -> str:
    """CSV with a line a student and lab; `status` is "not graded" where `problem` says why, and "nothing handed in" for
    people who have no line. `counts` are the points after policies and overrides."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    every = [one for line in lines for one in line.each()]
    there = {(line.student, line.lab) for line in every}
    labs = sorted({line.lab for line in every if line.lab})
    rows = [((line.student, line.lab), _row(line)) for line in every]
    for person in people:
        missing = [lab for lab in labs or [""] if (person.id, lab) not in there]
        absent = [ABSENT, *[""] * 9, person.name, *[""] * 4]
        rows += [((person.id, lab), [person.id, lab, *absent]) for lab in missing]
    for _, row in sorted(rows, key=lambda pair: pair[0]):
        writer.writerow([cell(text) for text in row])
    return out.getvalue()


def fates_table(fates: Iterable[Fate]) -> str:
    """CSV with a line a file that was handed in: whether it was read, and what became of it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("student", "file", "read", "what became of it"))
    for fate in fates:
        writer.writerow([cell(text) for text in (fate.student, fate.path, "yes" if fate.read else "no", fate.words)])
    return out.getvalue()


def _row(line: GradeLine) -> list[str]:
    graded = bool(line.status)
    numbers = [f"{value:g}" if graded else "" for value in (line.score, line.max_score, line.full_score)]
    efficiency = "" if line.efficiency is None else f"{line.efficiency:.4f}"
    state = line.status or ("not graded" if line.problem else "waiting" if line.file else ABSENT)
    seconds = f"{line.seconds:.1f}" if graded else ""
    counts = f"{line.points:g}" if graded or line.counts is not None else ""
    note = "; ".join(text for text in (line.note, line.why) if text)
    words = [line.student, line.lab, state, *numbers, efficiency, line.hardware, seconds, line.finished, line.file]
    gpu_seconds = f"{line.gpu_seconds:.1f}" if graded else ""
    return [*words, line.problem, line.called, str(line.attempt or ""), counts, note, gpu_seconds]


def cell(text: str) -> str:
    """A stranger's text as a cell: one line without control characters, and never a formula."""
    text = " ".join(clean(text).split())
    return "'" + text if text.startswith(_FORMULA) else text
