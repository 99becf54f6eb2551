"""A class, graded for real: everybody gets what they get alone, whoever else is in it."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest

from autograder.classroom.command import TABLE
from autograder.records.stored import report_of
from autograder.spec.lab import CHECKOUT, known_labs
from benchmarks import known_class
from benchmarks.known_class import Kind
from corpus.judge.entries import cases

LAB = "01_axpy"
STARTER = CHECKOUT / "labs" / LAB / "submission.py"
EXPLOITS = {f"{case.lab}/{case.name}": case for case in cases() if case.corpus == "exploit"}
# Those that go for the machine that others are graded on, or for what is kept of others.
SAMPLE = ("01_axpy/cache_by_pointer", "01_axpy/fork_bomb", "01_axpy/escapes")


def grade(folder: Path, students: dict[str, Kind]) -> str:
    known_class.hand_in(folder / "class", students)
    command = known_class.command(folder / "class", folder / "out", "--processes", "2")
    done = subprocess.run(command, cwd=CHECKOUT, env=known_class.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_record_and_the_table_hold_the_class(tmp_path: Path) -> None:
    right = known_class.references(LAB)[0]
    said = grade(tmp_path, {"ada": right, "bob": known_class.kind("starter", LAB, STARTER)})
    lines = known_class.lines(tmp_path / "out")
    assert (lines["ada"].status, lines["ada"].score, lines["ada"].max_score) == ("passed", 70, 70)
    assert (lines["bob"].status, lines["bob"].score) == ("wrong answer", 0)
    assert "2 handed in, 2 of them new or changed; 2 to grade." in said
    assert (tmp_path / "out" / TABLE).read_text().count("\n") == 3
    assert not lines["ada"].report.get("source") and "seed" not in str(lines["ada"].report)


def hostile(folder: Path, exploits: Collection[str], labs: Collection[str]) -> None:
    """Grade honest students of the labs among exploits: each gets what they get alone, and what the corpus says."""
    honest = {f"honest_{lab}_{number}": one for lab in labs for number, one in enumerate(known_class.references(lab))}
    cheating = {
        name.replace("/", "_"): known_class.kind("exploit", EXPLOITS[name].lab, EXPLOITS[name].source(folder))
        for name in exploits
    }
    grade(folder, honest | cheating)
    assert known_class.differences(honest, folder / "out") == []
    lines = known_class.lines(folder / "out")
    assert all(report_of(lines[student].report).full_marks for student in honest)
    wrong = {name: EXPLOITS[name].object(report_of(lines[name.replace("/", "_")].report)) for name in exploits}
    assert not {name: objections for name, objections in wrong.items() if objections}


def test_honest_students_among_exploits_get_what_they_get_alone(tmp_path: Path) -> None:
    hostile(tmp_path, SAMPLE, [LAB])


@pytest.mark.instructor
def test_honest_students_among_all_exploits_get_what_they_get_alone(tmp_path: Path) -> None:
    hostile(tmp_path, list(EXPLOITS), known_labs())
