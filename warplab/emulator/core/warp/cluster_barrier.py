"""barrier.cluster: all threads of a cluster arrive, and go on at their wait once every thread that is left has arrived.

A thread may do other things between its arrival and its wait, and cannot arrive again before it has waited.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.clocks import acquire_from, release_to
from warplab.emulator.core.memory.cluster_memory import peer
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    CLUSTER_ARRIVE,
    CLUSTER_BARRIER,
    FAULT_CLUSTER_BARRIER,
    K_ARRIVED,
    K_CLOCKS,
    K_PHASES,
    M_CLOCK_COLUMNS,
    M_CLUSTER,
    M_CLUSTER_BARRIER,
    M_LIVE_THREADS,
    M_WARP_COUNT,
    M_WARPS,
    S_PC,
    S_STATE,
    S_WAIT,
    SPLIT_AT_BARRIER,
    SPLIT_READY,
    STATUS_READY,
    W_ARRIVED,
    W_FENCED,
    W_LIVE,
    W_PASSABLE,
    W_STATUS,
    W_USED,
    WAIT_BARRIER,
    WAIT_FORCED,
    WAIT_UNDECIDED,
    X0,
    X1,
    X2,
)
from warplab.emulator.core.state.raw import (
    copy_bytes,
    field,
    fill_bytes,
    get,
    increase,
    popcount32,
    put,
    trailing_zeros32,
    trailing_zeros64,
)
from warplab.emulator.core.warp.splits import split_state


def cluster_barrier_bytes(columns: int) -> int:
    """The size of the barrier's state with vector clocks of so many columns."""
    return 8 * K_CLOCKS + 2 * 4 * columns


@compiled
def clear_cluster_barrier(m):
    """No phase complete, nobody there, as at the start of a cluster."""
    fill_bytes(get(m, M_CLUSTER_BARRIER), np.uint8(0), 8 * K_CLOCKS + 2 * 4 * get(m, M_CLOCK_COLUMNS))


@compiled
def _wake(m):
    """A phase is complete: the block's threads that arrived may pass, and those that wait go on."""
    for warp in range(get(m, M_WARP_COUNT)):
        address = warp_state(get(m, M_WARPS), warp)
        put(address, W_PASSABLE, get(address, W_PASSABLE) | get(address, W_ARRIVED))
        put(address, W_ARRIVED, 0)
        used = np.uint64(get(address, W_USED))
        while used:
            state = split_state(address, np.int64(trailing_zeros64(used)))
            used &= used - np.uint64(1)
            if get(state, S_STATE) == SPLIT_AT_BARRIER and get(state, S_WAIT) == WAIT_BARRIER + CLUSTER_BARRIER:
                put(state, S_STATE, SPLIT_READY)
                put(state, S_WAIT, WAIT_UNDECIDED)
                put(address, W_STATUS, STATUS_READY)


@compiled
def _complete(m):
    """End the phase if everybody who is left has arrived."""
    barrier = get(m, M_CLUSTER_BARRIER)
    arrived = get(barrier, K_ARRIVED)
    if arrived == 0:
        return
    for rank in range(get(m, M_CLUSTER)):
        arrived -= get(peer(m, rank), M_LIVE_THREADS)
    if arrived < 0:
        return
    put(barrier, K_ARRIVED, 0)
    increase(barrier, K_PHASES, 1)
    row = 4 * get(m, M_CLOCK_COLUMNS)
    clocks = barrier + 8 * K_CLOCKS
    copy_bytes(clocks + row, clocks, row)
    for rank in range(get(m, M_CLUSTER)):
        _wake(peer(m, rank))


@compiled
def leave_cluster_barrier(m, warp_address, mask):
    """Threads have exited: the barrier does not wait for them any more."""
    gone = np.uint32(get(warp_address, W_ARRIVED)) & mask
    put(warp_address, W_ARRIVED, get(warp_address, W_ARRIVED) & ~np.int64(mask))
    put(warp_address, W_PASSABLE, get(warp_address, W_PASSABLE) & ~np.int64(mask))
    increase(get(m, M_CLUSTER_BARRIER), K_ARRIVED, -np.int64(popcount32(gone)))
    _complete(m)


@compiled
def _arrive(m, warp, warp_address, record, pc, mask):
    again = mask & np.uint32(get(warp_address, W_ARRIVED) | get(warp_address, W_PASSABLE))
    if again:
        report(m, FAULT_CLUSTER_BARRIER, pc, warp, np.int64(trailing_zeros32(again)), 0, 0, 0, -1, 0, 0)
    barrier = get(m, M_CLUSTER_BARRIER)
    put(warp_address, W_ARRIVED, get(warp_address, W_ARRIVED) | np.int64(mask & ~again))
    increase(barrier, K_ARRIVED, np.int64(popcount32(mask & ~again)))
    if field(record, X1) or get(warp_address, W_FENCED):
        release_to(m, warp, barrier + 8 * K_CLOCKS, True)
    put(warp_address, W_FENCED, 0)
    _complete(m)


@compiled
def cluster_barrier(m, warp, warp_address, state, record, pc, mask):
    """A barrier.cluster instruction; True if the split goes on, False if it has to wait."""
    wait = get(state, S_WAIT)
    if field(record, X2) and mask != np.uint32(get(warp_address, W_LIVE)) and wait != WAIT_FORCED:
        # As at a barrier of the block: whether the other lanes come is seen when no split can run.
        put(state, S_STATE, SPLIT_AT_BARRIER)
        put(state, S_WAIT, WAIT_UNDECIDED)
        put(state, S_PC, pc)
        return False
    put(state, S_WAIT, WAIT_UNDECIDED)
    if field(record, X0) == CLUSTER_ARRIVE:
        _arrive(m, warp, warp_address, record, pc, mask)
        return True
    absent = mask & ~np.uint32(get(warp_address, W_ARRIVED) | get(warp_address, W_PASSABLE))
    if absent:
        report(m, FAULT_CLUSTER_BARRIER, pc, warp, np.int64(trailing_zeros32(absent)), 0, 0, 0, -1, 0, 1)
    if mask & np.uint32(get(warp_address, W_ARRIVED)):
        put(state, S_STATE, SPLIT_AT_BARRIER)
        put(state, S_WAIT, WAIT_BARRIER + CLUSTER_BARRIER)
        put(state, S_PC, pc)
        return False
    put(warp_address, W_PASSABLE, get(warp_address, W_PASSABLE) & ~np.int64(mask))
    acquire_from(m, warp, get(m, M_CLUSTER_BARRIER) + 8 * K_CLOCKS + 4 * get(m, M_CLOCK_COLUMNS))
    return True
