"""Grading where others keep the processors busy: what is not needed is not begun, and every verdict is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.judge import capture_stage
from autograder.judge.capture_stage import Submission, capture_groups
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.records.machine import choose_machine
from autograder.records.rejection import Rejected
from autograder.records.request import Request
from autograder.records.status import Status
from autograder.spec.lab import find_lab, solutions_folder
from corpus.judge.submission_files import submissions
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.model import HostCall

GROUPS = ([("shown", HostCall("f", ()))], [("hidden", HostCall("f", ()))])


def test_a_fault_of_the_first_capture_costs_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def fails(text: str, name: str, calls: object, *_: object, seconds: int, **__: object) -> bytes:
        begun.append(seconds)
        raise CaptureFailure(CaptureStatus.HOST_ERROR, "It fails.")

    monkeypatch.setattr(capture_stage, "answer_of", fails)
    with pytest.raises(Rejected, match="It fails"):
        capture_groups(Submission("a.py", "", one_by_one=True), GROUPS, "sm_90a")
    assert begun == [30]  # the limit of two side by side


@pytest.mark.processes
@pytest.mark.cold_captures
def test_a_crowded_grade_is_the_grade(tmp_path: Path) -> None:
    lab = find_lab("01_axpy")
    machine = choose_machine("emulator")
    texts = {path.stem: path.read_text() for path in sorted((solutions_folder() / lab.name).glob("submission*.py"))}
    texts |= {path.stem: path.read_text() for path in submissions("wrong", lab.name)[:2]}
    texts |= {"raises": "def axpy(a, x, y, out):\n    return 1 // 0\n", "no Python": "deff axpy()\n"}

    def graded(text: str, crowded: bool) -> tuple:
        (tmp_path / "submission.py").write_text(text)
        with ConfinedWorker(machine, own=False) as worker:
            report = grade(Request(lab, tmp_path / "submission.py", machine, 7, crowded=crowded), worker)
        parts = [(part.part, part.status, part.score, part.message) for part in report.parts]
        return report.status, report.message, report.line, parts, report.profile

    found = {name: graded(text, crowded=True) for name, text in texts.items()}
    assert found == {name: graded(text, crowded=False) for name, text in texts.items()}
    assert {Status.PASSED, Status.HOST_ERROR, Status.SYNTAX_ERROR} <= {one[0] for one in found.values()}
