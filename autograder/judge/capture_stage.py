"""Captures a submission for all cases of a lab, hidden ones in a process of their own.

What comes back are a stranger's bytes, which the judge does not look into: `prepare_stage` does, in a worker's sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from autograder.judge.allowance import Allowance
from autograder.records.prepared import Answer
from autograder.records.rejection import rejected, without_details
from autograder.spec.inputs import host_calls
from autograder.spec.lab import Lab
from autograder.spec.task import Case
from warplab.interrupts import ends_threads
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.records import RecordForm
from warplab.plan.capture.several_process import CaptureProcess
from warplab.plan.capture.source_file import read_source
from warplab.plan.capture.submission import CAPTURE_SECONDS, answer_of
from warplab.plan.model import HostCall
from warplab.sandbox.isolation import Isolation


@dataclass(frozen=True)
class Submission:
    """A submission's text, read once, what its file is called, and what its captures may still take. `one_by_one`: a
    capture begins when the one before has come to an answer. `captured_in` is a process for them that goes on after
    this submission; without it each has a process of its own, or if they come one by one, the submission."""

    name: str
    text: str
    allowance: Allowance = field(default_factory=Allowance, compare=False, repr=False)
    one_by_one: bool = False
    captured_in: CaptureProcess | None = field(default=None, compare=False, repr=False)


def read_submission(path: Path, one_by_one: bool = False, captured_in: CaptureProcess | None = None) -> Submission:
    """The submission in a file. Raises Rejected if that is no text file of reasonable size."""
    try:
        return Submission(path.name, read_source(path), one_by_one=one_by_one, captured_in=captured_in)
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
    groups = []
    for hidden in (False, True):
        group = [case for case in cases if case.hidden is hidden]
        names = [case.name for case in group]
        groups.append(list(zip(names, host_calls(lab.task, group, seed), strict=True)))
    return capture_groups(submission, groups, architecture, isolation)


Group = Sequence[tuple[str, HostCall]]  # the names of cases and their calls


def capture_groups(
    submission: Submission,
    groups: Sequence[Group],
    architecture: str,
    isolation: Isolation | None = None,
    records: RecordForm | None = None,
    contents: Mapping[str, str] | None = None,
) -> list[Answer]:
    """The answers of the capture processes of two groups of cases: those that are shown, and the hidden ones.

    `records`: what the functions return is asked for, in that form, not what they launch. `contents` has by case what
    is no number among a call's arguments, where a form has that. Raises Rejected.
    """
    taken = [(group, hidden) for group, hidden in zip(groups, (False, True), strict=True) if group]

    def of_group(one: tuple[Group, bool], process: CaptureProcess | None = None) -> Answer:
        tables = [contents[name] for name, _ in one[0]] if contents else ()
        return captured(
            submission, *one, architecture, isolation, records, tables, side_by_side=len(taken), process=process
        )

    # One by one with the limits of two side by side, or a verdict would depend on it
    if submission.captured_in is not None:
        return [of_group(one, submission.captured_in) for one in taken]
    if submission.one_by_one:
        with CaptureProcess() as process:
            return [of_group(one, process) for one in taken]
    # Side by side: each waits for compilers that use one core. The first group's fault is told before the second's.
    with ThreadPoolExecutor(len(taken) or 1) as pool, ends_threads():
        return list(pool.map(of_group, taken))


def captured(
    submission: Submission,
    group: Group,
    hidden: bool,
    architecture: str,
    isolation: Isolation | None,
    records: RecordForm | None,
    contents: Sequence[str] = (),
    seconds: float | None = None,
    *,
    side_by_side: int,
    process: CaptureProcess | None = None,
) -> Answer:
    """The answer of one capture process, of `side_by_side` that run at once, for cases that are all hidden, or none of
    them; it has CAPTURE_SECONDS unless `seconds` says otherwise. Raises Rejected."""
    allowed = submission.allowance.take(side_by_side)
    spent: list[float] = []
    try:
        content = answer_of(
            submission.text,
            submission.name,
            [call for _, call in group],
            (architecture,),
            timeout=CAPTURE_SECONDS if seconds is None else seconds,
            isolation=isolation,
            records=records,
            contents=contents,
            seconds=allowed,
            spend=spent.append,
            process=process,
        )
    except CaptureFailure as failure:
        if failure.status is CaptureStatus.TIMEOUT:
            spent.append(allowed)  # it was ended, and nobody knows what it took
        rejection = rejected(failure)
        raise (without_details(rejection) if hidden else rejection) from failure
    finally:
        submission.allowance.give_back(allowed - sum(spent))
    return Answer(tuple(name for name, _ in group), content, hidden)
