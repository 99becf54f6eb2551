"""Labs whose functions return records: data that is checked, modelled and carried out, and never run.

The parts are those of a lab of kernels. Correctness is a symbolic check of every case; safety, that nothing comes too
early and there is no deadlock, and that carrying some cases out ends with the right numbers; traffic, counters of the
modelled case; efficiency, its modelled cost against a bound. Each function has its share of every part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, TypeVar

from autograder.judge.capture_stage import capture_groups
from autograder.judge.kinds.lab_kind import Grading, LabKind
from autograder.judge.record_parts import (
    CheckedRecords,
    modelled_part,
    names_to_run,
    record_correctness,
    record_safety,
    record_traffic,
    right_functions,
)
from autograder.judge.ruling import Ruling
from autograder.judge.runner import JudgeError, Runner
from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Answer, Checked
from autograder.records.rejection import Rejected
from autograder.records.report import PartResult, Report
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.report import build
from autograder.report.advice import next_step_of_schedules
from autograder.report.source_slips import not_written
from autograder.spec.records import AskedFunction, RecordTask

_CHECK = "autograder.worker.record_stage:check_all"
_MODEL = "autograder.worker.record_stage:model"
# No function is at fault alone, or there is no time to try each by itself
_OF_THE_FILE = frozenset(
    {
        Status.NOT_FOUND,
        Status.NOT_PYTHON,
        Status.SYNTAX_ERROR,
        Status.IMPORT_ERROR,
        Status.HOST_TIMEOUT,
        Status.WORKER_CRASHED,
    }
)

R = TypeVar("R", bound=RecordTask[Any])


class RecordKind(LabKind[R, CheckedRecords]):
    """What all such kinds share."""

    advice: ClassVar[str] = "Draw the ranks of the smallest case that fails and follow what is named."

    def run(self, grading: Grading[R]) -> CheckedRecords:
        """Check every function's cases, and model one of each that is right.

        A function that comes to no answer takes nothing from the others: each is then tried by itself.
        """
        functions = grading.lab.task.functions
        try:
            return self.run_functions(grading, functions)
        except Rejected as rejection:
            if rejection.status in _OF_THE_FILE:
                raise
            found = [self._run_alone(grading, asked) for asked in functions]
            if not any(one.models for one in found):
                raise
        outcomes = [outcome for one in found for outcome in one.outcomes]
        models = {name: model for one in found for name, model in one.models.items()}
        return CheckedRecords(
            outcomes, models, {name: content for one in found for name, content in one.checked.items()}
        )

    def _run_alone(self, grading: Grading[R], asked: AskedFunction) -> CheckedRecords:
        try:
            return self.run_functions(grading, (asked,))
        except Rejected as rejection:
            words = f"Line {rejection.line}: {rejection}" if rejection.line else str(rejection)
            cases = [case for case in asked.cases() if not (grading.request.quick and case.hidden)]
            # Said once: all cases of the function fail for the same reason.
            said = [words, *[""] * (len(cases) - 1)]
            outcomes = [
                CaseOutcome(case.name, rejection.status, message) for case, message in zip(cases, said, strict=True)
            ]
            return CheckedRecords(outcomes, {})

    def run_functions(self, grading: Grading[R], functions: Sequence[AskedFunction]) -> CheckedRecords:
        """Capture what these functions return, check every case, and model those that are right. Raises Rejected."""
        progress, runner = grading.progress, grading.runner
        progress("capturing", 0.0)
        answers = _captured(grading, functions)
        progress("checking", 0.3)
        said = check(runner, answers)
        progress("modelling", 0.5)
        right = right_functions(functions, said.outcomes)
        models = {asked.function: _model(runner, answers, asked) for asked in right}
        return CheckedRecords(said.outcomes, models, said.run)

    def judge(self, grading: Grading[R], evidence: CheckedRecords) -> tuple[PartResult, ...]:
        """The symbolic checks, what carrying some cases out ends with, counters, and the modelled cost."""
        lab = grading.lab
        correctness = record_correctness(lab, evidence, _missing(grading))
        grading.progress("carrying some of them out", 0.7)
        safety = record_safety(lab, evidence, lambda to_run: self._carried_out(grading, evidence, to_run))
        efficiency = self.efficiency(grading, evidence)
        return correctness, safety, record_traffic(lab, evidence.models), efficiency

    def _carried_out(self, grading: Grading[R], evidence: CheckedRecords, to_run: Mapping[str, bytes]) -> Ruling:
        if names_to_run(grading.lab, evidence.models) != to_run.keys():
            raise JudgeError("the worker gave other records to be carried out than it was to")
        return self.carried_out(grading, to_run)

    def carried_out(self, grading: Grading[R], to_run: Mapping[str, bytes]) -> Ruling:
        """How the cases `to_run` of the functions that are right end, whose content the worker gave. Raises JudgeError
        where they end otherwise than they must."""
        return Ruling(Status.PASSED, "Nothing comes too early, and there is no deadlock.")

    def efficiency(self, grading: Grading[R], evidence: CheckedRecords) -> PartResult:
        """The part of the grade."""
        return modelled_part(grading.lab, evidence.models, grading.lab.points.efficiency)

    def report(self, grading: Grading[R], evidence: CheckedRecords, parts: tuple[PartResult, ...]) -> Report:
        """The report, which names what was judged in place of a language."""
        step = next_step_of_schedules(parts, self.advice, _missing(grading))
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


def _captured(grading: Grading[R], functions: Sequence[AskedFunction]) -> list[Answer]:
    """What these functions return, in the capture processes' words."""
    task, machine = grading.lab.task, grading.request.machine
    cases = [(asked, case) for asked, case in task.cases(grading.request.quick) if asked in functions]
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


def _missing(grading: Grading[R]) -> tuple[str, ...]:
    """The functions that are still the starter's."""
    starter = (grading.lab.folder / "submission.py").read_text(encoding="utf-8")
    names = [asked.function for asked in grading.lab.task.functions]
    return not_written(grading.submission.text, starter, names)
