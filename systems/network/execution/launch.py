"""Has a process for each rank do its steps of a schedule, and compares what they end with.

Sockets are the default: a checkout without PyTorch runs every schedule with real processes that really send. With
PyTorch the same steps run over Gloo, and on a machine with GPUs over NCCL, point to point.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from systems.network.execution.group import Group
from systems.network.execution.outcome import Backend, Fault, Outcome, ScheduleJob, Verdict
from systems.network.schedules import Schedule, ScheduleError, check, reference
from systems.network.schedules.model import expand
from systems.network.schedules.reference import split_input

MOST_RANKS = 64  # processes on one machine
TYPES = ("float32", "float64", "int32", "int64")
_MODULE = "systems.network.execution.rank"


def execute(
    schedule: Schedule,
    inputs: NDArray[Any],
    backend: Backend = Backend.SOCKETS,
    patience: float = 5.0,
    faults: Sequence[Fault] = (),
) -> Outcome:
    """Run a schedule on `inputs`, shape (ranks, elements), and compare each rank's end with `reference`, bit for bit.

    `patience` is how many seconds a rank waits for another. A wrong schedule is refused, with what `check` says of it.
    Raises ScheduleError for inputs that do not fit, a type other than TYPES, or more than MOST_RANKS ranks.
    """
    if schedule.ranks > MOST_RANKS:
        raise ScheduleError(f"{schedule.name} has {schedule.ranks} ranks: at most {MOST_RANKS} run on one machine.")
    if inputs.dtype.name not in TYPES or inputs.ndim != 2 or len(inputs) != schedule.ranks:
        raise ScheduleError(f"{schedule.name} needs a row of {', '.join(TYPES)} for each of its {schedule.ranks} "
                            f"ranks, not {inputs.dtype} of shape {inputs.shape}.")  # fmt: skip
    if finding := check(schedule):
        return Outcome(Verdict.REFUSED, finding.sentence, finding.rank, finding.step)
    split_input(schedule, inputs)
    moves, blame = expand(schedule), {fault.rank: fault for fault in faults}
    pairs = (
        set(zip(moves.source.tolist(), moves.destination.tolist(), strict=True))
        if backend is Backend.SOCKETS
        else set()
    )
    rows = np.ascontiguousarray(inputs)
    with tempfile.TemporaryDirectory(prefix="warplab-ranks-") as folder:

        def job(rank: int, sockets: Mapping[int, int]) -> bytes:
            fault = blame.get(rank)
            told = ScheduleJob(
                schedule, rank, backend, inputs.dtype.name, inputs.shape[1], patience, dict(sockets),
                str(Path(folder) / "meeting"), fault.kind if fault else None, fault.step if fault else -1,
            )  # fmt: skip
            return msgspec.json.encode(told) + b"\n" + rows[rank].tobytes()

        group = Group(_MODULE, schedule.ranks, pairs, job, patience, Path(folder), backend)
        outcome = group.run()
    return outcome if outcome else _compare(schedule, inputs, group)


def _compare(schedule: Schedule, inputs: NDArray[Any], group: Group) -> Outcome:
    outputs = tuple(np.frombuffer(group.outputs[rank], inputs.dtype) for rank in range(schedule.ranks))
    for rank, (found, true) in enumerate(zip(outputs, reference(schedule, inputs), strict=True)):
        true = true.astype(inputs.dtype)
        if found.tobytes() != true.tobytes():
            at = int(np.flatnonzero(found != true)[0]) if len(found) == len(true) else 0
            words = f"Rank {rank} ended with {found[at]!r} where the schedule gives {true[at]!r}, at element {at}."
            return Outcome(Verdict.WRONG_RESULT, words, rank, None, outputs, group.seconds)
    words = f"All {schedule.ranks} ranks ended with what the schedule gives, to the last bit."
    return Outcome(Verdict.RIGHT, words, None, None, outputs, group.seconds)
