"""Correctness: the part of the grade made from the outcomes of all cases, which `worker/judge_case.py` gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autograder.records.outcome import CaseOutcome
from autograder.records.report import CaseResult, PartResult
from autograder.records.status import UNFINISHED, Part, Status
from autograder.records.text import clean
from autograder.spec.lab import AnyLab, Lab
from autograder.spec.lab_task import NamedCase

# What another order of threads shows: right on a GPU, such a case is wrong all the same
WRONG_SOMEWHERE = (Status.WRONG_ANSWER, Status.RUNS_DISAGREE)


def located(on_gpu: Sequence[CaseOutcome], emulated: Sequence[CaseOutcome]) -> list[CaseOutcome]:
    """The GPU's outcomes, explained by the emulator's where both found the same first wrong element in the same case.

    A case that is right on the GPU and wrong on the emulator is wrong: its result depends on the order of threads.
    """
    known = {outcome.case: outcome for outcome in emulated if outcome.status in WRONG_SOMEWHERE}
    explained = []
    for outcome in on_gpu:
        other = known.get(outcome.case)
        if other is not None and outcome.status is Status.PASSED:
            words = f"Right on the GPU, but not on the emulator, where threads run in other orders: {other.message}"
            outcome = replace(other, message=words)
        elif other is not None and other.status is outcome.status and _same_place(other, outcome):
            outcome = replace(outcome, message=other.message, cause=other.cause, first_wrong=other.first_wrong)
        explained.append(outcome)
    return explained


def _same_place(one: CaseOutcome, other: CaseOutcome) -> bool:
    a, b = ((o.first_wrong.output, o.first_wrong.index) if o.first_wrong else None for o in (one, other))
    return a == b


def correctness_part(
    lab: AnyLab,
    outcomes: Sequence[CaseOutcome],
    skipped: Sequence[NamedCase] = (),
    stages: Mapping[str, float] | None = None,
) -> PartResult:
    """The part of the grade: full points if every case that ran passed, else those of the `stages` that did.

    `skipped` cases need a GPU; `stages` has, by name, the cases that give points of their own (`clean_stages`).
    """
    hidden = [case.name for case in lab.task.every_case() if case.hidden]
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
    passed = {outcome.case for outcome in outcomes if outcome.status is Status.PASSED}
    earned = sum(points for name, points in (stages or {}).items() if name in passed)
    if earned:
        message += f" The stages that are right keep {earned:g} points."
    return PartResult(Part.CORRECTNESS, telling.status, earned, points, message, feedback, tuple(cases))


def clean_stages(lab: Lab, profile: CaseOutcome, outcomes: Sequence[CaseOutcome]) -> dict[str, float]:
    """The points (Case.points) of the cases that have their own and in which nothing was found, by name; none if the
    profile case shows nothing of what the lab's stages are about."""
    used = lab.task.stages_use
    if not used or not profile.counters or not profile.counters.amount(used):
        return {}
    faulty = {outcome.case for outcome in outcomes if any(f.is_fault for f in outcome.findings)}
    return {case.name: case.points for case in lab.task.correctness if case.points and case.name not in faulty}


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
