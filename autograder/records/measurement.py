"""What timing a submission gave: a measurement, or the reason why there is none. Their form on the wire is that of the
report's JSON too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec

from autograder.spec.task import Ceiling

COPY = Ceiling.COPY.value
# A worker that was taken over must not make a report fail by numbers that overflow where they are divided.
_LEAST, _MOST = 1e-30, 1e30


@dataclass(frozen=True)
class Library:
    """A library that did the same work in the same turns. `ratio`: how many times faster the submission is."""

    name: str
    median_ms: float
    ratio: float


@dataclass(frozen=True)
class Measurement:
    """A time against the roofline of the GPU that took it. Raises ValueError for numbers that no stopwatch gives.

    Times are in milliseconds, from `low_ms` to `high_ms` with 95% confidence. `efficiency` is `floor_ms` over the time,
    taken turn by turn, a fraction of 1. `ceilings` (measured in the same turns), `datasheet` and `work` have the same
    names, those of Ceiling: bytes (a second) for COPY, FLOP (a second) for the others.
    """

    median_ms: float
    low_ms: float
    high_ms: float
    samples: int  # turns
    floor_ms: float  # what the roofline allows at best
    bound: Literal["memory", "compute"]  # which ceiling gives the floor
    efficiency: float
    efficiency_low: float
    efficiency_high: float
    ceilings: Mapping[str, float]
    datasheet: Mapping[str, float]  # empty for a GPU whose datasheet is not on file
    throttled: bool  # the GPU slowed its clocks
    shared: bool  # another process used the GPU, for more of the time than is tolerated
    shared_fraction: float  # of the time
    library: Library | None
    throttle_reasons: tuple[str, ...]
    work: Mapping[str, float]  # of one run of the submission
    message: str = ""  # why no kernel can have taken this time; empty for a time that counts

    def __post_init__(self) -> None:
        for name, number in self._numbers():
            if not (math.isfinite(number) and abs(number) <= _MOST):
                raise ValueError(f"{name} is {number}")
        if self.work.keys() != self.ceilings.keys() or COPY not in self.work:
            raise ValueError("work and ceilings do not have the same names")
        positive = (self.median_ms, self.low_ms, self.high_ms, self.floor_ms, self.efficiency, self.work[COPY])
        if min(*positive, *self.ceilings.values(), *self.datasheet.values()) < _LEAST:
            raise ValueError("a time, a rate or an efficiency is not positive")

    @property
    def counts(self) -> bool:
        """Whether a kernel can have taken this time."""
        return not self.message

    def to_wire(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"status": "ok" if self.counts else "impossible", "message": self.message, **asdict(self)}

    def _numbers(self) -> Iterator[tuple[str, float]]:
        for name, value in asdict(self).items():
            for inner in value.values() if isinstance(value, dict) else (value,):
                if isinstance(inner, (int, float)):
                    yield name, inner


@dataclass(frozen=True)
class Unmeasured:
    """A submission that was to be timed and gave no time: a timed launch computed something "wrong", the GPU or the
    worker met with a "fault", or what the worker answered is "nonsense"."""

    status: Literal["wrong", "fault", "nonsense"]
    message: str

    def to_wire(self) -> dict[str, Any]:
        """JSON-able data."""
        return asdict(self)


@dataclass(frozen=True)
class _Head:
    status: Literal["ok", "impossible", "wrong", "fault", "nonsense"]
    message: str


def from_wire(data: Any) -> Measurement | Unmeasured:
    """The inverse of both `to_wire`. Raises msgspec.ValidationError: a worker may have been taken over."""
    head = msgspec.convert(data, _Head)
    if head.status not in ("ok", "impossible"):
        return msgspec.convert(data, Unmeasured)
    if bool(head.message) != (head.status == "impossible"):
        raise msgspec.ValidationError("a time that counts has a message, or an impossible one has none")
    return msgspec.convert(data, Measurement)
