"""The parts of a grade that come of kernels' findings and counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autograder.judge.ruling import Ruling
from autograder.judge.safety import safety_part
from autograder.judge.traffic import traffic_part
from autograder.records.outcome import CaseOutcome
from autograder.records.report import BudgetResult, PartResult
from autograder.records.status import UNFINISHED, Status
from autograder.records.text import clean
from autograder.spec.lab import Lab
from warplab.plan.execution import METRICS, Counters, Finding, FindingKind
from warplab.plan.ranking import ranked


def kernel_safety(lab: Lab, outcomes: Sequence[CaseOutcome], answers_right: bool) -> PartResult:
    """What the sanitizers found on the profile case and on the small ragged cases, and what the GPU's executor did."""
    hidden = {case.name for case in lab.task.correctness if case.hidden}
    findings = _merged(outcomes, hidden)
    faults = [f for f in findings if f.is_fault and f.kind is not FindingKind.UNSUPPORTED]
    unfinished = [outcome for outcome in outcomes if outcome.status in UNFINISHED]
    fault = None
    if faults:
        first = faults[0]
        message = first.message if len(faults) == 1 else f"{len(faults)} findings; the first: {first.message}"
        fault = Ruling(Status(first.kind.value), message)
    elif unfinished:
        shown = min(unfinished, key=lambda outcome: outcome.case in hidden)
        words = "Not run to its end on a hidden case." if shown.case in hidden else clean(shown.message)
        fault = Ruling(shown.status, words)
    clear = Ruling(Status.PASSED, "The sanitizers found nothing.")
    return safety_part(lab, findings, fault, answers_right, lambda: clear)


def _merged(outcomes: Sequence[CaseOutcome], hidden: set[str]) -> list[Finding]:
    """One finding per kind, kernel, line, array and extent; those of hidden cases tell no sizes, and are not counted.

    A fault a row, or a thread, would otherwise tell how many there are.
    """
    merged: dict[tuple, Finding] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.case in hidden):
        for finding in outcome.findings:
            key = (finding.kind, finding.kernel, finding.line, finding.array, finding.extent)
            if outcome.case in hidden:
                message = f"Line {finding.line}: {finding.kind} on a hidden case, whose size and values are not shown."
                # names are the submission's to choose, which knows the hidden sizes
                told = Finding(finding.kind, message, line=finding.line, extent=finding.extent)
                merged.setdefault(key, told)
            elif key in merged:
                merged[key] = replace(merged[key], count=merged[key].count + finding.count)
            else:
                merged[key] = replace(finding, message=clean(finding.message), array=clean(finding.array))
    return ranked(merged.values())


def kernel_traffic(
    lab: Lab, profile: CaseOutcome, answers_right: bool, others: str = "", *, safe: bool = True, missing: str = ""
) -> PartResult:
    """The emulator's counters on the profile case against the lab's budgets."""
    right = answers_right and profile.status is Status.PASSED
    return traffic_part(lab, _counted(lab, profile), right, others, safe=safe, missing=missing)


def missing_tensor_work(lab: Lab, profile: CaseOutcome) -> str:
    """What to say of kernels that do less on tensor cores than the lab asks for; "" of those that do enough.

    A product of m x n x k has m n k multiply-adds, half of its FLOP, and `Task.tensor_share` says how many of them
    must be the tensor cores'.
    """
    task = lab.task
    needed = task.tensor_share * task.flops(task.profile.dimensions) / 2
    if profile.counters is None or (done := profile.counters.tensor_multiply_adds) >= needed:
        return ""
    ran = f"Tensor cores made {done:,} multiply-adds" if done else "No tensor core ran"
    instructions = {"sm_90a": "wgmma", "sm_100a": "tcgen05.mma"}.get(lab.needs, "mma")
    return (
        f"{ran} on the profile case; this lab asks for {needed:,.0f} multiply-adds of theirs or more. Make the "
        f"products with {instructions}."
    )


def _counted(lab: Lab, profile: CaseOutcome) -> tuple[BudgetResult, ...] | Ruling:
    counters = profile.counters
    if profile.status in UNFINISHED:
        return Ruling(profile.status, clean(profile.message))
    if counters is None:
        message = f"Nothing could be counted on the profile case. {clean(profile.message)}"
        return Ruling(profile.status, message)
    return tuple(
        BudgetResult(
            budget.counter,
            _metric(counters, budget.counter),
            counters.amount(budget.counter),
            float(budget.limit(lab.task.profile.dimensions)),
            budget.reason,
            counters.parts(budget.counter),
        )
        for budget in lab.task.budgets
    )


def _metric(counters: Counters, name: str) -> str:
    """Nsight Compute's name of a counter, or of what a total consists of."""
    return " + ".join(METRICS[part] for part in counters.parts(name) or (name,) if part in METRICS)
