"""The roofline: what a kernel can hope for, given how much it computes for each byte that it moves.

Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures",
Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Bound(StrEnum):
    """Which ceiling limits a kernel."""

    MEMORY = "memory"
    COMPUTE = "compute"


@dataclass(frozen=True)
class Roofline:
    """Two ceilings: `peak_flops` in FLOP/s and `bandwidth` in bytes/s. `name` says whose they are and of what kind.

    Raises ValueError if a ceiling is not positive.
    """

    peak_flops: float
    bandwidth: float
    name: str = ""

    def __post_init__(self) -> None:
        if not (self.peak_flops > 0 and self.bandwidth > 0):
            raise ValueError(
                f"a roofline needs positive ceilings, not {self.peak_flops} FLOP/s and {self.bandwidth} B/s"
            )

    @property
    def ridge(self) -> float:
        """The intensity, in FLOP/byte, from which the compute ceiling is the lower one."""
        return self.peak_flops / self.bandwidth

    def attainable(self, intensity: float) -> float:
        """The most FLOP/s at an arithmetic intensity in FLOP/byte: min(peak, intensity * bandwidth)."""
        return min(self.peak_flops, intensity * self.bandwidth)

    def bound(self, intensity: float) -> Bound:
        """The ceiling that limits a kernel of this intensity; compute at the ridge itself."""
        return Bound.MEMORY if intensity < self.ridge else Bound.COMPUTE

    def floor_seconds(self, flops: float, bytes_moved: float) -> float:
        """The least time in seconds: max(flops / peak, bytes / bandwidth)."""
        return max(flops / self.peak_flops, bytes_moved / self.bandwidth)
