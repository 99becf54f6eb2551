"""A small class, graded for real: as one by one, and through processes that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from autograder.classroom.command import RECORD, TABLE
from autograder.classroom.ledger import Ledger, Line
from autograder.spec.lab import CHECKOUT

EXPLOITS = CHECKOUT / "corpus" / "judge" / "submissions" / "01_axpy" / "exploit"
CLASS = {
    "ada": CHECKOUT / "solutions" / "01_axpy" / "submission.py",
    "bob": CHECKOUT / "labs" / "01_axpy" / "submission.py",
    "eve": EXPLOITS / "cache_by_pointer.py",
}


def hand_in(folder: Path) -> None:
    for student, source in CLASS.items():
        (folder / student).mkdir(parents=True)
        (folder / student / "submission.py").write_bytes(source.read_bytes())


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "autograder", "class", str(folder / "class"), "--out", str(folder / "out")]
    command += ["--lab", "01_axpy", "--device", "emulator", "--processes", "2"]
    return subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def graded(folder: Path) -> dict[str, Line]:
    with Ledger(folder / "out" / RECORD) as ledger:
        return {line.student: line for line in ledger.lines()}


def test_a_class_gets_what_each_gets_alone(tmp_path: Path) -> None:
    hand_in(tmp_path / "class")
    run = start(tmp_path)
    said, _ = run.communicate()
    assert run.returncode == 0, said
    lines = graded(tmp_path)
    assert (lines["ada"].status, lines["ada"].score, lines["ada"].max_score) == ("passed", 70, 70)
    assert lines["bob"].score == lines["eve"].score == 0
    assert "3 handed in, 3 of them new or changed; 3 to grade." in said
    assert (tmp_path / "out" / TABLE).read_text().count("\n") == 4
    assert not lines["ada"].report.get("source") and "seed" not in str(lines["ada"].report)


def test_killed_runs_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    hand_in(tmp_path / "class")
    draw = random.Random(1)
    for _ in range(3):
        run = start(tmp_path)
        time.sleep(draw.uniform(1.0, 6.0))  # wherever it is by then, on whatever machine
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    before = {student: line.finished for student, line in graded(tmp_path).items() if line.status}
    run = start(tmp_path)
    said, _ = run.communicate()
    assert run.returncode == 0, said
    lines = graded(tmp_path)
    assert {student: line.score for student, line in lines.items()} == {"ada": 70, "bob": 0, "eve": 0}
    assert {student: lines[student].finished for student in before} == before  # nothing was graded twice
