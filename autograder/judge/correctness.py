"""Correctness: the part of the grade made from the outcomes of all cases, which `worker/judge_case.py` gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autograder.records.outcome import CaseOutcome
from autograder.records.report import CaseResult, PartResult
from autograder.records.status import UNFINISHED, Part, Status
from autograder.records.text import clean
from autograder.spec.lab import Lab
from autograder.spec.task import Case


def located(on_gpu: Sequence[CaseOutcome], emulated: Sequence[CaseOutcome]) -> list[CaseOutcome]:
    """The GPU's outcomes, explained by the emulator's where both found the same first wrong element in the same case.

    A case that is right on the GPU and wrong on the emulator is wrong: its result depends on the order of threads.
    """
    known = {outcome.case: outcome for outcome in emulated if outcome.status is Status.WRONG_ANSWER}
    explained = []
    for outcome in on_gpu:
        other = known.get(outcome.case)
        if other is not None and outcome.status is Status.PASSED:
            words = f"Right on the GPU, but not on the emulator, where threads run in another order: {other.message}"
            outcome = replace(other, message=words)
        elif other is not None and outcome.status is Status.WRONG_ANSWER and _place(other) == _place(outcome):
            outcome = replace(outcome, message=other.message, cause=other.cause, first_wrong=other.first_wrong)
        explained.append(outcome)
    return explained


def _place(outcome: CaseOutcome) -> tuple[str, tuple[int, ...]] | None:
    first = outcome.first_wrong
    return (first.output, first.index) if first else None


def correctness_part(lab: Lab, outcomes: Sequence[CaseOutcome], skipped: Sequence[Case]) -> PartResult:
    """The part of the grade: full points if every case that ran passed. `skipped` cases need a GPU."""
    hidden = [case.name for case in lab.task.correctness if case.hidden]
    numbers = {name: number for number, name in enumerate(hidden, start=1)}
    cases = [_case_result(outcome, numbers) for outcome in outcomes]
    cases += [
        CaseResult(
            f"hidden case {numbers[case.name]}" if case.hidden else case.name,
            Status.SKIPPED,
            "Needs a GPU: too large for the emulator.",
        )
        for case in skipped
    ]
    failed = [case for case in cases if case.status not in (Status.PASSED, Status.SKIPPED)]
    ran = len(outcomes)
    left = f" {len(skipped)} more need{'s' if len(skipped) == 1 else ''} a GPU." if skipped else ""
    points = lab.points.correctness
    feedback = lab.feedback.get(Part.CORRECTNESS, "")
    if not failed:
        return PartResult(
            Part.CORRECTNESS, Status.PASSED, points, points, f"All {ran} cases are right.{left}", feedback, tuple(cases)
        )
    # the student's faults before the emulator's limits; then the case that shows most
    telling = max(failed, key=lambda case: (case.status not in UNFINISHED, case.total))
    message = f"{len(failed)} of {ran} cases failed, among them {telling.name}: {telling.message}"
    return PartResult(Part.CORRECTNESS, telling.status, 0.0, points, message, feedback, tuple(cases))


def _case_result(outcome: CaseOutcome, hidden_numbers: dict[str, int]) -> CaseResult:
    if outcome.case in hidden_numbers:
        words = "" if outcome.status is Status.PASSED else f"{outcome.status}: its size and values are not shown."
        name = f"hidden case {hidden_numbers[outcome.case]}"
        return CaseResult(name, outcome.status, words[:1].upper() + words[1:], seconds=outcome.seconds)
    first = outcome.first_wrong
    return CaseResult(
        outcome.case,
        outcome.status,
        clean(outcome.message),
        clean(outcome.cause),
        outcome.wrong,
        outcome.total,
        outcome.worst_ratio,
        first and replace(first, output=clean(first.output)),
        outcome.seconds,
    )
