"""Has processes, a rank each, carry out what the worker has checked: a schedule on numbers, or a pipeline on layers.

They run this project's code on data that is read by a schema and checked again. A right schedule leaves them no choice
in what they end with, so that another end is a fault of the judge and not of the submission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from autograder.judge.ruling import Ruling
from autograder.judge.runner import JudgeError
from autograder.records.status import Status
from systems.network.execution import Outcome, Verdict, execute
from systems.network.schedules import ScheduleError, loads
from systems.parallel.execution import Work, train
from systems.parallel.shapes import LayoutError

PATIENCE = 30.0  # seconds that a rank waits for another: processes of a busy machine start late
_ELEMENTS = 8  # of a chunk, where processes run a schedule


Run = Callable[[bytes, int], Outcome]  # of what the worker gave as JSON, with a seed


def carried_out(run: Run, to_run: Mapping[str, bytes], seed: int) -> Ruling:
    """How the cases end, whose schedules or work the worker gave. Raises JudgeError if `carry_out` does."""
    for name, content in to_run.items():
        carry_out(run, name, content, seed)
    words = "Nothing comes too early, and there is no deadlock"
    words += f"; processes that ran {len(to_run)} of them agree." if to_run else "."
    return Ruling(Status.PASSED, words)


def carry_out(run: Run, name: str, content: bytes, seed: int) -> None:
    """Run the case of that name. Raises JudgeError if the content is no schedule or work, or the processes do not end
    as it says."""
    try:
        outcome = run(content, seed)
    except (ScheduleError, LayoutError, msgspec.MsgspecError) as error:
        raise JudgeError(f"the worker gave no schedule for the case {name!r}: {error}") from error
    if outcome.verdict is not Verdict.RIGHT:
        raise JudgeError(f"processes that ran the case {name!r} did not end as it says: {outcome.sentence}")


def transfers(content: bytes, seed: int) -> Outcome:
    """Send numbers as a schedule says."""
    schedule = loads(content)
    inputs = np.random.default_rng(seed).standard_normal((schedule.ranks, schedule.chunks * _ELEMENTS))
    return execute(schedule, inputs.astype(np.float32), patience=PATIENCE)


def passes(content: bytes, seed: int) -> Outcome:
    """Train layers in the orders of a pipeline."""
    return train(msgspec.json.decode(content, type=Work), seed, patience=PATIENCE)
