"""A learner's history: their own grades, on their own machine, and nothing lost to a damaged line or a full disk."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from autograder import own_history
from autograder.cli import main
from autograder.records.report import PartResult, Report
from autograder.records.status import Executor, Part, Status
from autograder.spec.lab import labs_folder, solutions_folder
from autograder.submissions import is_learners


def report(lab: str, points: float) -> Report:
    parts = (PartResult(Part.CORRECTNESS, Status.PASSED, points, 75),)
    return Report(lab, "", "submission.py", Status.PASSED, "", parts, 100, Executor.EMULATOR, "", {})


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLAB_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_progress_says_the_best_of_all_grades(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for points in (15.0, 75.0, 60.0):
        own_history.keep(report("03_transpose", points))
    own_history.keep(report("04_reduction", 40.0))
    with (data / "grades.jsonl").open("a") as file:
        file.write('half a li\n{"of": "a newer version"}\n[1]\n')
    assert [attempt.points for attempt in own_history.attempts()] == [15, 75, 60, 40]
    assert main(["progress"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["03_transpose"].startswith("75 of 75 on 2") and lines["03_transpose"].endswith(", 3 grades")
    assert lines["04_reduction"].startswith("40 of 75") and lines["04_reduction"].endswith(", 1 grade")
    assert lines["01_axpy"] == "not begun"


def test_it_counts_solved_questions_by_chapter(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from course.quiz.progress import Progress

    kept = Progress()
    for question, right in (("03-a", True), ("03-b", True), ("04-c", True), ("05-d", False)):
        kept.record("seed", question, right)
    kept.record("another seed", "03-a", True)
    monkeypatch.setattr(own_history, "CHECKOUT", data)  # without the course's files
    assert own_history.questions() == {"03": (2, 2), "04": (1, 1)}
    (data / "quiz.json").write_text("{")
    assert own_history.questions() == {}


def test_progress_has_every_chapter_with_its_questions(data: Path) -> None:
    from course.quiz.bank import FOLDER
    from course.quiz.progress import Progress

    Progress().record("seed", "01-own-number", True)
    Progress().record("seed", "01-tree-barriers", True)
    lines = dict(own_history.progress())
    banks = {path.name.partition("_")[0]: tomllib.loads(path.read_text("utf-8")) for path in FOLDER.glob("[0-9]*.toml")}
    counts = {number: len(bank["question"]) for number, bank in banks.items()}
    found = own_history.questions()
    assert {number: count for number, (_, count) in found.items()} == counts
    assert found["01"][0] == found["01b"][0] == 1  # of whose questions all begin with 01
    assert lines["chapter 01"] == f"2 of {counts['01'] + counts['01b']} questions solved"
    assert lines["chapter 16"] == "no question solved yet"
    assert own_history.begun() == [("chapter 01", lines["chapter 01"])]
    assert len([name for name in lines if name.startswith("chapter")]) == 18


def test_a_second_grade_is_told_beside_the_first_and_all_are_on_a_page(data: Path) -> None:
    own_history.keep(report("03_transpose", 15))
    assert own_history.words_about("03_transpose") == ""
    own_history.keep(report("04_reduction", 30))
    own_history.keep(report("03_transpose", 50))
    assert own_history.words_about("03_transpose") == "Your latest grades of this lab: 15, 50 of 75 points."
    page = own_history.write_page()
    assert page == data / "grades.html"
    text = page.read_text("utf-8")
    assert text.index("50 of 75") < text.index("30 of 75") < text.index("15 of 75")


def test_a_history_that_cannot_be_written_costs_no_grade(data: Path) -> None:
    data.write_text("a file where the folder should be")
    own_history.keep(report("03_transpose", 1))
    assert own_history.attempts() == [] and own_history.write_page() is None


def test_solutions_of_the_course_are_nobodys_progress() -> None:
    assert is_learners(labs_folder() / "01_axpy" / "submission.py")
    assert not is_learners(solutions_folder() / "01_axpy" / "submission.py")
    assert not is_learners(Path("/elsewhere/01_axpy/submission.py"))
