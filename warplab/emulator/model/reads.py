"""Which sectors of global memory each SM reads in a launch: how evenly work is spread, whatever it waits for.

Each sector counts once for an SM, so that polling a flag counts as one. Blocks go to SMs in turn, as in `caches`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from warplab.emulator.core.memory.request_log import (
    BLOCK_SHIFT,
    KIND_SHIFT,
    LINE_SHIFT,
    LOG_BULK_READ,
    LOG_READ,
    LOG_READ_PAST_L1,
    RequestLog,
)
from warplab.hardware.records import Chip
from warplab.plan.execution import CacheTraffic
from warplab.plan.model import Launch

LOG_LIMIT = 4 << 20  # entries of 16 bytes, of one wave of blocks
_READS = (LOG_READ, LOG_READ_PAST_L1, LOG_BULK_READ)
_SECTORS = 4  # of a line


class Waves:
    """The requests of a launch with `blocks_per_sm` blocks per SM, wave by wave: blocks of a wave may wait for each
    other."""

    def __init__(self, chip: Chip, launch: Launch, blocks_per_sm: int) -> None:
        self.log = RequestLog(LOG_LIMIT)
        self._blocks_per_sm = blocks_per_sm
        cluster = prod(launch.cluster)
        self._clusters = prod(launch.grid) // cluster
        self._wave = max(chip.sms * blocks_per_sm // cluster, 1)

    def slices(self) -> Iterator[tuple[int, int]]:
        """Clusters [first, last) to run, one part after the other."""
        for first in range(0, self._clusters, self._wave):
            yield first, min(first + self._wave, self._clusters)
            self.note(self.log.take())

    def note(self, entries: np.ndarray) -> None:
        """Take the requests of a wave's blocks, entries of the log."""
        raise NotImplementedError

    def _traffic_of(self, **amounts: int) -> CacheTraffic:
        """The traffic with these amounts, and zeros for the caches."""
        none = dict.fromkeys(CacheTraffic.__dataclass_fields__, 0)
        own = {"blocks_per_sm": self._blocks_per_sm, "dropped_requests": self.log.dropped}
        return CacheTraffic(**(none | own | amounts))


class ReadsOfSms(Waves):
    """The sectors that each SM reads."""

    def __init__(self, chip: Chip, launch: Launch, blocks_per_sm: int) -> None:
        super().__init__(chip, launch, blocks_per_sm)
        self._sms = chip.sms
        self._pairs = np.empty(0, dtype=np.int64)  # a sector and an SM that read it

    def note(self, entries: np.ndarray) -> None:
        """Keep which SMs read which sectors."""
        words, sms = entries[:, 0], (entries[:, 1] >> BLOCK_SHIFT) % self._sms
        read = np.isin(words >> KIND_SHIFT & 15, _READS)
        words, sms = words[read], sms[read]
        found = [self._pairs]
        for sector in range(_SECTORS):
            there = (words >> sector & 1).astype(bool)
            lines = words[there] >> LINE_SHIFT
            found.append((lines * _SECTORS + sector) * self._sms + sms[there])
        self._pairs = np.unique(np.concatenate(found))

    def traffic(self) -> CacheTraffic:
        """The sectors of the SM that reads the most of them; nothing of caches."""
        return self._traffic_of(most_read_by_an_sm=int(np.bincount(self._pairs % self._sms, minlength=1).max()))
