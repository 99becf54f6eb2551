"""Captures and assembles a submission in this process and makes its microscope page.

Only for submissions that the caller wrote or trusts: nothing is sandboxed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.judge.capture_stage import capture_cases, read_submission
from autograder.spec.lab import Lab
from autograder.spec.task import Case
from autograder.worker.microscope_stage import page_of
from autograder.worker.prepare_stage import Captured, prepare_here
from warplab.errors import WarplabError
from warplab.plan.capture.several_process import CaptureProcess
from warplab.sandbox.isolation import Isolation


def capture_submission(
    lab: Lab,
    source: Path,
    cases: Sequence[Case],
    seed: int,
    architecture: str,
    isolation: Isolation | None = None,
    captured_in: CaptureProcess | None = None,
) -> Captured:
    """Capture `source` for every case and assemble it for `architecture`, for notebooks, benchmarks and tests.

    `captured_in` is a process that captures are forked from, one after the other. Raises Rejected.
    """
    submission = read_submission(source, captured_in=captured_in)
    answers = capture_cases(lab, submission, cases, seed, architecture, isolation)
    return prepare_here(lab, cases, submission.name, submission.text, answers, seed, architecture)


def save_microscope(lab: Lab, source: Path, seed: int, page: Path) -> bool:
    """Write the microscope's page of the profile case's largest launch; whether that could be done."""
    drawn = lab.drawn(seed)
    case = drawn.task.profile
    try:
        captured = capture_submission(drawn, source, [case], seed, lab.emulated)
        page_of(captured.plans[case.name], drawn, seed).save(page)
    except (WarplabError, OSError, ValueError):
        return False
    return True
