"""Has processes, a rank each, carry out what the worker has checked: a schedule on numbers, or a pipeline on layers.

They run this project's code on data that is read by a schema and checked again. A right schedule leaves them no choice
in what they end with, so that another end is a fault of the judge and not of the submission.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from autograder.judge.runner import JudgeError
from systems.network.execution import Outcome, Verdict, execute
from systems.network.schedules import ScheduleError, loads
from systems.parallel.execution import Work, train
from systems.parallel.shapes import LayoutError
from warplab.plan.capture.records import RecordForm

PATIENCE = 30.0  # seconds that a rank waits for another: processes of a busy machine start late
_ELEMENTS = 8  # of a chunk, where processes run a schedule


def carry_out(form: RecordForm, name: str, content: bytes, seed: int) -> None:
    """Run the case of that name, whose schedule or work the worker gave as JSON. Raises JudgeError if that is none, or
    the processes do not end as it says."""
    try:
        outcome = _RUNS[form](content, seed)
    except (ScheduleError, LayoutError, msgspec.MsgspecError) as error:
        raise JudgeError(f"the worker gave no schedule for the case {name!r}: {error}") from error
    if outcome.verdict is not Verdict.RIGHT:
        raise JudgeError(f"processes that ran the case {name!r} did not end as it says: {outcome.sentence}")


def _transfers(content: bytes, seed: int) -> Outcome:
    schedule = loads(content)
    inputs = np.random.default_rng(seed).standard_normal((schedule.ranks, schedule.chunks * _ELEMENTS))
    return execute(schedule, inputs.astype(np.float32), patience=PATIENCE)


def _passes(content: bytes, seed: int) -> Outcome:
    return train(msgspec.json.decode(content, type=Work), seed, patience=PATIENCE)


_RUNS: dict[RecordForm, Callable[[bytes, int], Outcome]] = {
    RecordForm.TRANSFERS: _transfers,
    RecordForm.PASSES: _passes,
}
