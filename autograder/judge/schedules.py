"""Grades a submission whose functions return schedules, capture, check, model, run in that order; or programs of ranks,
or plans of checkpoints.

The parts are those of a lab of kernels. Correctness is a symbolic check of every case; safety, that nothing is sent or
done too early, nothing depends on an order that nobody promised, and nobody waits for ever, and that processes which
carry out some cases, or PyTorch, end with the right numbers; traffic, what is sent where, held at once, or moved again;
efficiency, the modelled time, the bubble in it, or what is computed again, against its bound, and where a lab has
points for it and the machine has GPUs, the measured time of some schedules against NCCL's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from autograder.judge.capture_stage import Submission, capture_groups
from autograder.judge.correctness import correctness_part
from autograder.judge.on_gpus import Race, Raced, race
from autograder.judge.on_processes import carry_out
from autograder.judge.on_torch import trained_part
from autograder.judge.programs import run_programs
from autograder.judge.runner import Caller, Runner
from autograder.judge.traffic import missed_part
from autograder.judge.turns import Turns
from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Answer
from autograder.records.rejection import Rejected
from autograder.records.report import BudgetResult, CaseResult, PartResult, Report
from autograder.records.request import OnProgress, Request
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Part, Status
from autograder.records.text import clean
from autograder.report import build as report
from autograder.spec.checkpoints import CheckpointTask
from autograder.spec.lab import ScheduleLab
from autograder.spec.programs import ProgramTask
from autograder.spec.records import Asked
from autograder.spec.schedules import ScheduleTask
from autograder.spec.score import efficiency_points
from warplab.plan.execution import Finding, FindingKind

_ABOVE = 1 + 1e-9  # of a bound: what rounding may do
_NO_RACE = Race()

Models = Mapping[str, ScheduleModel | Rejected]


def grade_schedules(
    request: Request,
    lab: ScheduleLab,
    submission: Submission,
    worker: Caller,
    seed: int,
    progress: OnProgress,
    turns: Turns | None = None,
) -> Report:
    """The report. `lab` has the sizes that the seed drew, `turns` are on all GPUs. Raises Rejected, JudgeError."""
    runner = Runner(worker, lab, seed)
    if isinstance(lab.task, ProgramTask):
        progress("running the ranks, step by step", 0.0)
        outcomes, found = run_programs(lab.task, seed, request, submission, runner)
        correctness, models = correctness_part(lab, outcomes, ()), dict[str, ScheduleModel | Rejected](found)
        right, checked = correctness.status is Status.PASSED, dict[str, bytes]()
    else:
        progress("capturing", 0.0)
        answers = _captured(lab, request, submission)
        progress("checking", 0.3)
        outcomes, checked = runner.check_schedules(answers)
        correctness = correctness_part(lab, outcomes, ())
        right = correctness.status is Status.PASSED
        progress("modelling", 0.5)
        models = {asked.function: _model(runner, answers, asked) for asked in lab.task.functions} if right else {}
    progress("carrying some of them out", 0.7)
    carried_out = {case.name for case in lab.task.correctness if case.run}
    to_run = {name: content for name, content in checked.items() if name in carried_out}
    safety = safety_part(lab, outcomes, right, to_run, seed, runner)
    times = Race()
    if right and isinstance(lab.task, ScheduleTask):
        progress("timing them, if there are GPUs", 0.8)
        with turns.measuring() if turns else nullcontext():
            times = race(lab.task, request, checked)
    parts = correctness, safety, traffic_part(lab, models, right), efficiency_part(lab, models, right, times)
    return report.judged_schedules(request, submission.text, parts)


def _captured(lab: ScheduleLab, request: Request, submission: Submission) -> list[Answer]:
    """What the functions return, in the capture processes' words."""
    cases, machine = lab.task.cases(request.quick), request.machine
    groups = [
        [(case.name, asked.host_call(case)) for asked, case in cases if case.hidden is hidden]
        for hidden in (False, True)
    ]
    contents = {case.name: asked.content(case) for asked, case in cases}
    return capture_groups(submission, groups, machine.architecture, machine.isolation, lab.task.form, contents)


def _model(runner: Runner, answers: Sequence[Answer], asked: Asked) -> ScheduleModel | Rejected:
    try:
        return runner.model_schedule(answers, asked.modelled.name)
    except Rejected as rejection:
        return rejection


def safety_part(
    lab: ScheduleLab,
    outcomes: Sequence[CaseOutcome],
    right: bool,
    to_run: Mapping[str, bytes],
    seed: int,
    runner: Runner | None = None,
) -> PartResult:
    """The part of the grade: full points without findings, if the processes that run `to_run` end as they should.

    Plans of checkpoints are carried out by the worker of `runner`. Raises JudgeError.
    """
    points, feedback = lab.points.safety, lab.feedback.get(Part.SAFETY, "")
    findings = _findings(lab, outcomes)
    if findings:
        status, words = Status(findings[0].kind.value), findings[0].message
        return PartResult(Part.SAFETY, status, 0.0, points, words, feedback, findings=tuple(findings))
    if not right:
        words = f"Nothing found, but points are given only to {lab.task.noun}s that are right."
        return PartResult(Part.SAFETY, Status.WITHHELD, 0.0, points, words, feedback)
    if isinstance(lab.task, CheckpointTask):
        assert runner is not None
        return trained_part(lab.task, runner, to_run, points, feedback)
    for name, content in to_run.items():
        carry_out(lab.task.form, name, content, seed)
    words = "Nothing comes too early and nobody waits for ever"
    words += f"; processes that ran {len(to_run)} of them agree." if to_run else "."
    return PartResult(Part.SAFETY, Status.PASSED, points, points, words, feedback)


def _findings(lab: ScheduleLab, outcomes: Sequence[CaseOutcome]) -> list[Finding]:
    """One finding a kind, those of hidden cases without words: a schedule's own numbers tell the size."""
    hidden = {case.name for case in lab.task.correctness if case.hidden}
    found: dict[FindingKind, Finding] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.case in hidden):
        for finding in outcome.findings:
            words = "On a hidden case, whose size is not shown." if outcome.case in hidden else clean(finding.message)
            found.setdefault(finding.kind, Finding(finding.kind, words))
    return list(found.values())


def traffic_part(lab: ScheduleLab, models: Models, right: bool) -> PartResult:
    """The part of the grade: full points if every budget of every function is kept, fewer by how far the worst is
    missed."""
    points, feedback = lab.points.traffic, lab.feedback.get(Part.TRAFFIC, "")
    if not right:
        words = f"Not counted: points are given only to {lab.task.noun}s that are right."
        return PartResult(Part.TRAFFIC, Status.WITHHELD, 0.0, points, words, feedback)
    if failed := _not_modelled(models):
        return PartResult(Part.TRAFFIC, failed.status, 0.0, points, str(failed), feedback)
    budgets = tuple(
        BudgetResult(
            f"{limit.counter} of {asked.function}", "", model.counters.get(limit.counter, 0), limit.most, limit.reason
        )
        for asked, model in _modelled(lab, models)
        for limit in asked.limits(model.counters)
    )
    if missed := missed_part(budgets, points, points, feedback):
        return missed
    words = "Every counter is within its budget."
    return PartResult(Part.TRAFFIC, Status.PASSED, points, points, words, feedback, budgets=budgets)


def efficiency_part(lab: ScheduleLab, models: Models, right: bool, times: Race = _NO_RACE) -> PartResult:
    """The part of the grade: an equal share of the points for each function, by what is modelled, and of the lab's
    `measured_points` by what was measured, which are left out of the maximum where nothing could be."""
    measured = lab.task.measured_points
    part = _modelled_part(lab, models, right, lab.points.efficiency - measured)
    if not measured:
        return part
    if not times.found and times.left_out:
        why = times.why or "nothing was timed"
        words = f"{part.message} Not measured: {why}; {measured:g} points are left out of the maximum."
        return replace(part, message=words, left_out=measured)
    part = replace(part, max_score=part.max_score + measured)
    if part.status is Status.IMPOSSIBLE or not right:
        return part
    if not times.found:
        status = Status.PARTIAL if part.score else Status.NEEDS_TORCH
        return replace(part, status=status, message=f"{part.message} Not measured: {times.why}.")
    each = measured / len(times.found)
    earned = round(part.score + sum(efficiency_points(one.share.value, lab.efficiency, each) for one in times.found), 1)
    status = Status.PASSED if earned >= part.max_score else Status.PARTIAL if earned > 0 else Status.SLOW
    cases = (*part.cases, *(_raced_case(lab, one, each) for one in times.found))
    said = "; ".join(f"{one.function} {_raced_words(one)}" for one in times.found)
    message = f"{part.message} Measured beside NCCL: {said}."
    return replace(part, status=status, score=earned, message=message, cases=cases)


def _raced_words(one: Raced) -> str:
    return (
        f"{one.schedule.value * 1e6:,.0f} us on {one.ranks} GPUs, {one.share.value:.0%} of the speed of NCCL's "
        f"{one.library.value * 1e6:,.0f} us ({one.share.low:.0%} to {one.share.high:.0%}, {one.share.samples} turns)"
    )


def _raced_case(lab: ScheduleLab, one: Raced, points: float) -> CaseResult:
    enough = efficiency_points(one.share.value, lab.efficiency, points) >= round(points, 1)
    return CaseResult(f"{one.function}, measured", Status.PASSED if enough else Status.SLOW, _raced_words(one))


def _modelled_part(lab: ScheduleLab, models: Models, right: bool, points: float) -> PartResult:
    """The points for what is modelled."""
    feedback = lab.feedback.get(Part.EFFICIENCY, "")
    if not right:
        words = f"Not modelled: points are given only to {lab.task.noun}s that are right."
        return PartResult(Part.EFFICIENCY, Status.WITHHELD, 0.0, points, words, feedback)
    if failed := _not_modelled(models):
        return PartResult(Part.EFFICIENCY, failed.status, 0.0, points, str(failed), feedback)
    found = _modelled(lab, models)
    if any(model.share > _ABOVE for _, model in found):
        words = f"A modelled {found[0][0].measured} is below what anything can reach."
        return PartResult(Part.EFFICIENCY, Status.IMPOSSIBLE, 0.0, points, words, feedback)
    each = points / len(found)
    cases = tuple(_case(lab, asked, model, each) for asked, model in found)
    earned = round(sum(efficiency_points(model.share, lab.efficiency, each) for _, model in found), 1)
    status = Status.PASSED if earned >= points else Status.PARTIAL if earned > 0 else Status.SLOW
    words = (
        f"Modelled, not measured: {'; '.join(f'{case.name} {case.message}' for case in cases)}. "
        f"Full points from {lab.efficiency.target:.0%} of the bound."
    )
    return PartResult(Part.EFFICIENCY, status, earned, points, words, feedback, cases=cases)


def _case(lab: ScheduleLab, asked: Asked, model: ScheduleModel, points: float) -> CaseResult:
    enough = efficiency_points(model.share, lab.efficiency, points) >= round(points, 1)
    words = f"{asked.words(model.cost)}, {model.share:.0%} of the bound"
    return CaseResult(asked.function, Status.PASSED if enough else Status.SLOW, words)


def _modelled(lab: ScheduleLab, models: Models) -> list[tuple[Asked, ScheduleModel]]:
    found = ((asked, models[asked.function]) for asked in lab.task.functions)
    return [(asked, model) for asked, model in found if isinstance(model, ScheduleModel)]


def _not_modelled(models: Models) -> Rejected | None:
    return next((model for model in models.values() if isinstance(model, Rejected)), None)
