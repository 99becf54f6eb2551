"""The shared memory of all blocks of a cluster as one space of 32-bit addresses.

An address is an offset in the own block's shared memory, or, as `mapa` makes it, that of the block whose rank is one
less than its upper bits say. A block's shared memory is there for others from the moment they know that the block has
started until it ends: an access of which that is not certain is reported, whether or not it goes well this time.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    FAULT_PEER,
    K_PHASES,
    M_CLOCK_COLUMNS,
    M_CLOCKS,
    M_CLUSTER,
    M_CLUSTER_BARRIER,
    M_CLUSTER_WARPS,
    M_FIELDS,
    M_FIRST_WARP,
    M_LIVE_THREADS,
    M_PEERS,
    M_RANK,
    M_REMOTE,
    M_SHARED,
    M_SHARED_BYTES,
    M_SHARED_SHADOW,
    M_WARP_COUNT,
    OFFSET_MASK,
    RANK_SHIFT,
    REMOTE_ADDRESS,
    REMOTE_CLOCK,
    REMOTE_FIELDS,
    REMOTE_LANE,
    REMOTE_PC,
    SHARED_BASE,
    SPACE_SHARED,
)
from warplab.emulator.core.state.raw import get, load_i32, put


@compiled
def peer(m, rank):
    """The machine state of the cluster's block of that rank."""
    return get(m, M_PEERS) + rank * (M_FIELDS * 8)


@compiled
def mapped(m, rank, offset):
    """The address of a place in the shared memory of the block of that rank; in a cluster of one the offset itself."""
    return offset if get(m, M_CLUSTER) == 1 else ((rank + 1) << RANK_SHIFT) | offset


@compiled
def owner_of(m, address):
    """The machine state of the block whose shared memory an address is in; 0 if there is no such block."""
    part = address >> RANK_SHIFT
    if part == 0:
        return m
    if part < 0 or part > get(m, M_CLUSTER) or get(m, M_CLUSTER) == 1:
        return np.int64(0)
    return peer(m, part - 1)


@compiled
def offset_of(address):
    """The place of an address in its block's shared memory."""
    return address & OFFSET_MASK


@compiled
def shared_host(m, address, size):
    """The host address of `size` bytes of shared memory; 0 if they are not all in the memory of one block."""
    owner = m
    place = address
    if address >> RANK_SHIFT:
        owner = owner_of(m, address)
        place = address & OFFSET_MASK
        if owner == 0:
            return np.int64(0)
    if place < SHARED_BASE or place + size > get(m, M_SHARED_BYTES):
        return np.int64(0)
    return get(owner, M_SHARED) + place


@compiled
def _clock_row(m, number):
    """The vector clock of a warp of the cluster."""
    return get(m, M_CLOCKS) + number * get(m, M_CLOCK_COLUMNS) * 4


@compiled
def visit_peer(m, owner, warp, address, size, write, pc, lane):
    """A warp uses the shared memory of another block: has that block surely started, and has it not ended?

    The access is kept, for `check_visits` to tell when the block ends whether it had to wait for it.
    """
    row = _clock_row(m, get(m, M_FIRST_WARP) + warp)
    first = get(owner, M_FIRST_WARP)
    started = get(get(m, M_CLUSTER_BARRIER), K_PHASES) > 0
    for other in range(first, first + get(owner, M_WARP_COUNT)):
        started = started or load_i32(row + 4 * other) > 0
    ended = get(owner, M_LIVE_THREADS) == 0
    if ended or not started:
        report(m, FAULT_PEER, pc, warp, lane, address, size, write, -1, SPACE_SHARED, 1 if ended else 0)
    visit = get(owner, M_REMOTE) + (get(m, M_FIRST_WARP) + warp) * (REMOTE_FIELDS * 8)
    put(visit, REMOTE_CLOCK, np.int64(load_i32(row + 4 * (get(m, M_FIRST_WARP) + warp))))
    put(visit, REMOTE_PC, pc)
    put(visit, REMOTE_LANE, lane)
    put(visit, REMOTE_ADDRESS, address)


@compiled
def clear_visits(m):
    """No other block has used this one's shared memory yet."""
    for place in range(get(m, M_CLUSTER_WARPS) * REMOTE_FIELDS):
        put(get(m, M_REMOTE), place, 0)


@compiled
def check_visits(m):
    """A block ends: report accesses of others to its shared memory that none of its warps knows to have been made."""
    if get(m, M_CLUSTER) == 1 or get(m, M_SHARED_SHADOW) == 0:
        return
    first, warps = get(m, M_FIRST_WARP), get(m, M_WARP_COUNT)
    for number in range(get(m, M_CLUSTER_WARPS)):
        visit = get(m, M_REMOTE) + number * (REMOTE_FIELDS * 8)
        clock = get(visit, REMOTE_CLOCK)
        known = np.int64(0)
        for warp in range(first, first + warps):
            known = max(known, np.int64(load_i32(_clock_row(m, warp) + 4 * number)))
        if clock > known:
            visitor = peer(m, number // warps)
            address = ((get(m, M_RANK) + 1) << RANK_SHIFT) | (get(visit, REMOTE_ADDRESS) & OFFSET_MASK)
            lane, pc = get(visit, REMOTE_LANE), get(visit, REMOTE_PC)
            report(visitor, FAULT_PEER, pc, number % warps, lane, address, 4, 0, -1, SPACE_SHARED, 1)
