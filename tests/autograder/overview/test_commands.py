"""The instructor's commands on a small record: what they write, and what they say where there is nothing to write."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.classroom.hand_in import HandedIn
from autograder.classroom.ledger import RECORD, Ledger
from autograder.cli import CANNOT_GRADE, main
from autograder.records import machine
from autograder.spec.lab import CHECKOUT
from tests.autograder.platforms.reports import ON_GPU, WRONG
from warplab.sandbox.isolation import Isolation

LAB = "01_axpy"
SOLUTION = (CHECKOUT / "solutions" / LAB / "submission.py").read_text()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The record of three students: a reference, the same renamed, and a text that does not compile."""
    texts = {"ada": SOLUTION, "bob": SOLUTION.replace("out", "result"), "eve": "def axpy(a, x, y, out):\n    pass\n"}
    with Ledger(tmp_path / RECORD) as ledger:
        ledger.take_in([HandedIn(name, LAB, "submission.py", text.encode()) for name, text in texts.items()])
        for one in ledger.waiting():
            found = ON_GPU if one.student != "eve" else WRONG
            ledger.keep(one.number, {**found, "lab": LAB})
    return tmp_path


@pytest.mark.processes
def test_pairs_are_compared_in_sandboxes_of_their_own(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = results / "similar.html"
    assert main(["similar", str(results), "--lab", LAB, "--out", str(page)]) == 0
    said = capsys.readouterr().out
    assert f"100%  ada and bob (solutions/{LAB}/submission.py is in there)" in said
    assert "18 pairs compared" in said  # three of the class, and each with five solutions
    text = page.read_text()
    assert "tokens 100%, compiled 100%" in text and "<script" not in text


@pytest.mark.processes
def test_without_isolation_nothing_is_compiled_unless_that_is_accepted(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The flag that the refusal names is one that the command has."""
    weak = replace(machine.choose_machine("emulator"), isolation=Isolation.REDUCED)
    monkeypatch.setattr(machine, "choose_machine", lambda wanted, needs="": weak)
    command = ["similar", str(results), "--lab", LAB, "--out", str(results / "similar.html")]
    assert main(command) == CANNOT_GRADE
    assert "--allow-reduced-isolation" in capsys.readouterr().err and not (results / "similar.html").exists()
    assert main([*command, "--allow-reduced-isolation"]) == 0
    assert "tokens 100%, compiled 100%" in (results / "similar.html").read_text()


@pytest.mark.processes
def test_a_terminal_sees_how_far_the_comparison_is(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["similar", str(results), "--lab", LAB, "--out", str(results / "similar.html"), "--tokens-only"]
    assert main(command) == 0
    assert "7 of 7" not in capsys.readouterr().out  # a file that it is written to has no bar
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(command) == 0
    assert "7 of 7" in capsys.readouterr().out


def test_every_command_writes_what_it_says(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = results / "out"
    assert main(["feedback", str(results), "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {"ada.html", "bob.html", "eve.html"}
    assert main(["stats", str(results), "--json", str(out / "stats.json")]) == 0
    assert json.loads((out / "stats.json").read_text())[0]["graded"] == 3
    assert main(["leaderboard", str(results), "--lab", LAB, "--out", str(out / "board.html")]) == 0
    assert "ada" not in (out / "board.html").read_text()
    assert main(["export", str(results), "--to", "moodle", "--out", str(out / "grades.csv")]) == 0
    assert (out / "grades.csv").read_text().count("\n") == 4
    assert main(["export", str(results), "--to", "gradescope", "--lab", LAB, "--out", str(out / "a.zip")]) == 0
    assert main(["harness", "otter", "--lab", LAB, "--out", str(out / "o.zip")]) == 0
    assert "Written" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("feedback", "--out", "pages"),
        ("stats",),
        ("leaderboard", "--lab", LAB, "--out", "board.html"),
        ("export", "--to", "gradescope", "--lab", LAB, "--out", "a.zip"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_record_with_half_a_report_is_one_sentence(
    results: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(results)
    with Ledger(results / RECORD) as ledger:
        (ada, *_) = ledger.waiting(["ada"], again=True)
        ledger.keep(ada.number, {key: value for key, value in ON_GPU.items() if key != "parts"})
    assert main([arguments[0], str(results), *arguments[1:]]) == 2
    said = capsys.readouterr().err.split()
    assert f"no whole report of {LAB} for 'ada' (Object missing required field `parts`)" in " ".join(said)


def test_late_days_are_taken_off_what_is_exported(results: Path) -> None:
    (results / "late.csv").write_text(f"student,lab,days\nada,{LAB},3\nbob,{LAB},1\n")
    out = results / "grades.csv"
    command = ["export", str(results), "--to", "moodle", "--out", str(out), "--lab", LAB]
    assert main([*command, "--late", str(results / "late.csv"), "--late-days", "1", "--late-penalty", "50"]) == 0
    rows = dict(line.split(",") for line in out.read_text().splitlines())
    assert float(ON_GPU["score"]) > 0 and float(rows["ada"]) == 0 and float(rows["bob"]) == float(ON_GPU["score"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stats", "nowhere"], "There is no record"),
        (["export", "RESULTS", "--to", "moodle", "--out", "x", "--late-days", "2"], "--late-days needs a table"),
        (["export", "RESULTS", "--to", "nbgrader", "--out", "x", "--late", "x.csv"], "--late is for canvas and moodle"),
        (
            ["export", "RESULTS", "--to", "moodle", "--out", "x", "--late", "x.csv", "--late-penalty", "110"],
            "--late-penalty a share from 0 to 100",
        ),
        (["leaderboard", "RESULTS", "--lab", "99_x", "--out", "x.html"], "holds nothing of a lab '99_x'"),
        (["export", "RESULTS", "--to", "gradescope", "--out", "x"], "name it with --lab"),
        (["export", "RESULTS", "--to", "canvas", "--out", "x"], "--gradebook"),
        (["export", "RESULTS", "--to", "nbgrader", "--out", "nowhere.db"], "nbgrader"),
        (["harness", "otter", "--out", "x"], "name it with --lab"),
        (["release", "--out", "RESULTS"], "not an empty folder"),
    ],
)
def test_a_mistake_is_one_sentence(
    results: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    given = [str(results) if word == "RESULTS" else word for word in arguments]
    assert main(given) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
