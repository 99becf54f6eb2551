"""What is recorded of a lab's rungs: their counters on the profile case, and how fast they were on a GPU.

`rungs.json` beside a lab's task.py holds it, for whoever has neither the solutions nor a GPU. `python -m
benchmarks.rungs` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from autograder.spec.lab import LabError
from autograder.spec.task import Dimensions, Task
from warplab.plan.execution import Counters

FILE = "rungs.json"
INSTRUCTIONS = "warp_instructions"
_SECTOR, _WARP = 32, 32  # bytes, lanes


@dataclass(frozen=True)
class Counted:
    """The relative_counters of a rung for one size of the profile case, and one draw of its inputs."""

    size: Dimensions
    counters: Mapping[str, float]


@dataclass(frozen=True)
class RecordedRung:
    """One rung. `share` is how fast it was, as a fraction of what `Recorded.of` names; None if nobody timed it."""

    name: str  # of its file, without the suffix
    what: str  # it does, in a line; empty for a reference
    share: float | None
    counted: tuple[Counted, ...]  # for every size of the class if it has few, else for the nominal one

    def at(self, size: Dimensions) -> list[Mapping[str, float]]:
        """Its counters for a size of the profile case, or else for the first size that was counted."""
        same = [one.counters for one in self.counted if one.size == size]
        return same or [one.counters for one in self.counted[:1]]


@dataclass(frozen=True)
class Recorded:
    """The rungs of a lab, ladder by ladder, each from below, and the references after them."""

    gpu: str  # of the shares, where there are any
    of: str
    rungs: tuple[RecordedRung, ...]
    left_out: tuple[str, ...]  # other kernels are timed than what is counted: counters say nothing of their speed


def recorded(folder: Path) -> Recorded | None:
    """What is recorded of the lab in `folder`; None if nothing is. Raises LabError if the file is damaged."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Recorded)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(f"{path} cannot be read ({error}): write it anew with python -m benchmarks.rungs.") from error


def relative_counters(task: Task, dimensions: Dimensions, counters: Counters) -> dict[str, float]:
    """The counters that have budgets, and the instructions, relative to what grows with the size of the profile case.

    A counter is divided by its limit; where nothing is allowed, by the sectors that have to move; instructions of
    warps by the bytes and operations of the task, a warp's 32 of them at a time.
    """
    moved = task.bytes_moved(dimensions)
    found = {
        budget.counter: counters.amount(budget.counter) / (float(budget.limit(dimensions)) or moved / _SECTOR)
        for budget in task.budgets
    }
    return found | {INSTRUCTIONS: counters.warp_instructions * _WARP / (moved + task.flops(dimensions))}
