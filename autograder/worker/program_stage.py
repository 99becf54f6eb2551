"""Computes what the programs of ranks ask for, counts what that sends, and compares what they end with.

It reads a stranger's bytes, so it runs in a worker's sandbox. A program never runs here: each of its steps runs in a
capture process, which has the arrays of one rank and what this stage gave that rank. So what a rank knows of the others
has gone through here, and was counted.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from autograder.records.outcome import CaseOutcome
from autograder.records.rejection import Rejected, rejected, without_details
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.spec.lab import load
from autograder.spec.programs import SENT, Asking, Program, ProgramTask
from autograder.spec.records import RecordCase
from autograder.worker.record_rows import failed, rows
from systems.network.collectives import Collective
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.program_step import MOST_ARRAYS, MOST_ELEMENTS, encode_content
from warplab.plan.capture.protocol import decode_records, unusable
from warplab.plan.execution import FindingKind

MOST_STEPS = 8  # collectives and outputs of one program; a good one has two to five
TOLERANCE = 1e-9  # of an array's largest element: some hundred sums in another order stay far below

Array = NDArray[np.float64]


class _Packed(msgspec.Struct):
    shape: Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=MOST_ELEMENTS)]], msgspec.Meta(max_length=4)]
    data: str


class _Step(msgspec.Struct):
    operation: Literal["all_reduce", "all_gather", "reduce_scatter", "output"] | None
    arrays: Annotated[list[_Packed], msgspec.Meta(max_length=MOST_ARRAYS)]


@dataclass
class _Run:
    """One case on its way: what each rank was given so far, and what it asked for."""

    program: Program
    case: RecordCase
    whole: Mapping[str, Array]
    true: Mapping[str, Array]
    received: list[list[Array]]
    asked: list[Asking] = field(default_factory=list)
    given_out: bool = False
    outcome: CaseOutcome | None = None

    @property
    def ranks(self) -> int:
        return self.case.dimensions["ranks"]

    def advance(self, steps: Sequence[tuple[str | None, list[Array]]]) -> None:
        """One step of all ranks: the next they are given, or the outcome."""
        operations = [operation for operation, _ in steps]
        if len(set(operations)) > 1:
            other = next(rank for rank, operation in enumerate(operations) if operation != operations[0])
            words = f"Rank 0 {_does(operations[0])} where rank {other} {_does(operations[other])}: a deadlock."
            self.fail(FindingKind.DEADLOCK, words)
        elif operations[0] is None:
            self.end([arrays for _, arrays in steps])
        elif len(self.received[0]) == MOST_STEPS:
            self.fail(FindingKind.ENDLESS, f"More than {MOST_STEPS} steps: fewer must do.")
        elif operations[0] == "output":
            self.output([arrays[0] for _, arrays in steps])
        else:
            self.collective(Collective(operations[0]), [arrays[0] for _, arrays in steps])

    def collective(self, collective: Collective, parts: list[Array]) -> None:
        shapes = {part.shape for part in parts}
        if len(shapes) > 1:
            other = next(rank for rank, part in enumerate(parts) if part.shape != parts[0].shape)
            words = f"Rank 0 gives {parts[0].shape} to {collective} where rank {other} gives {parts[other].shape}."
            self.fail(FindingKind.OUT_OF_BOUNDS, words)
            return
        rows_ = parts[0].shape[0] if parts[0].ndim else 0
        if not rows_ or (collective is Collective.REDUCE_SCATTER and rows_ % self.ranks):
            words = f"{collective} cannot cut or join {parts[0].shape} along the first axis for {self.ranks} ranks."
            self.fail(FindingKind.OUT_OF_BOUNDS, words)
            return
        whole = np.concatenate(parts) if collective is Collective.ALL_GATHER else np.sum(parts, axis=0)
        if whole.size > MOST_ELEMENTS:
            raise Rejected(Status.RESOURCES, f"{collective} would give more than {MOST_ELEMENTS:,} elements.")
        self.asked.append((collective, whole.size))
        pieces = np.split(whole, self.ranks) if collective is Collective.REDUCE_SCATTER else [whole] * self.ranks
        for rank, piece in enumerate(pieces):
            self.received[rank].append(piece)

    def output(self, found: list[Array]) -> None:
        if self.given_out:
            self.outcome = CaseOutcome(self.case.name, Status.WRONG_ANSWER, self.words("The output is given twice."))
            return
        self.given_out = True
        for rank in range(self.ranks):
            if self.wrong("y", found, rank):
                return
        for rank in range(self.ranks):
            self.received[rank].append(self.program.part("dy", self.whole["dy"], rank, self.ranks))

    def end(self, returned: list[list[Array]]) -> None:
        gradients = [name for name in self.true if name != "y"]
        if not self.given_out:
            words = self.words('The programs end without yield "output", y.')
            self.outcome = CaseOutcome(self.case.name, Status.WRONG_ANSWER, words)
            return
        for rank, arrays in enumerate(returned):
            if len(arrays) != len(gradients):
                words = self.words(f"Rank {rank} returns {len(arrays)} arrays, not {', '.join(gradients)}.")
                self.outcome = CaseOutcome(self.case.name, Status.WRONG_ANSWER, words)
                return
        for rank in range(self.ranks):
            for place, name in enumerate(gradients):
                if self.wrong(name, [arrays[place] for arrays in returned], rank):
                    return
        self.outcome = CaseOutcome(self.case.name, Status.PASSED)

    def wrong(self, name: str, of_ranks: Sequence[Array], rank: int) -> bool:
        """Whether a rank's array is wrong, which is then the outcome."""
        true, found = self.program.part(name, self.true[name], rank, self.ranks), of_ranks[rank]
        if found.shape == true.shape and _near(found, true):
            return False
        if missing := _missing_sum(of_ranks, self.true[name], true):
            words = f"Rank {rank} has its own share of {name} instead of the sum over ranks. "
            words += f'Add up the shares with yield "{missing}".'
        elif found.shape != true.shape:
            words = f"Rank {rank} has {name} of shape {found.shape}, not {true.shape}."
        else:
            error = np.abs(found - true)
            at = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), error.shape)
            place = ", ".join(str(int(i)) for i in at)
            words = f"Rank {rank} has {found[at]:.6g} for {name}[{place}] of its part, where {true[at]:.6g} is right."
        self.outcome = CaseOutcome(self.case.name, Status.WRONG_ANSWER, self.words(words))
        return True

    def fail(self, kind: FindingKind, words: str) -> None:
        self.outcome = failed(self.case, kind, self.words(words))

    def words(self, said: str) -> str:
        size = ", ".join(f"{name}={value}" for name, value in self.case.dimensions.items())
        return f"{self.program.function}({size}): {said}"


def _near(found: Array, true: Array) -> bool:
    return bool(np.abs(found - true).max() <= TOLERANCE * np.abs(true).max())  # not so for NaN either


def _missing_sum(of_ranks: Sequence[Array], whole: Array, part: Array) -> Collective | None:
    """The collective that a program leaves out: the ranks' arrays add up to the whole, and each needs `part` of it."""
    if any(one.shape != whole.shape for one in of_ranks) or not _near(np.sum(of_ranks, axis=0), whole):
        return None
    return Collective.ALL_REDUCE if part.shape == whole.shape else Collective.REDUCE_SCATTER


def advance(
    task: str, seed: int, rounds: Sequence[Sequence[Mapping[str, Any]]], functions: Sequence[str], quick: bool
) -> dict[str, Any]:
    """Where the programs of these functions of the lab in the folder `task` are after the answers of all rounds so far.

    An answer has "rank", "hidden", "cases" and "content". Gives {"next": [...]}, what each capture process of the next
    round is asked: "rank", "hidden", "cases" and "contents"; nobody is asked once all have ended. {"outcomes",
    "models"} are of those that have, {"refused"} says that an answer was none.
    """
    lab = load(Path(task), ProgramTask).task.drawn(seed)
    runs = {
        case.name: _begun(program, case, seed) for program, case in lab.cases(quick) if program.function in functions
    }
    try:
        for answers in rounds:
            _advance(runs, answers)
    except Rejected as rejection:
        return rejection.to_wire()
    return {
        "next": list(_next(runs)),
        "outcomes": [run.outcome.to_wire() for run in runs.values() if run.outcome],
        "models": [
            _model(run).to_wire()
            for run in (runs[program.modelled.name] for program in lab.functions if program.function in functions)
            if run.outcome and run.outcome.status is Status.PASSED
        ],
    }


def _begun(program: Program, case: RecordCase, seed: int) -> _Run:
    whole = program.drawn_arrays(case, seed)
    return _Run(program, case, whole, program.true(whole), [[] for _ in range(case.dimensions["ranks"])])


def _advance(runs: Mapping[str, _Run], answers: Sequence[Mapping[str, Any]]) -> None:
    steps: dict[str, dict[int, tuple[str | None, list[Array]]]] = {}
    for answer in sorted(answers, key=lambda answer: answer["hidden"]):
        try:
            blobs = decode_records(answer["content"], len(answer["cases"]))
            for name, blob in zip(answer["cases"], blobs, strict=True):
                steps.setdefault(name, {})[answer["rank"]] = _step(blob)
        except CaptureFailure as failure:
            rejection = rejected(failure)
            raise (without_details(rejection) if answer["hidden"] else rejection) from failure
    for name, by_rank in steps.items():
        runs[name].advance([by_rank[rank] for rank in range(runs[name].ranks)])


def _step(blob: bytes) -> tuple[str | None, list[Array]]:
    step = rows(blob, _Step)
    try:
        arrays = [np.frombuffer(base64.b64decode(a.data, validate=True)).reshape(a.shape) for a in step.arrays]
        if step.operation is not None and len(arrays) != 1:
            raise ValueError("an operation takes one array")
        return step.operation, arrays
    except ValueError as error:
        raise rejected(unusable(error)) from None


def _next(runs: Mapping[str, _Run]) -> Any:
    left = [run for run in runs.values() if run.outcome is None]
    for hidden in (False, True):
        for rank in range(max((run.ranks for run in left if run.case.hidden is hidden), default=0)):
            mine = [run for run in left if run.case.hidden is hidden and rank < run.ranks]
            yield {
                "rank": rank,
                "hidden": hidden,
                "cases": [run.case.name for run in mine],
                "contents": [_content(run, rank) for run in mine],
            }


def _content(run: _Run, rank: int) -> str:
    inputs = run.program.inputs(run.whole, rank, run.ranks)
    return encode_content(list(inputs.values()), run.received[rank])


def _model(run: _Run) -> ScheduleModel:
    wires, ranks = run.program.wires, run.ranks
    seconds = sum(wires.seconds(asked, ranks) for asked in run.asked)
    least = sum(wires.seconds(asked, ranks) for asked in run.program.least(run.case.dimensions))
    sent = round(sum(wires.sent(asked, ranks) for asked in run.asked))
    # All that a rank learns has gone through here: a program that packs its numbers more tightly really sends less.
    return ScheduleModel(run.case.name, seconds, min(least, seconds), {SENT: sent})


def _does(operation: str | None) -> str:
    return "ends" if operation is None else f"asks for {operation}"
