"""What lateness leaves of points, against the days counted by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.late import Late, read_days, without_late_points
from tests.autograder.platforms.reports import line

LABS = ("01_axpy", "03_transpose", "06_tiled_gemm")
CLASS = [replace(line(student, lab), score=80.0) for student in ("ada", "bob", "eve") for lab in LABS]


def points(days: dict[tuple[str, str], float], free: int, penalty: float) -> dict[str, list[float]]:
    found = without_late_points(CLASS, Late(days, free, penalty))
    return {s: [pytest.approx(one.points) for one in found if one.student == s] for s in ("ada", "bob", "eve")}


def test_free_days_come_first_and_go_to_the_earlier_labs() -> None:
    days = {("ada", "06_tiled_gemm"): 2, ("ada", "01_axpy"): 2, ("ada", "03_transpose"): 1, ("bob", "03_transpose"): 3}
    # Three free days: ada's go to 01 (two) and 03 (one), so 06 costs two days; bob's to 03.
    assert points(days, 3, 10.0) == {"ada": [80, 80, 64], "bob": [80, 80, 80], "eve": [80, 80, 80]}
    assert points(days, 0, 25.0) == {"ada": [40, 60, 40], "bob": [80, 20, 80], "eve": [80, 80, 80]}


def test_half_days_and_a_cap() -> None:
    days = {("ada", "01_axpy"): 1.5, ("ada", "03_transpose"): 6.0}
    found = without_late_points(CLASS, Late(days, 1.0, 10.0, most=40.0))
    assert [one.points for one in found if one.student == "ada"] == [pytest.approx(76), pytest.approx(48), 80]
    assert "1.5 days late, 1 of them free: 5% off" in found[0].why


def test_points_never_fall_below_none() -> None:
    assert points({("bob", "01_axpy"): 30}, 0, 10.0)["bob"] == [0, 80, 80]


def test_a_table_of_days_is_read(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text("\ufeffstudent,lab,days\nada@x.edu, 01_axpy ,2\n")
    assert read_days(path) == {("ada@x.edu", "01_axpy"): 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("student,lab,days\nada,01_axpy,1.3\n", "line 2: a student, a lab and whole or half"),
        ("student,lab,days\nada,01_axpy,-1\n", "line 2: a student, a lab and whole or half"),
        ("student,lab,days\nada,01_axpy\n", "line 2: a student, a lab and whole or half"),
        ("name,lab,days\nada,01_axpy,1\n", "has not the columns student, lab, days"),
        ("student,lab,days\nada,01_axpy,1\nada,01_axpy,2\n", "line 3: ada is there twice for 01_axpy"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "late.csv"
    path.write_text(text)
    with pytest.raises(ClassError, match=words):
        read_days(path)
    with pytest.raises(ClassError, match="cannot be read"):
        read_days(tmp_path / "nowhere.csv")


def test_days_of_what_nobody_handed_in_are_not_passed_over() -> None:
    with pytest.raises(ClassError, match="adda has handed in nothing for 01_axpy"):
        without_late_points(CLASS, Late({("adda", "01_axpy"): 1}, 0, 10.0))


def test_a_table_of_a_spreadsheet_in_another_language(tmp_path: Path) -> None:
    """Semicolons between cells, a comma in numbers, an empty last line."""
    path = tmp_path / "late.csv"
    path.write_text("\ufeffStudent;Lab;Days\nada;01_axpy;1,5\n;;\n", encoding="utf-8")
    assert read_days(path) == {("ada", "01_axpy"): 1.5}
    path.write_bytes("student,lab,days\nJörg,01_axpy,1\n".encode("cp1252"))
    with pytest.raises(ClassError, match="is not in UTF-8: save it in UTF-8, a table as CSV"):
        read_days(path)
