"""Reads the records that a submission returned, and has each kind checked and modelled by the stage that knows it.

It reads a stranger's bytes, so it runs in a worker's sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Answer
from autograder.records.rejection import Rejected, rejected, without_details
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.spec.lab import load
from autograder.spec.records import RecordTask
from autograder.worker import checkpoint_stage, pipeline_stage, schedule_stage
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.protocol import decode_records
from warplab.plan.capture.records import RecordForm


@dataclass(frozen=True)
class _Stage:
    check: Callable[[Any, Any, bytes], tuple[CaseOutcome, bytes]]  # the outcome, and what would be carried out
    model: Callable[[Any, Any, bytes], ScheduleModel]


_STAGES = {
    RecordForm.TRANSFERS: _Stage(schedule_stage.check, schedule_stage.model),
    RecordForm.PASSES: _Stage(pipeline_stage.check, pipeline_stage.model),
    RecordForm.KEPT: _Stage(checkpoint_stage.check, checkpoint_stage.model),
}


def check_all(task: str, seed: int, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The outcome of every case in the answers of the capture processes, of the lab in the folder `task`.

    Gives {"outcomes", "run"}: what CaseOutcome.from_wire takes, and by case what is to be carried out or timed, as
    JSON; or {"refused"} if an answer is none.
    """
    drawn = _drawn(task, seed)
    outcomes, run = [], {}
    try:
        for name, blob in _blobs(answers):
            asked, case = drawn.case(name)
            outcome, content = _STAGES[drawn.form].check(asked, case, blob)
            if (case.run or case.timed) and outcome.status is Status.PASSED:
                run[case.name] = content
            outcomes.append(outcome.to_wire())
    except Rejected as rejection:
        return rejection.to_wire()
    return {"outcomes": outcomes, "run": run}


def model(task: str, seed: int, answers: Sequence[Mapping[str, Any]], case: str) -> dict[str, Any]:
    """What is modelled of the case of that name, as the form of a ScheduleModel. Raises NetworkError."""
    drawn = _drawn(task, seed)
    asked, found = drawn.case(case)
    blob = next(blob for name, blob in _blobs(answers) if name == case)
    return _STAGES[drawn.form].model(asked, found, blob).to_wire()


def _drawn(folder: str, seed: int) -> RecordTask[Any]:
    return load(Path(folder), RecordTask).task.drawn(seed)


def _blobs(answers: Sequence[Mapping[str, Any]]) -> list[tuple[str, bytes]]:
    """The records of every case, by its name. Raises Rejected."""
    found = []
    for answer in sorted((Answer(tuple(a["cases"]), a["content"], a["hidden"]) for a in answers), key=_hidden):
        try:
            blobs = decode_records(answer.content, len(answer.cases))
        except CaptureFailure as failure:
            rejection = rejected(failure)
            raise (without_details(rejection) if answer.hidden else rejection) from failure
        found += list(zip(answer.cases, blobs, strict=True))
    return found


def _hidden(answer: Answer) -> bool:
    return answer.hidden
