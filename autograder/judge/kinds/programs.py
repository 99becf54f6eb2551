"""Labs that ask for programs of ranks: a capture process for each rank and step, the worker between them.

A program is a stranger's, so it runs where strangers' Python runs. The worker, which never runs it, is asked what each
rank was given so far, and computes and counts what the ranks ask for together.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from autograder.judge.capture_stage import captured
from autograder.judge.kinds.lab_kind import Grading
from autograder.judge.kinds.records import CheckedRecords, RecordKind
from autograder.judge.runner import Runner
from autograder.records.prepared import Advanced, NextStep, RankAnswer
from autograder.records.rejection import Rejected
from autograder.records.status import Status
from autograder.spec.programs import ProgramTask
from warplab.plan.capture.records import RecordForm

MOST_ROUNDS = 16  # more than the worker lets a program have
_ADVANCE = "autograder.worker.program_stage:advance"
_SIDE_BY_SIDE = 2  # processes, which share the memory that a submission has


class Programs(RecordKind[ProgramTask]):
    """Generators that are one rank each, and ask for collectives."""

    task = ProgramTask

    def run(self, grading: Grading[ProgramTask]) -> CheckedRecords:
        """Step by step until all have ended; what is right is modelled by what was counted on the way."""
        grading.progress("running the ranks, step by step", 0.0)
        rounds: list[list[RankAnswer]] = []
        functions = {program.modelled.name: program.function for program in grading.lab.task.functions}
        for _ in range(MOST_ROUNDS):
            said = advance(grading.runner, rounds, grading.request.quick)
            if not said.next:
                models = {functions[model.case]: model for model in said.models if model.case in functions}
                return CheckedRecords(said.outcomes, models)
            rounds.append(_round(grading, said.next))
        raise Rejected(Status.WORKER_CRASHED, "The submission made the judge's worker ask for more and more steps.")


def advance(runner: Runner, rounds: Sequence[Sequence[RankAnswer]], quick: bool) -> Advanced:
    """Where programs of ranks are after these rounds. Raises Rejected, JudgeError."""
    payload = {"rounds": [[asdict(answer) for answer in answers] for answers in rounds], "quick": quick}
    return runner.ask(_ADVANCE, "computing what its programs ask for", payload, Advanced)


def _round(grading: Grading[ProgramTask], asked: Sequence[NextStep]) -> list[RankAnswer]:
    """One step of every rank, of shown and of hidden cases apart; those that are shown first."""
    task, machine, submission = grading.lab.task, grading.request.machine, grading.submission

    def one(what: NextStep) -> RankAnswer:
        group = []
        for name in what.cases:
            program, case = task.case(name)
            group.append((name, program.call(case, what.rank, program.drawn_arrays(case, grading.seed))))
        where = machine.architecture, machine.isolation, RecordForm.STEPS, what.contents
        answer = captured(submission, group, what.hidden, *where, side_by_side=_SIDE_BY_SIDE)
        return RankAnswer(what.rank, **asdict(answer))

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return list(pool.map(one, asked))
