"""What a lab asks for whose submissions are pipeline schedules: the order of the passes of every rank.

A submission's functions are called with sizes and return records (rank, pass, micro-batch, chunk), a rank's in its
order. Rank r of p has the layers' parts r, p + r, 2 p + r, ..., which it calls its chunks 0, 1, 2, ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from autograder.spec.records import AskedFunction, Limit, RecordTask
from autograder.spec.task import Dimensions
from warplab.plan.capture.records import RecordForm


@dataclass(frozen=True)
class PassTimes:
    """Seconds of a micro-batch's passes at one rank, all of its chunks together, and of one transfer between ranks.

    A backward pass takes `input_part + weights`.
    """

    forward: float
    input_part: float
    weights: float
    transfer: float


@dataclass(frozen=True)
class Pipeline(AskedFunction):
    """One function of the submission, and what its orders are judged by.

    The arguments `ranks` and `micro_batches` have these names; `chunks` is an argument or 1. `split`: a backward pass
    is two, for the input's gradient (B) and for the weights' (W). The bubble in the modelled case is held against the
    least of systems.parallel.bubbles; `held` is how many chunks' activations a rank may keep at once, and `reason` what
    an order does that keeps more.
    """

    measured: ClassVar = "bubble"

    times: PassTimes
    held: Callable[[Dimensions, int], int]  # of the size and the rank
    reason: str
    split: bool = False

    def limits(self, counters: Mapping[str, int]) -> tuple[Limit, ...]:
        """The budget of the rank that is furthest above it, or has the least room."""
        return (max(self.all_limits(), key=lambda limit: counters.get(limit.counter, 0) - limit.most),)

    def all_limits(self) -> tuple[Limit, ...]:
        """The budget of each rank."""
        size = self.modelled.dimensions
        return tuple(Limit(held_by(rank), self.held(size, rank), self.reason) for rank in range(ranks_of(size)))


def held_by(rank: int) -> str:
    """The counter of the activations that a rank holds at most, in chunks of one micro-batch."""
    return f"held_by_rank_{rank}"


def ranks_of(size: Dimensions) -> int:
    """The ranks of a size."""
    return size["ranks"]


def chunks_of(size: Dimensions) -> int:
    """The chunks of a rank."""
    return size.get("chunks", 1)


@dataclass(frozen=True)
class PipelineTask(RecordTask[Pipeline]):
    """What `labs/<lab>/task.py` defines as TASK where lab.toml has `kind = "pipelines"`."""

    kind: ClassVar = "pipelines"
    form: ClassVar = RecordForm.PASSES
