"""What one warp access costs the memory system: distinct sectors and shared-memory wavefronts.

Global memory moves in sectors of 32 bytes; a request costs its distinct sectors. Shared memory has 32 banks of 4
bytes; a wavefront serves at most one word a bank, to any number of lanes. 8-byte accesses are served by half-warps and
16-byte ones by quarter-warps. The groups of a load are twice as large when throughout the warp either each lane and its
neighbour (lane ^ 1), or each lane and the one two further (lane ^ 2), ask for the same address or one of them is
inactive; those of a store never are. Seen on an H200: docs/emulator.md.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import M_SEEN, M_SEEN_STAMP
from warplab.emulator.core.state.raw import (
    fill_bytes,
    get,
    load_i32,
    load_i64,
    put,
    store_i32,
    store_i64,
    trailing_zeros32,
)

SEEN_SLOTS = 256  # twice the most that one access can ask for: 32 lanes of 16 bytes
SEEN_BYTES = SEEN_SLOTS * 16 + 32 * 4 + 32 * 32 * 4  # the table, then for each bank a counter and 32 words


@compiled
def new_stamp(m):
    """Empty the table of things seen; returns the mark of this round."""
    stamp = get(m, M_SEEN_STAMP) + 1
    put(m, M_SEEN_STAMP, stamp)
    return stamp


@compiled
def first_seen(seen, stamp, key):
    """Is `key` new in this round?"""
    slot = (key * np.int64(0x9E3779B1) >> 12) & (SEEN_SLOTS - 1)
    while True:
        entry = seen + slot * 16
        if load_i64(entry) != stamp:
            store_i64(entry, stamp)
            store_i64(entry + 8, key)
            return True
        if load_i64(entry + 8) == key:
            return False
        slot = (slot + 1) & (SEEN_SLOTS - 1)


@compiled
def count_sectors(m, row, offset, size, mask):
    """Distinct 32-byte sectors of `size` bytes at each active lane's address."""
    seen = get(m, M_SEEN)
    stamp = new_stamp(m)
    total = np.int64(0)
    previous = np.int64(-1)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        sector = (load_i64(row + 8 * lane) + offset) >> 5
        if sector != previous:
            previous = sector
            if first_seen(seen, stamp, sector):
                total += 1
    return total


@compiled
def _group_wavefronts(m, row, offset, size, mask):
    """The most words that one bank has to give to the lanes of `mask`: at most 32 of 4 bytes, counted once each."""
    counts = get(m, M_SEEN) + SEEN_SLOTS * 16
    words = counts + 32 * 4  # that each bank has to give so far
    fill_bytes(counts, np.uint8(0), 32 * 4)
    worst = np.int64(0)
    width = max(size >> 2, 1)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        first = (load_i64(row + 8 * lane) + offset) >> 2
        for word in range(first, first + width):
            bank = word & 31
            count = np.int64(load_i32(counts + 4 * bank))
            known = words + 4 * 32 * bank
            place = np.int64(0)
            while place < count and load_i32(known + 4 * place) != np.int32(word):
                place += 1
            if place == count:
                store_i32(known + 4 * count, np.int32(word))
                store_i32(counts + 4 * bank, np.int32(count + 1))
                worst = max(worst, count + 1)
    return worst


@compiled
def _same_as_neighbour(row, mask, distance):
    """Does every active lane ask for the same address as the lane `distance` (1 or 2) away, if that is active?"""
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        other = lane ^ distance
        if (mask >> np.uint32(other)) & np.uint32(1) and load_i64(row + 8 * lane) != load_i64(row + 8 * other):
            return False
    return True


@compiled
def count_wavefronts(m, row, offset, size, mask, write):
    """Wavefronts of a shared-memory access, and the fewest that its lanes could need."""
    if size <= 4:
        return _group_wavefronts(m, row, offset, size, mask), np.int64(1)
    lanes = np.int64(128 // size)
    if not write and (_same_as_neighbour(row, mask, 1) or _same_as_neighbour(row, mask, 2)):
        lanes *= 2
    width = np.int64(1 << lanes) - 1
    total = np.int64(0)
    ideal = np.int64(0)
    for start in range(0, 32, lanes):
        group = np.uint32(((np.int64(mask) >> start) & width) << start)
        if group:
            total += _group_wavefronts(m, row, offset, size, group)
            ideal += 1
    return total, ideal


@compiled
def count_rows(m, row, offset, size, mask):
    """Wavefronts of a matrix load or store, served eight lanes (one matrix) at a time, and the fewest possible."""
    total = np.int64(0)
    ideal = np.int64(0)
    for matrix in range(4):
        group = mask & np.uint32(0xFF << (8 * matrix))
        if group:
            total += _group_wavefronts(m, row, offset, size, group)
            ideal += 1
    return total, ideal
