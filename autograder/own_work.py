"""Captures and assembles a submission in one go, in this process: for what whoever runs this has written or trusts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.judge.capture_stage import capture_cases, read_submission
from autograder.spec.lab import Lab
from autograder.spec.task import Case
from autograder.worker.prepare_stage import Captured, prepare_here
from warplab.sandbox.isolation import Isolation


def capture_submission(
    lab: Lab,
    source: Path,
    cases: Sequence[Case],
    seed: int,
    architecture: str,
    isolation: Isolation | None = None,
) -> Captured:
    """Capture `source` for every case and assemble it for `architecture`, for notebooks, benchmarks and tests.

    Raises Rejected.
    """
    submission = read_submission(source)
    answers = capture_cases(lab, submission, cases, seed, architecture, isolation)
    return prepare_here(lab, cases, submission.name, submission.text, answers, seed, architecture)
