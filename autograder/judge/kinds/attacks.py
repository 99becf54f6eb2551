"""Labs that ask for attacks on a naive judge: two capture processes a flag, and the worker says what they show.

The naive judge is run where strangers' Python runs, together with the attack: with the flag's hole open, and with all
holes closed, where what its calls left is compared with the truth. Each part of the grade has a quarter of the flags.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from autograder.judge.capture_stage import captured
from autograder.judge.kinds.lab_kind import Grading, LabKind
from autograder.judge.runner import Runner
from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Checked
from autograder.records.rejection import Rejected
from autograder.records.report import CaseResult, PartResult, Report
from autograder.records.status import Part, Status
from autograder.records.text import clean
from autograder.report import build
from autograder.report.advice import next_step_of_attacks
from autograder.spec.attacks import AttackTask, Flag, naive_seed
from autograder.spec.lab import LabOf
from warplab.interrupts import ends_threads
from warplab.plan.capture.attacked import encode_attack
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.protocol import encode_failure
from warplab.plan.capture.records import RecordForm

_CHECK = "autograder.worker.attack_stage:check"
_SIDE_BY_SIDE = 2  # processes, which share the memory that a submission has
ATTACK_SECONDS = 40.0  # of one process; an attack takes one. There are 24, so that all may take four minutes
MOST_ANSWER = 4 << 20  # bytes; six matrices of a call take a third of a MiB


Outcomes = Mapping[str, CaseOutcome]  # by the flag's function


class Attacks(LabKind[AttackTask, Outcomes]):
    """Kernels that a naive judge passes though they are none."""

    task = AttackTask

    def run(self, grading: Grading[AttackTask]) -> Outcomes:
        """Two capture processes for each flag that the file defines, and what the worker says of them."""
        grading.progress("letting it attack the naive judge", 0.0)
        flags, text = grading.lab.task.functions, grading.submission.text
        tried = [flag for flag in flags if re.search(rf"^def {flag.function}\b", text, re.MULTILINE)]
        both = [(flag, hole) for flag in tried for hole in (flag.function, "")]
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool, ends_threads():
            answers = list(pool.map(lambda one: _run(grading, *one), both))
        runs = [
            {"flag": flag.function, "opened": opened, "closed": closed}
            for flag, opened, closed in zip(tried, answers[::2], answers[1::2], strict=True)
        ]
        grading.progress("looking at what it did alone", 0.8)
        return {outcome.case: outcome for outcome in check(grading.runner, runs)}

    def judge(self, grading: Grading[AttackTask], evidence: Outcomes) -> tuple[PartResult, ...]:
        """A quarter of the flags to each part."""
        return tuple(_part(grading.lab, part, evidence, grading.submission.text) for part in Part)

    def report(self, grading: Grading[AttackTask], evidence: Outcomes, parts: tuple[PartResult, ...]) -> Report:
        """The report, which names the next flag to try."""
        step = next_step_of_attacks(parts)
        return build.judged(grading.request, grading.submission.text, parts, language="attacks", next_step=step)


def check(runner: Runner, runs: Sequence[Mapping[str, Any]]) -> list[CaseOutcome]:
    """The outcome of every flag. Raises Rejected, JudgeError."""
    return runner.ask(_CHECK, "looking at its attacks", {"runs": list(runs)}, Checked).outcomes


def _run(grading: Grading[AttackTask], flag: Flag, hole: str) -> bytes:
    """What one capture process says; one that came to no answer is a failure of this flag, and not of the others."""
    content = encode_attack(grading.lab.task.judge, hole, naive_seed(grading.seed), flag.blank and not hole)
    group = [(flag.function, flag.host_call(flag.modelled))]
    machine = grading.request.machine
    where = machine.architecture, machine.isolation, RecordForm.ATTACKS, [content], ATTACK_SECONDS
    try:
        said = captured(grading.submission, group, False, *where, side_by_side=_SIDE_BY_SIDE).content
    except Rejected as rejection:
        return encode_failure(CaptureFailure(CaptureStatus.CRASHED, str(rejection)))
    if len(said) > MOST_ANSWER:
        words = f"The process of '{flag.function}' answers with more than {MOST_ANSWER >> 20} MiB."
        return encode_failure(CaptureFailure(CaptureStatus.RESOURCES, words))
    return said


def _part(lab: LabOf[AttackTask], part: Part, outcomes: Outcomes, text: str) -> PartResult:
    """One part of the grade: its flags have equal shares of its points."""
    mine = [flag for flag in lab.task.functions if flag.part == part]
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
