"""A grade says what kept the submission from the machine, and a class is not graded where nothing did."""

from __future__ import annotations

import io
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

from autograder import cli, doctor
from autograder.doctor import State
from autograder.judge.pipeline import grade
from autograder.records import machine
from autograder.records.machine import Machine, ReducedIsolation, choose_machine, require_isolation
from autograder.records.report import Report
from autograder.report import html_page, json_file, terminal
from tests.autograder.handmade import EMULATOR, make_lab, request
from tests.autograder.numpy_worker import GOOD, SEED, NumPyWorker
from tests.autograder.report.example_reports import report
from warplab.errors import DeviceError
from warplab.plan.capture import escape_probe
from warplab.plan.capture.escape_probe import Proof
from warplab.sandbox.isolation import Isolation

pytestmark = pytest.mark.cold_captures

WORDS = "Reduced isolation: the submission could read this machine's files, with all that solves labs."


def shown(graded: Report) -> str:
    console = Console(file=io.StringIO(), width=200)
    terminal.show(graded, console)
    terminal.show_briefly(graded, console)
    return console.file.getvalue()


def test_reports_say_that_isolation_was_reduced() -> None:
    reduced, kept = report(isolation=Isolation.REDUCED), report(isolation=Isolation.BUBBLEWRAP)
    assert shown(reduced).count(WORDS) == 1 and "Reduced" not in shown(kept)
    assert shown(kept).count("bubblewrap") == 2  # in the whole report and in the brief one
    assert WORDS in unescape(html_page.page([reduced]))
    page = html_page.page([kept])
    assert "Reduced" not in page and "isolation: bubblewrap" in page
    assert reduced.to_json()["isolation"] == json_file.grade_line(reduced)["isolation"] == "reduced isolation"
    assert kept.to_json()["isolation"] == "bubblewrap"


@pytest.mark.parametrize("source", [GOOD, "def twice(:"], ids=["graded", "rejected"])
def test_a_grade_is_made_in_the_isolation_that_it_names(tmp_path: Path, source: str) -> None:
    lab = make_lab(tmp_path)
    (lab.folder / "submission.py").write_text(source)
    weak = replace(EMULATOR, isolation=Isolation.REDUCED)
    assert grade(request(lab, weak, seed=SEED), NumPyWorker(lab)).isolation is Isolation.REDUCED
    assert grade(request(lab, EMULATOR, seed=SEED), NumPyWorker(lab)).isolation is escape_probe.strongest()


def test_the_host_code_runs_in_the_isolation_of_the_machine(tmp_path: Path) -> None:
    """What a report says is what was done: a file of the judge is open only where it says so."""
    lab = make_lab(tmp_path)
    (tmp_path / "secret").write_text("1")
    spy = f"open({str(tmp_path / 'secret')!r})\n" + GOOD
    (lab.folder / "submission.py").write_text(spy)
    weak = replace(EMULATOR, isolation=Isolation.REDUCED)
    assert grade(request(lab, weak, seed=SEED), NumPyWorker(lab)).full_marks
    if escape_probe.strongest() is Isolation.REDUCED:
        pytest.skip("this machine has no stronger isolation; `autograder doctor` says why")
    assert grade(request(lab, EMULATOR, seed=SEED), NumPyWorker(lab)).score == 0


def test_others_work_needs_isolation_or_a_word_that_it_does_not() -> None:
    source = Path("downloads/alice.py")
    with pytest.raises(ReducedIsolation, match="alice.py .* --allow-reduced-isolation") as refused:
        require_isolation(Isolation.REDUCED, source)
    assert isinstance(refused.value, DeviceError)  # the command then ends with "this machine cannot grade"
    require_isolation(Isolation.REDUCED, source, allow_reduced=True)
    for isolation in (Isolation.BUBBLEWRAP, Isolation.LANDLOCK):
        require_isolation(isolation, source)


def test_the_command_refuses_others_work_without_isolation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The flag that the refusal names is one that the command has; one's own work needs no flag."""
    lab = make_lab(tmp_path)
    (lab.folder / "submission.py").write_text("def twice(:")
    other = tmp_path / "downloads" / "alice.py"
    other.parent.mkdir()
    other.write_text("def twice(:")
    monkeypatch.setenv("WARPLAB_LABS", str(lab.folder.parent))
    monkeypatch.setattr(
        cli, "choose_machine", lambda wanted, needs="", own=False: replace(EMULATOR, isolation=Isolation.REDUCED)
    )
    assert cli.main(["check", str(lab.folder / "submission.py")]) == cli.NOT_FULL_MARKS
    capsys.readouterr()
    arguments = ["grade", str(other), "--lab", lab.name]
    assert cli.main(arguments) == cli.CANNOT_GRADE
    assert "--allow-reduced-isolation" in capsys.readouterr().err
    assert cli.main([*arguments, "--allow-reduced-isolation"]) == cli.NOT_FULL_MARKS


def test_a_machine_is_given_the_strongest_isolation_that_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = {
        Isolation.BUBBLEWRAP: Proof(Isolation.BUBBLEWRAP, fault="no namespaces"),
        Isolation.LANDLOCK: Proof(Isolation.LANDLOCK),
    }
    monkeypatch.setattr(escape_probe, "prove", lambda isolation, *more, **options: proofs[isolation])
    assert escape_probe.find_strongest() is Isolation.LANDLOCK
    proofs[Isolation.LANDLOCK] = Proof(Isolation.LANDLOCK, escapes=("network",))
    assert escape_probe.find_strongest() is Isolation.REDUCED
    monkeypatch.setattr(machine, "strongest", lambda: Isolation.REDUCED)
    assert isinstance(choose_machine("emulator"), Machine)


def test_who_asks_while_another_thread_tries_it_out_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def slowly(isolation: Isolation) -> Proof:
        tried.append(isolation)
        time.sleep(0.2)
        return Proof(isolation)

    monkeypatch.setattr(escape_probe, "prove", slowly)
    monkeypatch.setattr(escape_probe, "_tried_out", cache(escape_probe.find_strongest))
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(escape_probe.strongest) for _ in range(2)]
    assert [one.result() for one in asked] == [Isolation.BUBBLEWRAP] * 2
    assert tried == [Isolation.BUBBLEWRAP]


def test_doctor_says_which_isolation_holds_and_what_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = {
        Isolation.BUBBLEWRAP: Proof(Isolation.BUBBLEWRAP, fault="The capture process did not start (no bwrap)."),
        Isolation.LANDLOCK: Proof(Isolation.LANDLOCK, escapes=("network", "outlive")),
        Isolation.REDUCED: Proof(Isolation.REDUCED, escapes=("read", "write")),
    }
    monkeypatch.setattr(doctor, "prove", lambda isolation, *more, **options: proofs[isolation])
    check = doctor._isolation()
    assert check.state is State.LIMITED and "bubblewrap" in check.remedy
    assert "no bwrap" in check.detail
    assert "landlock: a submission could open a connection, run on after the judge has ended it" in check.detail
    proofs[Isolation.LANDLOCK] = Proof(Isolation.LANDLOCK)
    check = doctor._isolation()
    assert check.state is State.GOOD
    assert check.detail.startswith("landlock: none of 9 attempts to break out succeeded")
