"""The parts of a grade that come of records: each function that is right keeps its share, whatever the others are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autograder.judge.correctness import correctness_part
from autograder.judge.efficiency import earned_by, efficiency_part, is_enough, status_of
from autograder.judge.ruling import Ruling
from autograder.judge.safety import safety_part
from autograder.judge.traffic import traffic_part
from autograder.records.outcome import CaseOutcome
from autograder.records.rejection import Rejected
from autograder.records.report import BudgetResult, CaseResult, PartResult
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Part, Status
from autograder.records.text import clean
from autograder.report.words import budget_words, listed
from autograder.spec.lab import LabOf
from autograder.spec.records import AskedFunction, RecordTask
from autograder.spec.score import budget_share, traffic_points
from warplab.plan.execution import Finding, FindingKind

_ABOVE = 1 + 1e-9  # of a bound: what rounding may do

RecordLab = LabOf[RecordTask[Any]]
Models = Mapping[str, ScheduleModel | Rejected]  # by function, of those that are right


@dataclass(frozen=True)
class CheckedRecords:
    """The outcome of every case, by function what is modelled of those that are right, and by case what is to be
    carried out or timed."""

    outcomes: Sequence[CaseOutcome]
    models: Models
    checked: Mapping[str, bytes] = field(default_factory=dict)


def right_functions(functions: Sequence[AskedFunction], outcomes: Sequence[CaseOutcome]) -> tuple[AskedFunction, ...]:
    """Those of which all cases that were checked are right, and some were."""
    passed = {outcome.case: outcome.status is Status.PASSED for outcome in outcomes}

    def right(asked: AskedFunction) -> bool:
        known = [passed[case.name] for case in asked.cases() if case.name in passed]
        return bool(known) and all(known)

    return tuple(asked for asked in functions if right(asked))


def record_correctness(lab: RecordLab, evidence: CheckedRecords, missing: Sequence[str]) -> PartResult:
    """Equal shares of the points for the functions that are right; `missing` are as in the starter."""
    part = correctness_part(lab, evidence.outcomes)
    words = f"{_not_written(missing)} " if missing else ""
    right = [asked.function for asked in lab.task.functions if asked.function in evidence.models]
    if part.status is Status.PASSED or not right:
        return replace(part, message=f"{words}{part.message}")
    earned = round(part.max_score * _share(lab, evidence.models), 1)
    kept = f" {listed(right)} {_is(right)} right and keep{'s' * (len(right) == 1)} {earned:g} points."
    return replace(part, score=earned, message=f"{words}{part.message}{kept}")


def names_to_run(lab: RecordLab, models: Models) -> set[str]:
    """The cases that are carried out: those marked for it, of the functions that are right."""
    return {case.name for asked, case in lab.task.cases() if case.run and asked.function in models}


def record_safety(
    lab: RecordLab, evidence: CheckedRecords, carried_out: Callable[[Mapping[str, bytes]], Ruling]
) -> PartResult:
    """Equal shares for the functions that are right, if their cases that are marked for it are `carried_out` as they
    should. What is found in the others is named."""
    findings = _findings(lab, evidence.outcomes)
    fault = Ruling(Status(findings[0].kind.value), findings[0].message) if findings else None
    names = names_to_run(lab, evidence.models)
    to_run = {name: content for name, content in evidence.checked.items() if name in names}
    if not evidence.models or len(evidence.models) == len(lab.task.functions):
        return safety_part(lab, findings, fault, bool(evidence.models), lambda: carried_out(to_run))
    ended = carried_out(to_run)
    earned = round(lab.points.safety * _share(lab, evidence.models), 1) if ended.status is Status.PASSED else 0.0
    status = fault.status if fault else Status.PARTIAL if earned else ended.status
    words = f"{fault.message} " if fault else ""
    words += f"Of the functions that are right: {ended.message}"
    feedback = lab.feedback.get(Part.SAFETY, "")
    return PartResult(Part.SAFETY, status, earned, lab.points.safety, words, feedback, findings=tuple(findings))


def record_traffic(lab: RecordLab, models: Models) -> PartResult:
    """Equal shares for the functions that have budgets: of each, by the counter of its modelled case that misses its
    budget by most."""
    if not models:
        words = f"Not counted: points are given only to {lab.task.what_earns}."
        return traffic_part(lab, Ruling(Status.WITHHELD, words), False)
    if failed := _not_modelled(models):
        return traffic_part(lab, failed, False)
    budgets: list[BudgetResult] = []
    shares: list[float] = []
    for asked in lab.task.functions:
        model = models.get(asked.function)
        if isinstance(model, ScheduleModel) and (own := _budgets(asked, model)):
            budgets += own
            shares.append(min(budget_share(budget.value, budget.limit) for budget in own))
        elif asked.all_limits():
            shares.append(0.0)
    worst = min(budgets, key=lambda budget: budget_share(budget.value, budget.limit), default=None)
    earned = traffic_points(round(sum(shares) / len(shares), 6), lab.points.traffic) if shares else lab.points.traffic
    status, words = Status.PASSED, "Every counter is within its budget."
    if worst is not None and not worst.passed:
        status, words = Status.OVER_BUDGET, budget_words(worst)
    elif earned < lab.points.traffic:
        status = Status.PARTIAL if earned else Status.WITHHELD
        words = "Of the functions that are right, every counter is within its budget."
    feedback = lab.feedback.get(Part.TRAFFIC, "")
    return PartResult(Part.TRAFFIC, status, earned, lab.points.traffic, words, feedback, budgets=tuple(budgets))


def modelled_part(lab: RecordLab, models: Models, points: float) -> PartResult:
    """An equal share of the points for each function, by what is modelled of those that are right."""
    if not models:
        words = f"Not modelled: points are given only to {lab.task.what_earns}."
        return efficiency_part(lab, Ruling(Status.WITHHELD, words), points)
    if failed := _not_modelled(models):
        return efficiency_part(lab, failed, points)
    found = [(a, m) for a in lab.task.functions if isinstance(m := models.get(a.function), ScheduleModel)]
    if any(model.share > _ABOVE for _, model in found):
        words = f"A modelled {found[0][0].measured} is below what anything can reach."
        return efficiency_part(lab, Ruling(Status.IMPOSSIBLE, words), points)
    each = points / len(lab.task.functions)
    cases = tuple(_case(lab, asked, model, each) for asked, model in found)
    words = (
        f"Modelled, not measured: {'; '.join(f'{case.name} {case.message}' for case in cases)}. "
        f"Full points from {lab.efficiency.target:.0%} of the bound."
    )
    earned = earned_by(lab, [model.share for _, model in found], each * len(found))
    feedback = lab.feedback.get(Part.EFFICIENCY, "")
    return PartResult(Part.EFFICIENCY, status_of(earned, points), earned, points, words, feedback, cases=cases)


def _share(lab: RecordLab, models: Models) -> float:
    return len(models) / len(lab.task.functions)


def _not_written(missing: Sequence[str]) -> str:
    return f"{listed(missing)} {_is(missing)} still as in the starter."


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _findings(lab: RecordLab, outcomes: Sequence[CaseOutcome]) -> list[Finding]:
    """One finding a kind, those of hidden cases without words: a schedule's own numbers tell the size."""
    hidden = {case.name for case in lab.task.every_case() if case.hidden}
    found: dict[FindingKind, Finding] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.case in hidden):
        for finding in outcome.findings:
            words = "On a hidden case, whose size is not shown." if outcome.case in hidden else clean(finding.message)
            found.setdefault(finding.kind, Finding(finding.kind, words))
    return list(found.values())


def _budgets(asked: AskedFunction, model: ScheduleModel) -> list[BudgetResult]:
    return [
        BudgetResult(
            f"{limit.counter} of {asked.function}", "", model.counters.get(limit.counter, 0), limit.most, limit.reason
        )
        for limit in asked.limits(model.counters)
    ]


def _case(lab: RecordLab, asked: AskedFunction, model: ScheduleModel, points: float) -> CaseResult:
    words = f"{asked.words(model.cost)}, {model.share:.0%} of the bound"
    return CaseResult(asked.function, Status.PASSED if is_enough(lab, model.share, points) else Status.SLOW, words)


def _not_modelled(models: Models) -> Ruling | None:
    """Why nothing is modelled; None if something is."""
    failed = [model for model in models.values() if isinstance(model, Rejected)]
    return Ruling(failed[0].status, str(failed[0])) if len(failed) == len(models) else None
