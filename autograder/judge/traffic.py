"""Traffic: the emulator's counters on the profile case against the lab's budgets. The same on every machine."""

from __future__ import annotations

from autograder.records.outcome import CaseOutcome
from autograder.records.report import BudgetResult, PartResult
from autograder.records.status import UNFINISHED, Part, Status
from autograder.records.text import clean
from autograder.report.words import budget_words
from autograder.spec.lab import Lab
from autograder.spec.score import budget_share, traffic_points
from warplab.plan.execution import METRICS, Counters


def traffic_part(lab: Lab, profile: CaseOutcome, answers_right: bool, others: str = "") -> PartResult:
    """The part of the grade: full points if every budget is kept, fewer by how far the worst is missed. `others` says
    why other kernels are timed than what was counted, if so (autograder.worker.same_kernels)."""
    points, feedback = lab.points.traffic, lab.feedback.get(Part.TRAFFIC, "")
    if profile.status in UNFINISHED:
        return PartResult(Part.TRAFFIC, profile.status, 0.0, points, clean(profile.message), feedback)
    if profile.counters is None:
        message = f"Nothing could be counted on the profile case. {clean(profile.message)}"
        return PartResult(Part.TRAFFIC, profile.status, 0.0, points, message, feedback)
    dimensions = lab.task.profile.dimensions
    budgets = tuple(
        BudgetResult(
            budget.counter,
            _metric(profile.counters, budget.counter),
            profile.counters.amount(budget.counter),
            float(budget.limit(dimensions)),
            budget.reason,
            profile.counters.parts(budget.counter),
        )
        for budget in lab.task.budgets
    )
    right = answers_right and profile.status is Status.PASSED
    if missed := missed_part(budgets, points if right and not others else 0.0, points, feedback):
        return missed
    if others:
        return PartResult(Part.TRAFFIC, Status.OTHER_KERNELS, 0.0, points, others, feedback, budgets=budgets)
    if not right:
        message = "The budgets are kept, but points are given only to a kernel whose answers are right."
        return PartResult(Part.TRAFFIC, Status.WITHHELD, 0.0, points, message, feedback, budgets=budgets)
    message = "Every counter is within its budget."
    return PartResult(Part.TRAFFIC, Status.PASSED, points, points, message, feedback, budgets=budgets)


def missed_part(budgets: tuple[BudgetResult, ...], to_earn: float, points: float, feedback: str) -> PartResult | None:
    """The part if a budget is missed: the share of `to_earn` that the worst of them leaves. None if all are kept."""
    worst = min(budgets, key=_share, default=None)
    if worst is None or worst.passed:
        return None
    earned = traffic_points(_share(worst), to_earn)
    return PartResult(Part.TRAFFIC, Status.OVER_BUDGET, earned, points, budget_words(worst), feedback, budgets=budgets)


def _share(budget: BudgetResult) -> float:
    return budget_share(budget.value, budget.limit)


def _metric(counters: Counters, name: str) -> str:
    """Nsight Compute's name of a counter, or of what a total consists of."""
    return " + ".join(METRICS[part] for part in counters.parts(name) or (name,) if part in METRICS)
