"""What the worker's model says of one schedule or plan: its time or other cost, the bound, what it sends where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_LEAST, _MOST = 1e-12, 1e6


@dataclass(frozen=True)
class ScheduleModel:
    """A simulated schedule, or a plan. Raises ValueError for times that no simulation gives.

    `cost` is in seconds, modelled and not measured, or in MB or MFLOP of a plan (autograder.spec.checkpoints); `bound`
    is what none can beat. `counters` are whole numbers of bytes, ranks and steps, by the names of
    autograder.spec.schedules.SendBudget.
    """

    case: str
    cost: float
    bound: float
    counters: Mapping[str, int]

    def __post_init__(self) -> None:
        for name, value in (("cost", self.cost), ("bound", self.bound)):
            if not (math.isfinite(value) and _LEAST <= value <= _MOST):
                raise ValueError(f"{name} is {value}")

    @property
    def share(self) -> float:
        """The bound over the cost, a fraction of 1."""
        return self.bound / self.cost

    def to_wire(self) -> dict[str, Any]:
        """JSON-able data."""
        return asdict(self)
