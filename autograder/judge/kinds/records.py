"""Labs whose functions return records: data that is checked, modelled and carried out, and never run.

The parts are those of a lab of kernels. Correctness is a symbolic check of every case; safety, that nothing comes too
early and nobody waits for ever, and that carrying some cases out ends with the right numbers; traffic, counters of the
modelled case; efficiency, its modelled cost against a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeVar

from autograder.judge.capture_stage import capture_groups
from autograder.judge.correctness import correctness_part
from autograder.judge.efficiency import Shares, efficiency_part, is_enough
from autograder.judge.kinds.lab_kind import Grading, LabKind
from autograder.judge.ruling import Ruling
from autograder.judge.runner import Runner
from autograder.judge.safety import safety_part
from autograder.judge.traffic import traffic_part
from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Answer, Checked
from autograder.records.rejection import Rejected
from autograder.records.report import BudgetResult, CaseResult, PartResult, Report
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.records.text import clean
from autograder.report import build
from autograder.report.advice import next_step_of_schedules
from autograder.spec.lab import LabOf
from autograder.spec.records import AskedFunction, RecordTask
from warplab.plan.execution import Finding, FindingKind

_CHECK = "autograder.worker.record_stage:check_all"
_MODEL = "autograder.worker.record_stage:model"
_ABOVE = 1 + 1e-9  # of a bound: what rounding may do

R = TypeVar("R", bound=RecordTask[Any])
RecordLab = LabOf[RecordTask[Any]]
Models = Mapping[str, ScheduleModel | Rejected]


@dataclass(frozen=True)
class CheckedRecords:
    """The outcome of every case, by function what is modelled of it, and by case what is to be carried out or timed."""

    outcomes: Sequence[CaseOutcome]
    models: Models
    checked: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Whether every case is."""
        return all(outcome.status is Status.PASSED for outcome in self.outcomes)


class RecordKind(LabKind[R, CheckedRecords]):
    """What all such kinds share."""

    advice: ClassVar[str] = "Draw the ranks of the smallest case that fails and follow what is named."

    def run(self, grading: Grading[R]) -> CheckedRecords:
        """Capture what the functions return, check every case, and model one of each function if all are right."""
        task, progress, runner = grading.lab.task, grading.progress, grading.runner
        progress("capturing", 0.0)
        answers = _captured(grading)
        progress("checking", 0.3)
        said = check(runner, answers)
        progress("modelling", 0.5)
        found = CheckedRecords(said.outcomes, {}, said.run)
        models = {asked.function: _model(runner, answers, asked) for asked in task.functions} if found.right else {}
        return CheckedRecords(said.outcomes, models, said.run)

    def judge(self, grading: Grading[R], evidence: CheckedRecords) -> tuple[PartResult, ...]:
        """The symbolic checks, what carrying some cases out ends with, counters, and the modelled cost."""
        lab, right = grading.lab, evidence.right
        correctness = correctness_part(lab, evidence.outcomes)
        grading.progress("carrying some of them out", 0.7)
        findings = _findings(lab, evidence.outcomes)
        fault = Ruling(Status(findings[0].kind.value), findings[0].message) if findings else None
        names = {case.name for case in lab.task.every_case() if case.run}
        to_run = {name: content for name, content in evidence.checked.items() if name in names}
        safety = safety_part(lab, findings, fault, right, lambda: self.carried_out(grading, to_run))
        efficiency = self.efficiency(grading, evidence)
        return correctness, safety, record_traffic(lab, evidence.models, right), efficiency

    def carried_out(self, grading: Grading[R], to_run: Mapping[str, bytes]) -> Ruling:
        """How the cases of a right submission that are `to_run` end, whose content the worker gave. Raises JudgeError
        where they end otherwise than they must."""
        return Ruling(Status.PASSED, "Nothing comes too early and nobody waits for ever.")

    def efficiency(self, grading: Grading[R], evidence: CheckedRecords) -> PartResult:
        """The part of the grade."""
        return modelled_part(grading.lab, evidence.models, evidence.right, grading.lab.points.efficiency)

    def report(self, grading: Grading[R], evidence: CheckedRecords, parts: tuple[PartResult, ...]) -> Report:
        """The report, which names what was judged in place of a language."""
        step = next_step_of_schedules(parts, self.advice)
        language = f"{grading.lab.task.noun}s"
        return build.judged(grading.request, grading.submission.text, parts, language=language, next_step=step)


def check(runner: Runner, answers: Sequence[Answer]) -> Checked:
    """The outcome of every case in the answers, and by name what is to be carried out, as JSON. Raises Rejected,
    JudgeError."""
    payload = {"answers": [asdict(answer) for answer in answers]}
    return runner.ask(_CHECK, "checking its schedules", payload, Checked)


def model(runner: Runner, answers: Sequence[Answer], case: str) -> ScheduleModel:
    """What is modelled of one case. Raises Rejected, JudgeError."""
    payload = {"answers": [asdict(answer) for answer in answers], "case": case}
    return runner.ask(_MODEL, "modelling the time of its schedules", payload, ScheduleModel)


def _captured(grading: Grading[R]) -> list[Answer]:
    """What the functions return, in the capture processes' words."""
    task, machine = grading.lab.task, grading.request.machine
    cases = task.cases(grading.request.quick)
    groups = [
        [(case.name, asked.host_call(case)) for asked, case in cases if case.hidden is hidden]
        for hidden in (False, True)
    ]
    contents = {case.name: asked.content(case) for asked, case in cases}
    return capture_groups(grading.submission, groups, machine.architecture, machine.isolation, task.form, contents)


def _model(runner: Runner, answers: Sequence[Answer], asked: AskedFunction) -> ScheduleModel | Rejected:
    try:
        return model(runner, answers, asked.modelled.name)
    except Rejected as rejection:
        return rejection


def _findings(lab: RecordLab, outcomes: Sequence[CaseOutcome]) -> list[Finding]:
    """One finding a kind, those of hidden cases without words: a schedule's own numbers tell the size."""
    hidden = {case.name for case in lab.task.every_case() if case.hidden}
    found: dict[FindingKind, Finding] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.case in hidden):
        for finding in outcome.findings:
            words = "On a hidden case, whose size is not shown." if outcome.case in hidden else clean(finding.message)
            found.setdefault(finding.kind, Finding(finding.kind, words))
    return list(found.values())


def record_traffic(lab: RecordLab, models: Models, right: bool) -> PartResult:
    """The counters of every function's modelled case against its budgets."""
    if not right:
        words = f"Not counted: points are given only to {lab.task.what_earns}."
        return traffic_part(lab, Ruling(Status.WITHHELD, words), right)
    if failed := _not_modelled(models):
        return traffic_part(lab, failed, right)
    budgets = tuple(
        BudgetResult(
            f"{limit.counter} of {asked.function}", "", model.counters.get(limit.counter, 0), limit.most, limit.reason
        )
        for asked, model in _modelled(lab, models)
        for limit in asked.limits(model.counters)
    )
    return traffic_part(lab, budgets, right)


def modelled_part(lab: RecordLab, models: Models, right: bool, points: float) -> PartResult:
    """An equal share of the points for each function, by what is modelled."""
    if not right:
        words = f"Not modelled: points are given only to {lab.task.what_earns}."
        return efficiency_part(lab, Ruling(Status.WITHHELD, words), points)
    if failed := _not_modelled(models):
        return efficiency_part(lab, failed, points)
    found = _modelled(lab, models)
    if any(model.share > _ABOVE for _, model in found):
        words = f"A modelled {found[0][0].measured} is below what anything can reach."
        return efficiency_part(lab, Ruling(Status.IMPOSSIBLE, words), points)
    cases = tuple(_case(lab, asked, model, points / len(found)) for asked, model in found)
    words = (
        f"Modelled, not measured: {'; '.join(f'{case.name} {case.message}' for case in cases)}. "
        f"Full points from {lab.efficiency.target:.0%} of the bound."
    )
    return efficiency_part(lab, Shares(tuple(model.share for _, model in found), words, cases), points)


def _case(lab: RecordLab, asked: AskedFunction, model: ScheduleModel, points: float) -> CaseResult:
    words = f"{asked.words(model.cost)}, {model.share:.0%} of the bound"
    return CaseResult(asked.function, Status.PASSED if is_enough(lab, model.share, points) else Status.SLOW, words)


def _modelled(lab: RecordLab, models: Models) -> list[tuple[AskedFunction, ScheduleModel]]:
    found = ((asked, models[asked.function]) for asked in lab.task.functions)
    return [(asked, model) for asked, model in found if isinstance(model, ScheduleModel)]


def _not_modelled(models: Models) -> Ruling | None:
    failed = next((model for model in models.values() if isinstance(model, Rejected)), None)
    return Ruling(failed.status, str(failed)) if failed else None
