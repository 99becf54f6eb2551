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
from autograder.judge.kinds.records import RecordKind
from autograder.judge.record_parts import CheckedRecords, right_functions
from autograder.judge.runner import Runner
from autograder.records.prepared import Advanced, NextStep, RankAnswer
from autograder.records.rejection import Rejected
from autograder.records.status import Status
from autograder.spec.programs import ProgramTask
from autograder.spec.records import AskedFunction
from warplab.interrupts import ends_threads
from warplab.plan.capture.records import RecordForm

MOST_ROUNDS = 16  # more than the worker lets a program have
_ADVANCE = "autograder.worker.program_stage:advance"
_SIDE_BY_SIDE = 2  # processes, which share the memory that a submission has


class Programs(RecordKind[ProgramTask]):
    """Generators that are one rank each, and ask for collectives."""

    task = ProgramTask

    def run_functions(self, grading: Grading[ProgramTask], functions: Sequence[AskedFunction]) -> CheckedRecords:
        """Step by step until all have ended; what is right is modelled by what was counted on the way."""
        grading.progress("running the ranks, step by step", 0.0)
        rounds: list[list[RankAnswer]] = []
        names = [asked.function for asked in functions]
        for _ in range(MOST_ROUNDS):
            said = advance(grading.runner, rounds, names, grading.request.quick)
            if not said.next:
                right = {asked.modelled.name: asked.function for asked in right_functions(functions, said.outcomes)}
                models = {right[model.case]: model for model in said.models if model.case in right}
                return CheckedRecords(said.outcomes, models)
            rounds.append(_round(grading, said.next))
        raise Rejected(Status.WORKER_CRASHED, "The submission made the judge's worker ask for more and more steps.")


def advance(runner: Runner, rounds: Sequence[Sequence[RankAnswer]], functions: Sequence[str], quick: bool) -> Advanced:
    """Where programs of ranks of these functions are after these rounds. Raises Rejected, JudgeError."""
    answers = [[asdict(answer) for answer in answers] for answers in rounds]
    payload = {"rounds": answers, "functions": list(functions), "quick": quick}
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

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool, ends_threads():
        return list(pool.map(one, asked))
