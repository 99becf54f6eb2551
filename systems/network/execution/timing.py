"""Times schedules beside the library's own collectives, in the same turns: processes with a GPU each, or over Gloo."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from systems.network.execution.group import Group
from systems.network.execution.outcome import Backend
from systems.network.links import NetworkError
from systems.network.schedules import Schedule, check

TURNS = 15
_PATIENCE = 45.0  # seconds that all ranks may be silent, twice: connecting, and a schedule's graphs and turns
_MODULE = "systems.network.execution.timed_rank"


class CannotTime(NetworkError):
    """A schedule gave no time here: why, in a sentence without its full stop."""


class TimedJob(msgspec.Struct, frozen=True):
    """What a rank's process is told."""

    schedules: tuple[Schedule, ...]
    sizes: tuple[int, ...]  # bytes, one a schedule
    rank: int
    backend: Backend
    turns: int
    rendezvous: str


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, turn by turn and the slowest rank's each: of a schedule, and of the library's collective."""

    schedule: tuple[float, ...]
    library: tuple[float, ...]


def time_schedules(
    schedules: Sequence[Schedule], sizes: Sequence[int], backend: Backend = Backend.NCCL, turns: int = TURNS
) -> list[Timing]:
    """The times of schedules, of one number of ranks, with so many bytes each, and of the library's collectives.

    Each is first carried out once and its end compared. Raises CannotTime for schedules that are wrong, a machine that
    lacks what the backend needs, and ranks that fail.
    """
    ranks = schedules[0].ranks
    for schedule in schedules:
        if finding := check(schedule):
            raise CannotTime(f"{schedule.name} is wrong: {finding.sentence.rstrip('.')}")
    with tempfile.TemporaryDirectory(prefix="warplab-timed-") as folder:

        def job(rank: int, sockets: Mapping[int, int]) -> bytes:
            meeting = str(Path(folder) / "meeting")
            return msgspec.json.encode(TimedJob(tuple(schedules), tuple(sizes), rank, backend, turns, meeting)) + b"\n"

        group = Group(_MODULE, ranks, (), job, _PATIENCE, Path(folder), backend)
        failed = group.run()
    if failed:
        raise CannotTime(failed.sentence.rstrip("."))
    took = np.frombuffer(group.outputs[0], np.float64)
    if took.size != len(schedules) * 2 * turns or not (np.isfinite(took) & (took > 0)).all():
        raise CannotTime("the ranks gave no times")
    return [Timing(tuple(mine), tuple(theirs)) for mine, theirs in took.reshape(-1, 2, turns).tolist()]
