"""mapa, getctarank and isspacep.shared::cta: addresses of shared memory among the blocks of a cluster.

On a GPU bit 24 of a shared address in a cluster is the last bit of the block's rank, and a mask clears it to name the
place in the even block of a pair (CUTLASS, Sm100MmaPeerBitMask). Here that is an action of its own.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.cluster_memory import mapped, offset_of
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    CLUSTER_IS_OWN,
    CLUSTER_LEADER,
    CLUSTER_MAP,
    DST,
    FAULT_TRAP,
    M_CLUSTER,
    M_RANK,
    M_SHARED_WINDOW,
    M_STOP,
    RANK_SHIFT,
    SRC_A,
    SRC_B,
    TRAP_CLUSTER,
    WINDOW_BITS,
    WINDOW_HALF,
    X0,
    X1,
    X2,
)
from warplab.emulator.core.state.raw import (
    field,
    get,
    load_i64,
    load_u32,
    operand,
    put,
    store_i64,
    store_u32,
    trailing_zeros32,
)
from warplab.emulator.core.warp.exchange import set_predicate


@compiled
def _map(m, warp, place, shared, rank, pc, lane):
    """The place in the block of that rank that corresponds to a place of the shared window."""
    if rank >= get(m, M_CLUSTER):
        report(m, FAULT_TRAP, pc, warp, lane, 0, 0, 0, -1, 0, TRAP_CLUSTER)
        put(m, M_STOP, 1)
        return place
    return mapped(m, rank, offset_of(place)) if shared else place


@compiled
def cluster_address(m, warp, frame, constants, record, pc, mask):
    """One such instruction of a warp. A generic address that is not one of shared memory stays as it is."""
    action, size = field(record, X0), field(record, X1)
    window = get(m, M_SHARED_WINDOW) if field(record, X2) else np.int64(0)
    addresses, ranks = operand(frame, constants, record, SRC_A), operand(frame, constants, record, SRC_B)
    own = np.uint32(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = np.int64(load_u32(addresses + 4 * lane)) if size == 4 else load_i64(addresses + 8 * lane)
        place = address - window
        part = place >> RANK_SHIFT
        shared = 0 <= part <= get(m, M_CLUSTER)
        if action == CLUSTER_MAP:
            place = _map(m, warp, place, shared, np.int64(load_u32(ranks + 4 * lane)), pc, lane)
            if size == 4:
                store_u32(operand(frame, constants, record, DST) + 4 * lane, np.uint32(place))
            else:
                store_i64(operand(frame, constants, record, DST) + 8 * lane, place + window)
            continue
        rank = part - 1 if shared and part else get(m, M_RANK)
        if action == CLUSTER_LEADER:
            place = mapped(m, rank & ~1, offset_of(place)) if shared else place
            store_u32(operand(frame, constants, record, DST) + 4 * lane, np.uint32(place))
            continue
        if action == CLUSTER_IS_OWN:
            if (place + WINDOW_HALF) >> WINDOW_BITS == 0 and rank == get(m, M_RANK):
                own |= np.uint32(1) << np.uint32(lane)
        else:
            store_u32(operand(frame, constants, record, DST) + 4 * lane, np.uint32(rank))
    if action == CLUSTER_IS_OWN:
        set_predicate(frame, field(record, DST), mask, own)
