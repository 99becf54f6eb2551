"""What the processes of a pipeline are told."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from systems.network.execution import FaultKind
from systems.parallel.timeline import Orders


@dataclass(frozen=True)
class Work:
    """The orders of all ranks, and what they are of: see systems.parallel.order_check.check."""

    orders: Orders
    micro_batches: int
    chunks: int = 1
    split: bool = False


class TrainingJob(msgspec.Struct, frozen=True):
    """What a rank's process is told, in one line."""

    work: Work
    rank: int
    seed: int  # of weights and samples
    patience: float  # seconds that a peer may take
    sockets: dict[int, int]  # by peer: the number of an inherited file
    fault: FaultKind | None = None
    fault_place: int = -1  # of the pass from which on it misbehaves
