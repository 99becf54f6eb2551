"""Runs the programs of ranks step by step: a capture process for each rank and step, the worker between them.

A program is a stranger's, so it runs where strangers' Python runs. The worker, which never runs it, is asked what each
rank was given so far, and computes and counts what the ranks ask for together.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from autograder.judge.capture_stage import Submission, captured
from autograder.judge.runner import Runner
from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Asked, RankAnswer
from autograder.records.rejection import Rejected
from autograder.records.request import Request
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.spec.programs import ProgramTask
from warplab.plan.capture.records import RecordForm

MOST_ROUNDS = 16  # more than the worker lets a program have
_SIDE_BY_SIDE = 4  # processes, which start for half of their time


def run_programs(
    task: ProgramTask, seed: int, request: Request, submission: Submission, runner: Runner
) -> tuple[list[CaseOutcome], dict[str, ScheduleModel]]:
    """The outcomes of all cases, and by function what is modelled where that is right. Raises Rejected, JudgeError."""
    rounds: list[list[RankAnswer]] = []
    functions = {program.modelled.name: program.function for program in task.functions}
    for _ in range(MOST_ROUNDS):
        said = runner.advance_programs(rounds, request.quick)
        if not said.next:
            return said.outcomes, {functions[model.case]: model for model in said.models if model.case in functions}
        rounds.append(_round(task, seed, request, submission, said.next))
    raise Rejected(Status.WORKER_CRASHED, "The submission made the judge's worker ask for more and more steps.")


def _round(
    task: ProgramTask, seed: int, request: Request, submission: Submission, asked: Sequence[Asked]
) -> list[RankAnswer]:
    """One step of every rank, of shown and of hidden cases apart; those that are shown first."""
    machine = request.machine

    def one(what: Asked) -> RankAnswer:
        group = []
        for name in what.cases:
            program, case = task.case(name)
            group.append((name, program.call(case, what.rank, program.drawn_arrays(case, seed))))
        answer = captured(
            submission, group, what.hidden, machine.architecture, machine.isolation, RecordForm.STEPS, what.contents
        )
        return RankAnswer(what.rank, **asdict(answer))

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return list(pool.map(one, asked))
