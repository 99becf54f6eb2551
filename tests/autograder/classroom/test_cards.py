"""Grades of one lab from several cards, and the time that a student may use."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.classroom import clusters
from autograder.classroom.entries import ClassError
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.ledger import RECORD, Ledger, Waiting
from autograder.classroom.policy import read_policy
from autograder.classroom.run import Way, run_class
from autograder.cli import main
from autograder.judge.turns import Turns
from tests.autograder.platforms.reports import BROKEN, ON_GPU

LAB = "01_axpy"
H100, A100 = ("NVIDIA H100 80GB HBM3, driver 580.1", "NVIDIA A100-SXM4-40GB, driver 580.1")


def report(hardware: str, **more: object) -> dict:
    return {**ON_GPU, "lab": LAB, "hardware": hardware, "device": "gpu", **more}


def run(
    monkeypatch: pytest.MonkeyPatch, ledger: Ledger, reports: Sequence[dict], mixed: bool = False, again: bool = False
) -> list[str]:
    """What is said while a class is graded, where the next grades are `reports`."""
    left = list(reports)

    def submit(*_: object, **__: object) -> Future:
        future: Future = Future()
        future.release = lambda: None  # type: ignore[attr-defined]
        future.set_result(left.pop(0))
        return future

    @contextmanager
    def local(count: int):
        yield SimpleNamespace(client=SimpleNamespace(submit=submit), gone=lambda: "")

    monkeypatch.setattr(clusters, "local", local)
    said: list[str] = []

    def on_grade(one: Waiting, status: str) -> None:
        said.append(f"{one.student}: {status}")

    run_class(ledger, ledger.waiting(again=again), Way(1, "gpu", mixed=mixed), on_grade)
    return said


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger(tmp_path / RECORD) as ledger:
        for name in ("ada", "bob", "eve"):  # of one download the order is drawn
            ledger.take_in([HandedIn(name, LAB, "submission.py", name.encode())])
        yield ledger


def test_a_grade_from_another_card_is_not_kept(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """As jobs of a cluster give it; a fault of the judge says nothing of a card, and a new driver is no other card."""
    newer = H100.replace("580.1", "590.2")
    said = run(monkeypatch, ledger, [{**BROKEN, "hardware": A100, "device": "gpu"}, report(newer), report(A100)])
    assert said[2] == (
        f"eve: not graded ({LAB} has grades from NVIDIA H100 80GB HBM3, and this is NVIDIA A100-SXM4-40GB)"
    )
    assert [one.student for one in ledger.waiting()] == ["eve"]
    said = run(monkeypatch, ledger, [report(H100)])
    assert not ledger.waiting() and not any("graded on" in line.note for line in ledger.lines())


def test_a_class_is_refused_before_anything_is_graded_on_another_card(tmp_path: Path, capsys) -> None:
    (tmp_path / "class").mkdir()
    for name in ("ada", "bob"):
        (tmp_path / "class" / f"{name}.py").write_text("x = 1\n")
    with Ledger(tmp_path / "out" / RECORD) as ledger:
        ledger.take_in([HandedIn("ada", LAB, "ada.py", b"x = 1\n")])
        ledger.keep(ledger.waiting()[0].number, report(H100))
    command = ["class", str(tmp_path / "class"), "--out", str(tmp_path / "out"), "--lab", LAB, "--device", "emulator"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "has grades from NVIDIA H100 80GB HBM3, and this is the emulator" in said and "--mixed-cards" in said


@pytest.mark.parametrize("other", [report(A100), {**ON_GPU, "device": "emulator", "hardware": "emulator on x86_64"}])
def test_mixed_cards_are_in_the_record_where_they_are_accepted(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, other: dict
) -> None:
    run(monkeypatch, ledger, [report(H100), report(H100), other], mixed=True)
    lines = list(ledger.lines())
    assert all("other grades of this lab are from" in line.note for line in lines)
    assert "graded on NVIDIA H100 80GB HBM3;" in lines[0].note


def test_all_of_a_lab_may_be_graded_again_on_another_card(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, ledger, [report(H100)] * 3)
    said = run(monkeypatch, ledger, [report(A100)] * 3, again=True)
    assert len(said) == 3 and not any("not graded" in words for words in said)
    assert ledger.cards() == {LAB: {"NVIDIA A100-SXM4-40GB"}}


def test_a_quota_ends_what_a_student_may_use(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt that begins before the quota is used up counts; others are not held up."""
    ledger.keep_setting("policy", "[quota]\ngpu_seconds = 10\n", "policy set")
    run(monkeypatch, ledger, [report(H100, gpu_seconds=6.0)] * 3)
    for content in (b"2", b"3"):
        ledger.take_in([HandedIn("ada", LAB, "submission.py", content)])
    said = run(monkeypatch, ledger, [report(H100, gpu_seconds=6.0)])
    assert len(said) == 2 and "the 10 s on a GPU that a student has are used up" in said[1]
    (problem,) = {line.problem for line in ledger.attempts()} - {""}
    assert problem in said[1]
    assert not ledger.waiting() and ledger.used()["ada"].gpu_seconds == 12
    ledger.keep_setting("policy", "[quota]\ngpu_seconds = 100\n", "policy set")
    assert [one.content for one in ledger.waiting()] == [b"3"]


def test_a_quota_of_nothing_is_refused() -> None:
    with pytest.raises(ClassError, match=r"in \[quota\], gpu_seconds and seconds are above 0"):
        read_policy("[quota]\nseconds = 0\n", "policy.toml")


def test_turns_count_what_they_last_and_not_the_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((1.0, 3.5, 10.0, 10.25))
    monkeypatch.setattr("autograder.judge.turns.time.monotonic", lambda: next(clock))
    turns = Turns(tmp_path)
    with turns.computing():
        pass
    with turns.measuring():
        pass
    assert turns.seconds == 2.75
