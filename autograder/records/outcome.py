"""What a worker says about one case, and its form on the wire between the worker and the judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from autograder.records.status import Status
from warplab.plan.execution import Counters, Finding, Writer


@dataclass(frozen=True)
class FirstWrong:
    """The first wrong element of an output, in C order."""

    output: str
    index: tuple[int, ...]
    got: float
    expected: float
    allowed: float  # the largest absolute error that would have passed
    unwritten: bool = False  # no thread stored it
    writer: Writer | None = None  # who stored it last, where that can be told


@dataclass(frozen=True)
class LaneRequest:
    """One request of a warp to memory that costs more than it must: what each of its 32 lanes asks for."""

    line: int
    space: str  # global, shared or local
    verb: str
    array: str
    size: int  # bytes per lane
    addresses: tuple[int | None, ...]  # of each lane, in bytes; None for a lane that takes no part


@dataclass
class CaseOutcome:
    """One case on one executor. `counters` and `lines` are filled by the emulator only."""

    case: str
    status: Status
    message: str = ""
    cause: str = ""
    wrong: int = 0
    total: int = 0
    worst_ratio: float = 0.0
    first_wrong: FirstWrong | None = None
    findings: list[Finding] = field(default_factory=list)
    counters: Counters | None = None
    lines: dict[int, Counters] = field(default_factory=dict)
    counters_note: str = ""  # what a reader of the counters should know
    seconds: float = 0.0
    processor_seconds: float | None = None  # of all threads; the emulator's only
    code: list[int] = field(default_factory=list)  # lines of the submission that its kernels have instructions of
    ran: list[int] = field(default_factory=list)  # those that a thread ran in some order
    worst_request: LaneRequest | None = None  # of the line that wastes most, on the profile case
    printed: str = ""  # by the kernels of a case that is shown, as much as a report can show

    def to_wire(self) -> dict[str, Any]:
        """JSON-able data: string keys, no classes."""
        return asdict(self) | {"lines": {str(line): asdict(counters) for line, counters in self.lines.items()}}

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> CaseOutcome:
        """The inverse of `to_wire`. Raises msgspec.ValidationError: a worker may have been taken over."""
        return msgspec.convert(data, CaseOutcome, str_keys=True)
