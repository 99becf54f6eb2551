"""The class's grades as a table for spreadsheets and gradebooks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from autograder.classroom.ledger import GradeLine
from autograder.records.text import clean

COLUMNS = (
    "student", "lab", "status", "score", "max_score", "full_score", "efficiency", "device", "seconds", "finished",
    "file", "problem",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@")  # what spreadsheets compute when a cell begins with it


def table(lines: Iterable[GradeLine]) -> str:
    """CSV with a line a student and lab; `status` is "not graded" where `problem` says why."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines:
        graded = bool(line.status)
        numbers = [f"{value:g}" if graded else "" for value in (line.score, line.max_score, line.full_score)]
        efficiency = "" if line.efficiency is None else f"{line.efficiency:.4f}"
        state = line.status or ("not graded" if line.problem else "waiting")
        words = (line.student, line.lab, state, *numbers, efficiency, line.hardware)
        rest = (f"{line.seconds:.1f}" if graded else "", line.finished, line.file, line.problem)
        writer.writerow([cell(text) for text in (*words, *rest)])
    return out.getvalue()


def cell(text: str) -> str:
    """A stranger's text as a cell: one line without control characters, and never a formula."""
    text = " ".join(clean(text).split())
    return "'" + text if text.startswith(_FORMULA) else text
