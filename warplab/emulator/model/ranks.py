"""Which sectors of global memory go over the link between two ranks that are modelled on one GPU.

The first half of a launch's blocks is rank 0, the other half rank 1. The first half of each array is rank 0's memory,
the other half rank 1's, as in a symmetric heap. A request crosses the link if a block asks for a sector of the other
rank; a sector where an array's halves meet is local to both. Each request counts its distinct sectors, because the link
has no cache. Memory outside the arrays, such as a variable of the module, belongs to neither rank, and every request
for it counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from warplab.emulator.core.memory.request_log import (
    BLOCK_SHIFT,
    KIND_SHIFT,
    LINE_SHIFT,
    LOG_ATOMIC,
    LOG_BULK_READ,
    LOG_BULK_WRITE,
    LOG_READ,
    LOG_READ_PAST_L1,
    LOG_WRITE,
)
from warplab.emulator.model.reads import Waves
from warplab.hardware.records import Chip
from warplab.plan.execution import CacheTraffic
from warplab.plan.model import Launch

RANKS = 2
_READS = (LOG_READ, LOG_READ_PAST_L1, LOG_BULK_READ)
_WRITES = (LOG_WRITE, LOG_ATOMIC, LOG_BULK_WRITE)
_SECTORS, _SECTOR_SHIFT = 4, 5  # of a line; log2 of a sector's bytes
_BOTH, _NEITHER = -1, RANKS  # homes beside the ranks' numbers


@dataclass(frozen=True)
class Span:
    """Memory from an address on, so many bytes; `copied`: each rank has a copy of it, in place of a half."""

    start: int
    size: int
    copied: bool


class LinkOfRanks(Waves):
    """The requests of a launch that cross the link, with arrays at these places."""

    def __init__(self, chip: Chip, launch: Launch, blocks_per_sm: int, arrays: Iterable[Span]) -> None:
        super().__init__(chip, launch, blocks_per_sm)
        self._blocks = prod(launch.grid)
        bounds = [(0, _NEITHER)]
        for one in sorted(arrays, key=lambda one: one.start):
            halves = [(one.start, 0), (one.start + one.size // RANKS, 1)]
            bounds += [(one.start, _BOTH)] if one.copied else halves
            bounds += [(one.start + one.size, _NEITHER)]
        self._starts, self._homes = (np.array(column, dtype=np.int64) for column in zip(*bounds, strict=True))
        self._read = self._written = 0

    def note(self, entries: np.ndarray) -> None:
        """Count what crosses of some entries of the log."""
        words, ranks = entries[:, 0], RANKS * (entries[:, 1] >> BLOCK_SHIFT) // self._blocks
        kinds = words >> KIND_SHIFT & 15
        for sector in range(_SECTORS):
            first = ((words >> LINE_SHIFT) * _SECTORS + sector) << _SECTOR_SHIFT
            crosses = (words >> sector & 1).astype(bool)
            for byte in (first, first + (1 << _SECTOR_SHIFT) - 1):
                homes = self._homes[np.searchsorted(self._starts, byte, side="right") - 1]
                crosses &= (homes != _BOTH) & (homes != ranks)
            self._read += int((crosses & np.isin(kinds, _READS)).sum())
            self._written += int((crosses & np.isin(kinds, _WRITES)).sum())

    def traffic(self) -> CacheTraffic:
        """The sectors that cross the link."""
        return self._traffic_of(link_read_sectors=self._read, link_written_sectors=self._written)
