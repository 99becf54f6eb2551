"""Which lanes of a warp an arrival at an mbarrier speaks for.

Vector clocks are those of warps, but a lane that arrives releases what it did itself, and of the other lanes only what
lies before they last waited for each other (the warp's epoch, see `shadow`). So for each of a warp's last arrivals, by
the clock that it released, it is kept which lanes have arrived in that epoch so far. An access of another lane in the
same epoch is not ordered before what follows such an arrival.

Several arrivals of one epoch count as one of all their lanes, and one that is older than the ring of records as one of
the whole warp: both can only hide a race.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, warp_state
from warplab.emulator.core.state.layout import (
    H_CLOCK,
    H_EPOCH,
    H_FIELDS,
    H_LANES,
    H_PC,
    H_SAFE,
    HANDOVER_BYTES,
    HANDOVERS,
    LANES,
    M_CLOCK_COLUMNS,
    M_CLOCKS,
    M_FIRST_WARP,
    M_HANDOVERS,
    M_THREADS,
    M_WARP_COUNT,
    M_WARPS,
    W_EPOCH,
    W_TOUCHED,
)
from warplab.emulator.core.state.raw import fill_bytes, get, load_i32, load_u32, store_i32, store_u32

_ALL = 0xFFFFFFFF


@compiled
def _latest(m, number):
    """Where the clock of a warp's last arrival is kept; the records follow it."""
    return get(m, M_HANDOVERS) + number * HANDOVER_BYTES


@compiled
def _record_at(m, number, clock):
    return _latest(m, number) + 4 * (1 + (clock & (HANDOVERS - 1)) * H_FIELDS)


@compiled
def clear_handovers(m):
    """No warp of the block has arrived anywhere yet."""
    fill_bytes(_latest(m, get(m, M_FIRST_WARP)), np.uint8(0), get(m, M_WARP_COUNT) * HANDOVER_BYTES)


@compiled
def note_handover(m, warp, lanes, pc):
    """Lanes of a warp are about to release, by an arrival, its clock as it is now.

    Nothing is kept where no lane has used shared memory in this epoch: then there is nothing that they leave behind.
    """
    number, state = get(m, M_FIRST_WARP) + warp, warp_state(get(m, M_WARPS), warp)
    if get(state, W_TOUCHED) != get(state, W_EPOCH):
        return
    clock = np.int64(load_i32(get(m, M_CLOCKS) + 4 * (number * get(m, M_CLOCK_COLUMNS) + number)))
    epoch = np.int32(get(state, W_EPOCH))
    before = _record_at(m, number, np.int64(load_i32(_latest(m, number))))
    safe, together = load_i32(before + 4 * H_CLOCK), np.uint32(lanes)
    if load_i32(before + 4 * H_EPOCH) == epoch:
        safe, together = load_i32(before + 4 * H_SAFE), together | load_u32(before + 4 * H_LANES)
    # Lanes that have left the kernel count, too: what they did last, nobody waited for.
    threads = min(get(m, M_THREADS) - LANES * warp, np.int64(LANES))
    if np.uint32((1 << threads) - 1) & ~together == np.uint32(0):
        together = np.uint32(_ALL)
    record = _record_at(m, number, clock)
    store_i32(record + 4 * H_CLOCK, np.int32(clock))
    store_i32(record + 4 * H_EPOCH, epoch)
    store_u32(record + 4 * H_LANES, together)
    store_i32(record + 4 * H_SAFE, safe)
    store_i32(record + 4 * H_PC, np.int32(pc))
    store_i32(_latest(m, number), np.int32(clock))


@compiled
def handover(m, number, clock):
    """The record of the arrival by which a warp released its clock; 0 if that speaks for all of the warp's lanes."""
    record = _record_at(m, number, clock)
    if np.int64(load_i32(record + 4 * H_CLOCK)) != clock or load_u32(record + 4 * H_LANES) == np.uint32(_ALL):
        return np.int64(0)
    return record


@compiled
def known_of_all_lanes(m, number, clock):
    """Up to which clock one surely knows what all lanes of a warp did, if one knows that warp's `clock`."""
    record = handover(m, number, clock)
    return np.int64(load_i32(record + 4 * H_SAFE)) if record else clock
