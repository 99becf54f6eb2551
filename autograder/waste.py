"""Which lines of a submission move more than they use, from the emulator's counters."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.verdict import Report
from warplab.plan.execution import Counters

_MOST_SECTORS = 16.0  # a warp's 16-byte accesses, side by side, need this many; nothing needs more
_SLACK = 1.25  # an offset array costs a sector now and then; below this it is not worth a reader's attention


@dataclass(frozen=True)
class LineWaste:
    """The global and shared accesses of one line, over all kernels. Ratios are 0 where the line has no such access."""

    line: int
    requests: int  # global loads, stores and atomics, one a warp
    sectors_per_request: float
    ideal_sectors_per_request: float  # had the same threads read the same bytes side by side
    shared_requests: int
    bank_conflicts: int
    local_sectors: int  # spills and arrays that are indexed by a variable

    @property
    def wasteful(self) -> bool:
        """Whether the line is worth changing."""
        limit = self.ideal_sectors_per_request * _SLACK if self.ideal_sectors_per_request else _MOST_SECTORS
        return self.sectors_per_request > limit or self.bank_conflicts > 0 or self.local_sectors > 0


def wasted_lines(report: Report) -> list[LineWaste]:
    """Every line that touches memory, in order; empty without a profile."""
    if report.profile is None:
        return []
    lines = [_line(number, counters) for number, counters in sorted(report.profile.lines.items()) if number > 0]
    return [item for item in lines if item.requests or item.shared_requests or item.local_sectors]


def _line(number: int, c: Counters) -> LineWaste:
    requests = c.global_load_requests + c.global_store_requests
    sectors = c.global_load_sectors + c.global_store_sectors
    ideal = c.global_load_ideal_sectors + c.global_store_ideal_sectors
    return LineWaste(
        number,
        requests,
        sectors / requests if requests else 0.0,
        ideal / requests if requests else 0.0,
        c.shared_load_requests + c.shared_store_requests,
        c.shared_load_bank_conflicts + c.shared_store_bank_conflicts,
        c.local_load_sectors + c.local_store_sectors,
    )
