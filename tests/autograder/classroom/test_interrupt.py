"""Ctrl-C in a terminal, where it reaches every process of the command, ends a class in one line."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import sys
import time
from pathlib import Path

import pytest

from autograder.classroom.command import STOPPED
from autograder.classroom.ledger import RECORD, Ledger
from autograder.spec.lab import CHECKOUT, solutions_folder

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal of its own")]

LAB = "01_axpy"
LONGEST = 120.0  # seconds


def pressed(command: list[str], after: bytes, wait: float, times: int) -> tuple[str, int]:
    """What a command says on a terminal once Ctrl-C was pressed there, so many times, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(CHECKOUT)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])
        os.execv(sys.executable, [sys.executable, *command])
    said, begun, left, due = b"", 0, times, float("inf")
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                said += os.read(terminal, 65536)
            except OSError:  # the last process that had it is gone
                break
        if due == float("inf") and after in said:
            due = time.monotonic() + wait
        if left and time.monotonic() >= due:
            begun = len(said) if left == times else begun
            os.write(terminal, b"\x03")
            left, due = left - 1, time.monotonic() + 0.3
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\^C", b"", said[begun:]).decode(errors="replace")
    return plain, os.waitstatus_to_exitcode(status)


# Long before the last of so many has a grade, however fast the machine is.
STUDENTS = [f"student{number}" for number in range(24)]


@pytest.mark.parametrize(
    ("after", "wait", "times"),
    [(b"to grade.", 0.2, 1), (b"to grade.", 0.5, 3), (b" 1/24", 0.0, 1)],
    ids=["at once", "again", "while it grades"],
)
def test_ctrl_c_is_one_line(tmp_path: Path, after: bytes, wait: float, times: int) -> None:
    """While processes start, while they grade, and pressed again while they end."""
    for student in STUDENTS:
        (tmp_path / "class" / student).mkdir(parents=True)
        shutil.copy(solutions_folder() / LAB / "submission.py", tmp_path / "class" / student / "submission.py")
    command = ["-m", "autograder", "class", str(tmp_path / "class"), "--out", str(tmp_path / "out"), "--lab", LAB]
    said, code = pressed([*command, "--device", "emulator", "--processes", "2"], after, wait, times)
    lines = [line for line in re.split(r"[\r\n]+", said) if line.strip() and not line.startswith("grading")]
    assert lines == [f"autograder: {STOPPED}"] and code == 3, said
    with Ledger(tmp_path / "out" / RECORD) as ledger:
        assert len(list(ledger.lines())) == len(STUDENTS)
