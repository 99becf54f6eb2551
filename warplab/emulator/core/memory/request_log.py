"""A log of what warps ask of the caches, for the cache model: off unless the machine was given one.

An entry is two int64: the line of 128 bytes with the sectors asked for and the kind of request, and the block with the
emulator's time. Entries that find the log full are only counted.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.counting import first_seen, new_stamp
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    M_BLOCK_X,
    M_BLOCK_Y,
    M_BLOCK_Z,
    M_GRID_X,
    M_GRID_Y,
    M_LOCAL_BYTES,
    M_LOG,
    M_SEEN,
    M_TIME,
    M_WARP_COUNT,
)
from warplab.emulator.core.state.raw import get, increase, load_i64, put, trailing_zeros32

LOG_USED, LOG_LIMIT, LOG_DROPPED, LOG_ENTRIES = range(4)  # int64 units
ENTRY_WORDS = 2
(
    LOG_READ, LOG_READ_PAST_L1, LOG_WRITE, LOG_ATOMIC, LOG_LOCAL_READ, LOG_LOCAL_WRITE, LOG_BULK_READ, LOG_BULK_WRITE,
) = range(8)  # fmt: skip
LINE_SHIFT = 8  # of an entry's first word: below it are four bits of kind and four of sectors
KIND_SHIFT = 4
BLOCK_SHIFT = 32  # of its second


@compiled
def _append(m, line, sectors, kind):
    log = get(m, M_LOG)
    used = get(log, LOG_USED)
    if used >= get(log, LOG_LIMIT):
        increase(log, LOG_DROPPED, 1)
        return
    block = get(m, M_BLOCK_X) + get(m, M_GRID_X) * (get(m, M_BLOCK_Y) + get(m, M_GRID_Y) * get(m, M_BLOCK_Z))
    entry = log + 8 * (LOG_ENTRIES + ENTRY_WORDS * used)
    put(entry, 0, (line << LINE_SHIFT) | (kind << KIND_SHIFT) | sectors)
    put(entry, 1, (block << BLOCK_SHIFT) | (get(m, M_TIME) & 0xFFFFFFFF))
    put(log, LOG_USED, used + 1)


@compiled
def log_sectors(m, row, offset, size, mask, kind):
    """Log the distinct sectors of `size` bytes at each active lane's address, a line an entry."""
    seen = get(m, M_SEEN)
    stamp = new_stamp(m)
    line = np.int64(-1)
    sectors = np.int64(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        sector = (load_i64(row + 8 * lane) + offset) >> 5
        if sector >> 2 != line:
            if sectors:
                _append(m, line, sectors, kind)
            line, sectors = sector >> 2, np.int64(0)
        bit = np.int64(1) << (sector & 3)
        if sectors & bit == 0 and first_seen(seen, stamp, sector):
            sectors |= bit
    if sectors:
        _append(m, line, sectors, kind)


@compiled
def log_span(m, address, size, kind):
    """Log all sectors of [address, address + size), size > 0, for copies that lanes do not make one by one."""
    first, last = address >> 5, (address + size - 1) >> 5
    for line in range(first >> 2, (last >> 2) + 1):
        low, high = max(first - 4 * line, 0), min(last - 4 * line, 3)
        _append(m, np.int64(line), np.int64(((1 << (high - low + 1)) - 1) << low), kind)


@compiled
def log_local(m, warp, row, offset, size, mask, kind):
    """Log an access to the threads' own memory: a word's 32 copies are one line. Blocks of an SM use it in turn."""
    seen = get(m, M_SEEN)
    stamp = new_stamp(m)
    words = get(m, M_LOCAL_BYTES) >> 2
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        first = (load_i64(row + 8 * lane) + offset) >> 2
        for word in range(first, first + ((size + 3) >> 2)):
            if first_seen(seen, stamp, (word << 2) | (lane >> 3)):
                _append(m, np.int64(word + words * (warp + get(m, M_WARP_COUNT))), np.int64(1) << (lane >> 3), kind)


class RequestLog:
    """The log's memory: room for `limit` entries, of which only what is used takes memory."""

    def __init__(self, limit: int) -> None:
        self._words = np.empty(LOG_ENTRIES + ENTRY_WORDS * limit, dtype=np.int64)
        self._words[:LOG_ENTRIES] = 0, limit, 0
        self.limit = limit

    @property
    def address(self) -> int:
        """What a machine's M_LOG is set to."""
        return self._words.ctypes.data

    @property
    def used(self) -> int:
        """Entries since the last `take`."""
        return int(self._words[LOG_USED])

    @property
    def dropped(self) -> int:
        """Entries that found the log full, ever."""
        return int(self._words[LOG_DROPPED])

    def take(self) -> np.ndarray:
        """The entries, int64 [used, ENTRY_WORDS], in a view that holds until the next is made; empties the log."""
        used = self.used
        self._words[LOG_USED] = 0
        return self._words[LOG_ENTRIES : LOG_ENTRIES + ENTRY_WORDS * used].reshape(used, ENTRY_WORDS)
