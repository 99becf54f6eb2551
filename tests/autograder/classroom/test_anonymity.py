"""Hidden names: nothing that shows a grade says whose it is, and what goes out has the names."""

from __future__ import annotations

import re
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from urllib.parse import quote, urlsplit

import pytest

from autograder.classroom.anonymity import draw
from autograder.classroom.entries import ClassError
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.ledger import RECORD, Ledger
from autograder.classroom.people import Identity, Person
from autograder.cli import main
from autograder.overview.desk import Desk
from tests.autograder.platforms.reports import ON_GPU

LAB = "03_transpose"
CODE = b"def transpose(a, out):\n    for i in range(a.shape[0]):\n        out[i] = a[i] + (i - 1) * 2 if a[i] else i\n"
NAMES = ("ada@x.edu", "Ada", "zoe@x.edu", "Zoe", "kim@x.edu", "Kim", "lee@x.edu", "Lee", "max@x.edu", "Max")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """One graded, one whose file has no grade, a group of two, one who handed in nothing, and an appeal."""
    out = tmp_path / "results"
    with Ledger(out / RECORD, who="TA") as ledger:
        ledger.enrol([Person(name, name[:3].title(), frozenset()) for name in NAMES[::2]])
        pair = (Identity("kim@x.edu", "Kim"), Identity("lee@x.edu", "Lee"))
        ledger.take_in(
            [
                HandedIn(
                    "ada@x.edu", LAB, "Ada_12_submission.py", CODE, called="Ada", note="Ada_12_old.py is set aside"
                ),
                HandedIn("zoe@x.edu", LAB, "Zoe_13.py", b"", "Zoe_13.py is empty.", called="Zoe"),
                HandedIn("kim@x.edu + lee@x.edu", LAB, "Kim.py", CODE, called="Kim, Lee", members=pair),
            ]
        )
        for one in ledger.waiting():
            ledger.keep(one.number, {**ON_GPU, "lab": LAB, "submission": one.file})
        ledger.hide_names(True)
    return out


def test_no_two_students_have_one_pseudonym(tmp_path: Path) -> None:
    with Ledger(tmp_path / RECORD) as ledger:
        ledger.take_in([HandedIn(f"s{n}", LAB, "x.py", b"#") for n in range(2000)])
        names = ledger.pseudonyms()
    assert len(set(names.values())) == len(names) == 2000
    with Ledger(tmp_path / RECORD) as ledger:
        ledger.take_in([HandedIn("zoe", LAB, "x.py", b"#")])
        assert {student: ledger.pseudonyms()[student] for student in names} == names


def test_a_pseudonym_says_nothing_of_a_student() -> None:
    assert len({draw(()) for _ in range(50)}) > 40


def test_nothing_that_shows_grades_says_whose_they_are(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger(results / RECORD) as ledger:
        names = ledger.pseudonyms()
    ada, out = names["ada@x.edu"], results / "out.html"
    for command in (
        ["override", "--student", ada, "--lab", LAB, "--score", "3", "--reason", "spoke to them", "--by", "TA"],
        ["log", "--student", ada, "--lab", LAB, "--appeal", "too few", "--by", "TA"],
        ["log"],
        ["stats"],
        ["leaderboard", "--lab", LAB, "--out", str(out)],
        ["policy"],
    ):
        assert main([command[0], str(results), *command[1:]]) == 0
    texts = [capsys.readouterr().out, (results / "results.csv").read_text(), out.read_text(), *pages(results)]
    for text in texts:
        assert not [name for name in NAMES if re.search(rf"\b{re.escape(name)}\b", text)]
    assert f"{ada},{LAB},partial," in texts[1] or f"{ada},{LAB}," in texts[1]
    assert texts[1].count("nothing handed in") == 1 and ",3," in texts[1]


def pages(results: Path) -> list[str]:
    """Every page of the desk."""
    desk = Desk(results)
    Thread(target=desk.serve_forever, daemon=True).start()
    try:
        home = urlsplit(desk.address).path
        found = []
        for page in ["", *(f"student/{quote(name, safe='')}" for name in desk_students(results))]:
            connection = HTTPConnection("127.0.0.1", desk.server_port, timeout=30)
            connection.request("GET", home + page)
            answer = connection.getresponse()
            assert answer.status == 200
            found.append(answer.read().decode())
        return found
    finally:
        desk.shutdown()
        desk.server_close()


def desk_students(results: Path) -> list[str]:
    with Ledger(results / RECORD, reads=True) as ledger:
        return [line.student for line in ledger.shown().lines(ledger.lines())]


@pytest.mark.processes
def test_likeness_is_shown_without_names(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["similar", str(results), "--lab", LAB, "--tokens-only"]) == 0
    page = (results / "similar" / f"{LAB}.anonymous.html").read_text()
    assert "100%" in page and not [name for name in NAMES if re.search(rf"\b{name}\b", page + capsys.readouterr().out)]


@pytest.mark.parametrize(
    "command",
    [
        ["override", "--student", "ada@x.edu", "--lab", LAB, "--score", "3", "--reason", "x"],
        ["log", "--student", "ada@x.edu"],
        ["leaderboard", "--lab", LAB, "--out", "board.html", "--names"],
    ],
)
def test_a_name_is_not_answered_while_names_are_hidden(
    results: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command[0], str(results), *command[1:]]) == 2
    assert "ames are hidden" in capsys.readouterr().err


def test_the_order_of_log_and_grading_is_not_that_of_names(tmp_path: Path) -> None:
    """Of 50 students; it is so once in 10^64."""
    students = [f"s{number:02}" for number in range(50)]
    with Ledger(tmp_path / RECORD) as ledger:
        ledger.take_in([HandedIn(name, LAB, "submission.py", b"#") for name in students])
        assert students not in ([line.student for line in ledger.log()], [one.student for one in ledger.waiting()])
        assert sorted(one.student for one in ledger.waiting()) == students


def test_somebody_without_a_hand_in_is_named_by_pseudonym(results: Path) -> None:
    """`--only` with a pseudonym: the error says no more than was asked."""
    with Ledger(results / RECORD) as ledger:
        with pytest.raises(ClassError) as caught:
            ledger.waiting(["max@x.edu"])
        assert ledger.pseudonyms()["max@x.edu"] in str(caught.value) and "max" not in str(caught.value)


def test_what_cannot_be_done_is_refused_without_names(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger(results / RECORD) as ledger:
        zoe = ledger.pseudonyms()["zoe@x.edu"]
    override = ["override", str(results), "--student", zoe, "--by", "TA", "--reason", "x", "--lab"]
    assert main([*override, "03_transposed", "--score", "3"]) == main([*override, LAB, "--withdraw"]) == 2
    said = capsys.readouterr().err
    assert "no lab '03_transposed'" in said and "no override" in said
    assert not [name for name in NAMES if name in said]


def test_a_report_that_quotes_its_file_quotes_the_pseudonym(results: Path) -> None:
    with Ledger(results / RECORD) as ledger:
        pair = next(line for line in ledger.lines() if line.file == "Kim.py")
        pair = replace(pair, report={**pair.report, "parts": [{"message": "Kim.py, line 3: kim.py opens akim.py."}]})
        shown = ledger.shown().lines([pair])[0]
    assert shown.report["parts"] == [{"message": f"{shown.file}, line 3: {shown.file} opens akim.py."}]


def test_what_goes_out_has_the_names(results: Path, tmp_path: Path) -> None:
    assert main(["feedback", str(results), "--out", str(tmp_path / "pages")]) == 0
    assert (tmp_path / "pages" / "ada@x.edu.html").is_file()
    assert main(["export", str(results), "--to", "moodle", "--out", str(tmp_path / "grades.csv")]) == 0
    assert "ada@x.edu" in (tmp_path / "grades.csv").read_text()
    assert main(["policy", str(results), "--show-names"]) == 0
    assert "ada@x.edu" in (results / "results.csv").read_text()
    with Ledger(results / RECORD) as ledger:
        assert [line.words for line in ledger.log()][-2:] == ["names hidden", "names shown"]


@pytest.mark.parametrize("command", [["stats"], ["leaderboard", "--lab", LAB, "--out", "board.html"]])
def test_a_damaged_report_is_named_by_pseudonym(
    results: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results)
    with Ledger(results / RECORD) as ledger:
        (ada, *_) = ledger.waiting(["ada@x.edu"], again=True)
        report = next(line.report for line in ledger.lines() if line.student == "ada@x.edu")
        ledger.keep(ada.number, {key: value for key, value in report.items() if key != "parts"})
        pseudonym = ledger.pseudonyms()["ada@x.edu"]
    assert main([command[0], str(results), *command[1:]]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"no whole report of {LAB} for {pseudonym!r}" in said and not [name for name in NAMES if name in said]
