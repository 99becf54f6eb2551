"""Notices that another process uses the GPU while something is timed.

Processes share a GPU in time slices of a few milliseconds: while another one has it, a kernel of ours stands still. A
watching kernel sees that as a jump of the global timer between two reads that otherwise lie nanoseconds apart. This
needs no rights and no list of processes, which containers hide, and an idle process that only holds memory is rightly
not counted. Processes that share the GPU in space (MPS) are not seen; `Device.mps` says whether this one would.
"""

from __future__ import annotations

import cupy
import numpy as np
from cuda.core import Stream

from warplab.gpu import trusted

WATCH_NANOSECONDS = 4_000_000
JUMP_NANOSECONDS = 50_000  # far above an interrupt or a step of the timer, far below a time slice
# Fraction of the watched time that may be lost before a measurement counts as disturbed. Medians bear more: with 3%
# lost the efficiency of lab 01 was off by less than 0.01% (stopwatch.json). Contexts that others make lose a little.
TOLERATED = 0.02


class SharingProbe:
    """A candidate of a race that takes a turn at watching; `share` tells what it saw."""

    launches = 1

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._seen = cupy.zeros(3, dtype=cupy.uint64)  # nanoseconds watched, nanoseconds lost, jumps

    def prepare(self, turn: int) -> None:
        """Nothing to prepare."""

    def launch(self) -> None:
        """Queue one watch."""
        limits = np.uint64(WATCH_NANOSECONDS), np.uint64(JUMP_NANOSECONDS)
        trusted.run(self._stream, "watch", 1, 1, *limits, np.uint64(self._seen.data.ptr))

    def check(self, turn: int) -> None:
        """Nothing to check."""

    @property
    def share(self) -> float:
        """The fraction of the watched time in which another process had the GPU."""
        watched, lost, _ = (int(n) for n in self._seen.get())
        return lost / watched if watched else 0.0
