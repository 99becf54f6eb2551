"""Grades in the files that Canvas and Moodle import."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from autograder.classroom.entries import ClassError
from autograder.platforms.gradebook import canvas, moodle
from tests.autograder.platforms.reports import BROKEN, WRONG, line, problem

EXPORTED = """\
\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Quiz (7),Transpose (1234),Final Score
    Points Possible,,,,,10,100,(read only)
"Lovelace, Ada",11,s1,ada@x.edu,A,9,,50
"Babbage, Charles",12,s2,bob@x.edu,A,8,3,40
"""
COLUMNS = {"03_transpose": "Transpose (1234)"}


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(StringIO(text)))


def test_canvas_gets_its_own_table_back_with_the_points() -> None:
    before = rows(EXPORTED.removeprefix("\ufeff"))
    lines = [line("ada@x.edu"), line("babbagecharles", found=WRONG), problem("eve")]
    after = rows(canvas(lines, EXPORTED, COLUMNS))
    assert (after[2][6], after[3][6]) == ("15", "0")
    for row in (*before, *after):
        row[6] = ""
    assert after == before


def test_a_judge_error_is_no_grade() -> None:
    assert rows(canvas([line("12", found=BROKEN)], EXPORTED, COLUMNS))[3][6] == "3"
    assert rows(moodle([line("12", found=BROKEN)])) == [["Email address"]]


@pytest.mark.parametrize(
    ("student", "columns", "words"),
    [
        ("nobody", COLUMNS, "not exactly one line for nobody"),
        ("11", {"03_transpose": "Reduction"}, "no column called 'Reduction'"),
        ("11", {"03_transpose": "("}, "4 columns called '\\('"),
        ("11", {}, "which column"),
    ],
)
def test_what_canvas_does_not_know_is_told(student: str, columns: dict[str, str], words: str) -> None:
    exported = EXPORTED.replace("Final Score", "Final (x) Score").replace("Section", "Section (y)")
    with pytest.raises(ClassError, match=words):
        canvas([line(student)], exported, columns)


def test_what_is_no_gradebook_is_refused() -> None:
    with pytest.raises(ClassError, match="no column `Student`"):
        canvas([line("11")], "a,b\n1,2\n", COLUMNS)


def test_moodle_gets_a_column_a_lab() -> None:
    lines = [line("ada@x.edu"), line("ada@x.edu", "01_axpy", WRONG), line("=bob", "01_axpy"), problem("eve")]
    assert rows(moodle(lines)) == [
        ["Email address", "01_axpy", "03_transpose"],
        ["'=bob", "15", ""],
        ["ada@x.edu", "0", "15"],
    ]
