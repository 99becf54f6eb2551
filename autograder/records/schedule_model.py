"""What the worker's model says of one schedule: its time on a network, the bound, what it sends where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

_LEAST, _MOST = 1e-12, 1e6  # seconds


@dataclass(frozen=True)
class ScheduleModel:
    """A simulated schedule. Raises ValueError for times that no simulation gives.

    `seconds` are modelled, not measured; `bound` is what no schedule can beat. `counters` are whole numbers of bytes,
    ranks and steps, by the names of autograder.spec.schedules.SendBudget.
    """

    case: str
    seconds: float
    bound: float
    counters: Mapping[str, int]

    def __post_init__(self) -> None:
        for name, value in (("seconds", self.seconds), ("bound", self.bound)):
            if not (math.isfinite(value) and _LEAST <= value <= _MOST):
                raise ValueError(f"{name} is {value}")

    @property
    def share(self) -> float:
        """The bound over the time, a fraction of 1."""
        return self.bound / self.seconds

    def to_wire(self) -> dict[str, Any]:
        """JSON-able data."""
        return asdict(self)

    @staticmethod
    def from_wire(data: Any) -> ScheduleModel:
        """The inverse of `to_wire`. Raises msgspec.ValidationError: a worker may have been taken over."""
        return msgspec.convert(data, ScheduleModel)
