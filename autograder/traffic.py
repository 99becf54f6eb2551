"""Traffic: the emulator's counters on the profile case against the lab's budgets. The same on every machine."""

from __future__ import annotations

from autograder.lab import Lab
from autograder.outcome import CaseOutcome
from autograder.verdict import UNFINISHED, BudgetResult, Part, PartResult, Status, clean
from warplab.plan.execution import METRICS


def traffic_part(lab: Lab, profile: CaseOutcome, answers_right: bool) -> PartResult:
    """The part of the grade: full points if every budget is kept."""
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
            METRICS.get(budget.counter, ""),
            getattr(profile.counters, budget.counter),
            float(budget.limit(dimensions)),
            budget.reason,
        )
        for budget in lab.task.budgets
    )
    over = [budget for budget in budgets if not budget.passed]
    if over:
        return PartResult(
            Part.TRAFFIC, Status.OVER_BUDGET, 0.0, points, budget_words(over[0]), feedback, budgets=budgets
        )
    if not answers_right or profile.status is not Status.PASSED:
        message = "The budgets are kept, but points are given only to a kernel whose answers are right."
        return PartResult(Part.TRAFFIC, Status.WITHHELD, 0.0, points, message, feedback, budgets=budgets)
    message = "Every counter is within its budget."
    return PartResult(Part.TRAFFIC, Status.PASSED, points, points, message, feedback, budgets=budgets)


def budget_words(budget: BudgetResult) -> str:
    """One sentence about a budget that was exceeded."""
    name = budget.counter.replace("_", " ")
    times = budget.value / budget.limit if budget.limit > 0 else 0.0
    excess = f" ({times:,.{1 if times < 10 else 0}f} times)" if times else ""
    return f"{budget.value:,} {name} where {budget.limit:,.0f} are allowed{excess}. {budget.reason}"
