"""What one atomic of a warp costs the memory system. Seen on an H200; docs/emulator.md says how it was compared.

Lanes that meet at an address are served one after the other. Global memory: the first lane of each address goes first,
then the second of each, and so on; each round costs its distinct sectors. Shared memory: a wavefront serves one lane a
bank, 8-byte operands in half-warps; a compare-and-swap takes each wavefront twice. Adding the constant 1 to a 32-bit
integer there is counting: lanes at one address are served together.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.counting import SEEN_BYTES, SEEN_SLOTS, first_seen, new_stamp
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import ATOMIC_CAS, M_SEEN
from warplab.emulator.core.state.raw import get, load_i32, load_i64, store_i32, trailing_zeros32

_BANKS = SEEN_SLOTS * 16  # behind the table of things seen: one counter a bank
assert SEEN_BYTES >= _BANKS + 32 * 4


@compiled
def _earlier_lanes(row, mask, lane):
    """How many active lanes before this one have the same address."""
    address = load_i64(row + 8 * lane)
    count = np.int64(0)
    rest = np.uint32(mask) & ((np.uint32(1) << np.uint32(lane)) - np.uint32(1))
    while rest:
        other = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        if load_i64(row + 8 * other) == address:
            count += 1
    return count


@compiled
def count_atomic_sectors(m, row, offset, mask):
    """Sectors of an atomic on global memory."""
    seen = get(m, M_SEEN)
    stamp = new_stamp(m)
    total = np.int64(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        sector = (load_i64(row + 8 * lane) + offset) >> 5
        if first_seen(seen, stamp, (sector << 5) | _earlier_lanes(row, mask, lane)):
            total += 1
    return total


@compiled
def count_atomic_wavefronts(m, row, offset, size, mask, operation, counts_lanes):
    """Wavefronts of an atomic on shared memory, and how many would be left without bank conflicts."""
    banks = get(m, M_SEEN) + _BANKS
    words = max(size >> 2, 1)
    lanes = 32 // words
    passes = np.int64(0)
    groups = np.int64(0)
    for start in range(0, 32, lanes):
        group = np.uint32((np.int64(mask) >> start & ((np.int64(1) << lanes) - 1)) << start)
        if group == np.uint32(0):
            continue
        groups += 1
        for bank in range(32):
            store_i32(banks + 4 * bank, np.int32(0))
        worst = np.int64(0)
        while group:
            lane = np.int64(trailing_zeros32(group))
            group &= group - np.uint32(1)
            if counts_lanes and _earlier_lanes(row, mask, lane):
                continue
            first = (load_i64(row + 8 * lane) + offset) >> 2
            for word in range(first, first + words):
                bank = banks + 4 * (word & 31)
                count = load_i32(bank) + np.int32(1)
                store_i32(bank, count)
                worst = max(worst, np.int64(count))
        passes += worst
    if operation == ATOMIC_CAS:
        return 2 * passes, passes + groups
    return passes, groups
