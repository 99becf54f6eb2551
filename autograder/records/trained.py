"""What a worker counted of training steps with plans of checkpoints, and its form on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from autograder.records.text import clean


@dataclass(frozen=True)
class TrainedStep:
    """One step with a plan: bytes kept between the passes, and alive at the peak, more than with a full checkpoint;
    FLOP more than where everything is kept; whether every gradient has the bits that it has there."""

    case: str
    kept: int
    peak: int
    again: int
    same: bool


@dataclass(frozen=True)
class Trained:
    """The steps, by which version of PyTorch; without any and "" where it is not installed."""

    torch: str
    steps: tuple[TrainedStep, ...]

    @staticmethod
    def from_wire(data: Any) -> Trained:
        """What `checkpoint_run.carry_out` says. Raises msgspec.ValidationError: a worker may have been taken over."""
        said = msgspec.convert(data, Trained)
        return Trained(clean(said.torch), said.steps)
