"""The page of a full grade answers what the handout had the student predict; another one does not give it away."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.records.machine import Machine
from autograder.records.report import PartResult, Report
from autograder.records.request import Request
from autograder.records.status import Executor, Part, Status
from autograder.report.build import judged
from autograder.report.html_page import page
from autograder.report.words import without_marks
from autograder.spec.lab import find_any, known_labs
from warplab.sandbox.isolation import Isolation

MACHINE = Machine(Executor.EMULATOR, "sm_90a", "emulator", Isolation.BUBBLEWRAP)


def graded(lab: str, points: float) -> Report:
    parts = tuple(PartResult(part, Status.PASSED if points == 10 else Status.PARTIAL, points, 10) for part in Part)
    return judged(Request(find_any(lab), Path("submission.py"), MACHINE), "", parts)


@pytest.mark.parametrize("lab", known_labs())
def test_at_full_marks_alone(lab: str) -> None:
    answers = find_any(lab).predictions
    full, less = graded(lab, 10), graded(lab, 9)
    assert full.predictions == answers and less.predictions == ()
    shown = page([full])
    assert "What you predicted, answered" in shown and "What you predicted" not in page([less])
    assert all(without_marks(answer).split(":")[0].replace("'", "&#39;") in shown for answer in answers)
