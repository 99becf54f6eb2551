"""Captures a submission for all cases of a lab, hidden ones in a process of their own.

What comes back are a stranger's bytes, which the judge does not look into: `prepare_stage` does, in a worker's sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from autograder.records.prepared import Answer
from autograder.records.rejection import rejected, without_details
from autograder.spec.inputs import host_calls
from autograder.spec.lab import Lab
from autograder.spec.task import Case
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.source_file import read_source
from warplab.plan.capture.submission import answer_of
from warplab.sandbox.isolation import Isolation

CAPTURE_SECONDS = 60.0  # a reference in Numba takes 8 s of a processor, and three times that on a busy machine


@dataclass(frozen=True)
class Submission:
    """A submission's text, read once, and what its file is called."""

    name: str
    text: str


def read_submission(path: Path) -> Submission:
    """The submission in a file. Raises Rejected if that is no text file of reasonable size."""
    try:
        return Submission(path.name, read_source(path))
    except CaptureFailure as failure:
        raise rejected(failure) from failure


def capture_cases(
    lab: Lab,
    submission: Submission,
    cases: Sequence[Case],
    seed: int,
    architecture: str,
    isolation: Isolation | None = None,
) -> list[Answer]:
    """Capture for every case. Raises Rejected if a capture process came to no answer.

    `isolation` is the strongest that this machine has, unless one is named.
    """
    groups = [group for hidden in (False, True) if (group := [case for case in cases if case.hidden is hidden])]

    def captured(group: Sequence[Case]) -> Answer:
        return _captured(lab, submission, group, seed, architecture, isolation)

    # Side by side: each waits for compilers that use one core. The first group's fault is told before the second's.
    with ThreadPoolExecutor(len(groups) or 1) as pool:
        return list(pool.map(captured, groups))


def _captured(
    lab: Lab, submission: Submission, group: Sequence[Case], seed: int, architecture: str, isolation: Isolation | None
) -> Answer:
    """The answer of one capture process for cases that are all hidden, or none of them."""
    hidden = group[0].hidden
    try:
        content = answer_of(
            submission.text,
            submission.name,
            host_calls(lab.task, group, seed),
            (architecture,),
            timeout=CAPTURE_SECONDS,
            isolation=isolation,
        )
    except CaptureFailure as failure:
        rejection = rejected(failure)
        raise (without_details(rejection) if hidden else rejection) from failure
    return Answer(tuple(case.name for case in group), content, hidden)
