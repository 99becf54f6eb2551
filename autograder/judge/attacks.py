"""Grades a submission that attacks a naive judge: two capture processes a flag, and the worker says what they show.

The naive judge is run where strangers' Python runs, together with the attack: with the flag's hole open, and with all
holes closed, where the kernel is first called without a judge. Flags are a quarter of them to each part of the grade.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from autograder.judge.capture_stage import Submission, captured
from autograder.judge.runner import Caller, Runner
from autograder.records.outcome import CaseOutcome
from autograder.records.rejection import Rejected
from autograder.records.report import CaseResult, PartResult, Report
from autograder.records.request import OnProgress, Request
from autograder.records.status import Part, Status
from autograder.records.text import clean
from autograder.report import build as report
from autograder.spec.attacks import AttackTask, Flag, drawn_words
from autograder.spec.lab import ScheduleLab
from warplab.plan.capture.attacked import encode_attack
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.protocol import encode_failure
from warplab.plan.capture.records import RecordForm

_SIDE_BY_SIDE = 4  # processes, which start for half of their time
ATTACK_SECONDS = 40.0  # of one process; an attack takes one. There are 24, so that all may take four minutes
MOST_ANSWER = 4 << 20  # bytes; six matrices of a call take a third of a MiB


def grade_attacks(
    request: Request,
    lab: ScheduleLab,
    task: AttackTask,
    submission: Submission,
    worker: Caller,
    seed: int,
    progress: OnProgress,
) -> Report:
    """The report. Raises Rejected, JudgeError."""
    progress("letting it attack the naive judge", 0.0)
    tried = [flag for flag in task.functions if re.search(rf"^def {flag.function}\b", submission.text, re.MULTILINE)]
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        answers = list(
            pool.map(
                lambda one: _run(request, task, submission, seed, *one),
                [(flag, hole) for flag in tried for hole in (flag.function, "")],
            )
        )
    runs = [
        {"flag": flag.function, "opened": opened, "closed": closed}
        for flag, opened, closed in zip(tried, answers[::2], answers[1::2], strict=True)
    ]
    progress("looking at what it did alone", 0.8)
    outcomes = {outcome.case: outcome for outcome in Runner(worker, lab, seed).check_attacks(runs)}
    parts = tuple(_part(lab, part, task.functions, outcomes, submission.text) for part in Part)
    return report.judged_attacks(request, submission.text, parts)


def _run(request: Request, task: AttackTask, submission: Submission, seed: int, flag: Flag, hole: str) -> bytes:
    """What one capture process says; one that came to no answer is a failure of this flag, and not of the others."""
    alone = () if hole else flag.drawn_calls(seed)
    naive_seed = drawn_words(seed, "the naive judge's seed")[0]
    content = encode_attack(task.judge, hole, naive_seed, alone)
    group = [(flag.function, flag.host_call(flag.modelled))]
    machine = request.machine
    where = machine.architecture, machine.isolation
    try:
        said = captured(submission, group, False, *where, RecordForm.ATTACKS, [content], ATTACK_SECONDS).content
    except Rejected as rejection:
        return encode_failure(CaptureFailure(CaptureStatus.CRASHED, str(rejection)))
    if len(said) > MOST_ANSWER:
        words = f"The process of '{flag.function}' answers with more than {MOST_ANSWER >> 20} MiB."
        return encode_failure(CaptureFailure(CaptureStatus.RESOURCES, words))
    return said


def _part(
    lab: ScheduleLab, part: Part, flags: Sequence[Flag], outcomes: Mapping[str, CaseOutcome], text: str
) -> PartResult:
    """One part of the grade: its flags have equal shares of its points."""
    mine = [flag for flag in flags if flag.part == part]
    cases = tuple(_case(flag, outcomes.get(flag.function), text) for flag in mine)
    captured = [case.name for case in cases if case.status is Status.PASSED]
    most = getattr(lab.points, part.value)
    score = round(most * len(captured) / len(mine), 1)
    feedback = lab.feedback.get(part, "")
    if len(captured) == len(mine):
        words = f"Captured: {', '.join(case.message for case in cases)}."
        return PartResult(part, Status.PASSED, score, most, words, feedback, cases)
    missed = next(case for case in cases if case.status is not Status.PASSED)
    words = f"{len(captured)} of {len(mine)} flags captured. Not {missed.name}: {missed.message}"
    return PartResult(part, Status.PARTIAL if captured else missed.status, score, most, words, feedback, cases)


def _case(flag: Flag, outcome: CaseOutcome | None, text: str) -> CaseResult:
    if outcome is None:
        return CaseResult(flag.function, Status.WRONG_ANSWER, "Nothing is known of it.")
    if outcome.status is not Status.PASSED:
        return CaseResult(flag.function, Status.WRONG_ANSWER, clean(outcome.message))
    token = hashlib.sha256(f"{flag.function}\n{text}".encode("utf-8", "replace")).hexdigest()[:8]
    return CaseResult(flag.function, Status.PASSED, f"flag{{{flag.function}-{token}}}")
