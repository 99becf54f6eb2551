"""Times a submission's schedules on this machine's GPUs, beside NCCL's own collectives in the same turns.

Schedules are data that was checked, and are checked again: processes of ours carry them out, a rank on each GPU, over
NCCL's point-to-point messages. What they take is held against NCCL's collective of the same kind and size, which any
schedule over such messages can come near to and few can beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import msgspec

from autograder.records.request import Request
from autograder.spec.schedules import ScheduleTask
from systems.network.execution.timing import CannotTime, Timing, time_schedules
from systems.network.schedules import ScheduleError, loads
from warplab import hardware
from warplab.gpu.statistics import Interval, median_interval


@dataclass(frozen=True)
class TimedSchedule:
    """One function's schedule beside NCCL: NCCL's time over the schedule's, turn by turn, and both times."""

    function: str
    ranks: int
    share: Interval
    schedule: Interval  # seconds
    library: Interval


@dataclass(frozen=True)
class TimedSchedules:
    """All of them; or why there are none, and whether that leaves their points out of the maximum."""

    found: tuple[TimedSchedule, ...] = ()
    why: str = ""
    left_out: bool = True


def time_on_gpus(task: ScheduleTask, request: Request, checked: Mapping[str, bytes]) -> TimedSchedules:
    """Time the schedules of `checked`, JSON by case, that the task wants timed on as many GPUs as there are."""
    if not request.has_gpu:
        return TimedSchedules(why="needs two GPUs")
    gpus = hardware.count()
    wanted = task.timed(gpus)
    if not wanted:
        return TimedSchedules(why="needs two GPUs and there is one")
    if find_spec("torch") is None:
        return TimedSchedules(why="needs PyTorch, which is not installed here (make torch)", left_out=False)
    try:
        schedules = [loads(checked[case.name]) for _, case in wanted]
        took = time_schedules(schedules, [asked.size for asked, _ in wanted])
    except (CannotTime, ScheduleError, msgspec.MsgspecError, KeyError) as error:
        return TimedSchedules(why=f"the GPUs gave no time ({error})")
    ranks = schedules[0].ranks
    return TimedSchedules(
        tuple(beside_nccl(asked.function, ranks, timing) for (asked, _), timing in zip(wanted, took, strict=True))
    )


def beside_nccl(function: str, ranks: int, timing: Timing) -> TimedSchedule:
    """Medians of the turns, and of what NCCL's time is of the schedule's in the same turn."""
    pairs = zip(timing.library, timing.schedule, strict=True)
    share = median_interval([library / schedule for library, schedule in pairs])
    return TimedSchedule(function, ranks, share, median_interval(timing.schedule), median_interval(timing.library))
