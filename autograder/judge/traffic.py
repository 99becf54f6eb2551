"""Traffic: counters against the lab's budgets. The same on every machine."""

from __future__ import annotations

from autograder.judge.ruling import Ruling
from autograder.records.report import BudgetResult, PartResult
from autograder.records.status import Part, Status
from autograder.report.words import budget_words
from autograder.spec.lab import AnyLab
from autograder.spec.score import budget_share, traffic_points


def traffic_part(
    lab: AnyLab,
    counted: tuple[BudgetResult, ...] | Ruling,
    right: bool,
    others: str = "",
    *,
    safe: bool = True,
    missing: str = "",
) -> PartResult:
    """The part of the grade: full points if every budget is kept, fewer by how far the worst is missed.

    `counted` are the budgets with what was counted, or why nothing was. Only what is right and safe earns points.
    `missing` says what the lab asks for beside its budgets and the kernels lack. `others`
    says why other kernels are timed than what was counted, if so (autograder.worker.same_kernels).
    """
    points, feedback = lab.points.traffic, lab.feedback.get(Part.TRAFFIC, "")
    if isinstance(counted, Ruling):
        return PartResult(Part.TRAFFIC, counted.status, 0.0, points, counted.message, feedback)
    status, earned, message = Status.PASSED, points, "Every counter is within its budget."
    worst = min(counted, key=_share, default=None)
    if worst is not None and not worst.passed:
        to_earn = points if right and safe and not (others or missing) else 0.0
        status, earned, message = Status.OVER_BUDGET, traffic_points(_share(worst), to_earn), budget_words(worst)
        message = f"{message} {missing}".strip()
    elif missing:
        status, earned, message = Status.WITHHELD, 0.0, missing
    elif others:
        status, earned, message = Status.OTHER_KERNELS, 0.0, others
    elif not right:
        words = f"The budgets are kept, but points are given only to {lab.task.what_earns}."
        status, earned, message = Status.WITHHELD, 0.0, words
    elif not safe:
        words = "The budgets are kept, but points are given only to a kernel that is safe, too."
        status, earned, message = Status.WITHHELD, 0.0, words
    return PartResult(Part.TRAFFIC, status, earned, points, message, feedback, budgets=counted)


def _share(budget: BudgetResult) -> float:
    return budget_share(budget.value, budget.limit)
