"""Barriers of a block, and warps whose lanes wait for each other."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.rows import fill_row32
from warplab.emulator.core.memory.clocks import synchronise
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    B_AND,
    B_ARRIVED,
    B_COUNT,
    B_EXPECTED,
    B_FIELDS,
    B_LAST_AND,
    B_LAST_COUNT,
    B_LAST_OR,
    B_OR,
    B_WARPS,
    BARRIER_AND,
    BARRIER_POPC,
    BARRIER_SYNC,
    BARRIERS,
    DST,
    FAULT_DIVERGENT_BARRIER,
    FAULT_DIVERGENT_WARP_SYNC,
    M_BARRIERS,
    M_LIVE_THREADS,
    M_WARPS,
    OP_WARP_SYNC,
    S_MASK,
    S_ORDER,
    S_PC,
    S_STATE,
    S_WAIT,
    SPLIT_AT_BARRIER,
    SPLIT_AT_WARP_SYNC,
    SPLIT_READY,
    STATUS_READY,
    W_LIVE,
    W_STATUS,
    W_USED,
    WAIT_BARRIER,
    WAIT_FORCED,
    WAIT_OPEN,
    WAIT_UNDECIDED,
    X0,
)
from warplab.emulator.core.state.raw import (
    field,
    get,
    increase,
    operand,
    popcount32,
    put,
    trailing_zeros32,
    trailing_zeros64,
)
from warplab.emulator.core.warp.exchange import set_predicate
from warplab.emulator.core.warp.splits import split_state


@compiled
def clear_barriers(m):
    """All barriers closed and empty, as at the start of a block."""
    barriers = get(m, M_BARRIERS)
    for i in range(BARRIERS * B_FIELDS):
        put(barriers, i, 0)
    for number in range(BARRIERS):
        put(barriers + number * B_FIELDS * 8, B_AND, 1)


@compiled
def _open(m, number):
    """The barrier is complete: let everybody go on who waits at it."""
    barrier = get(m, M_BARRIERS) + number * B_FIELDS * 8
    warps = np.uint32(get(barrier, B_WARPS))
    put(barrier, B_LAST_AND, get(barrier, B_AND))
    put(barrier, B_LAST_OR, get(barrier, B_OR))
    put(barrier, B_LAST_COUNT, get(barrier, B_COUNT))
    put(barrier, B_ARRIVED, 0)
    put(barrier, B_WARPS, 0)
    put(barrier, B_EXPECTED, 0)
    put(barrier, B_AND, 1)
    put(barrier, B_OR, 0)
    put(barrier, B_COUNT, 0)
    synchronise(m, warps)
    rest = warps
    while rest:
        warp = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = warp_state(get(m, M_WARPS), warp)
        used = np.uint64(get(address, W_USED))
        while used:
            state = split_state(address, np.int64(trailing_zeros64(used)))
            used &= used - np.uint64(1)
            if get(state, S_STATE) == SPLIT_AT_BARRIER and get(state, S_WAIT) == WAIT_BARRIER + number:
                put(state, S_STATE, SPLIT_READY)
                put(state, S_WAIT, WAIT_OPEN)
                put(address, W_STATUS, STATUS_READY)


@compiled
def arrive(m, warp, number, lanes, expected, voters, votes):
    """Lanes of a warp arrive at a barrier; True if that completes it. `votes` are their predicates (red forms)."""
    barrier = get(m, M_BARRIERS) + number * B_FIELDS * 8
    increase(barrier, B_ARRIVED, lanes)
    put(barrier, B_WARPS, get(barrier, B_WARPS) | (1 << warp))
    put(barrier, B_EXPECTED, expected)
    votes = votes & voters
    increase(barrier, B_COUNT, np.int64(popcount32(votes)))
    if votes != voters:
        put(barrier, B_AND, 0)
    if votes:
        put(barrier, B_OR, 1)
    needed = expected if expected else get(m, M_LIVE_THREADS)
    if get(barrier, B_ARRIVED) >= needed:
        _open(m, number)
        return True
    return False


@compiled
def recheck_barriers(m):
    """Threads have exited: a barrier that waits for all threads may be complete now."""
    live = get(m, M_LIVE_THREADS)
    for number in range(BARRIERS):
        barrier = get(m, M_BARRIERS) + number * B_FIELDS * 8
        if get(barrier, B_ARRIVED) > 0 and get(barrier, B_EXPECTED) == 0 and get(barrier, B_ARRIVED) >= live:
            _open(m, number)


@compiled
def barrier_result(m, frame, constants, record, number, mask):
    """Write what a bar.red gives to the lanes that waited."""
    kind = field(record, X0)
    if kind == BARRIER_SYNC:
        return
    barrier = get(m, M_BARRIERS) + number * B_FIELDS * 8
    if kind == BARRIER_POPC:
        fill_row32(operand(frame, constants, record, DST), np.uint64(get(barrier, B_LAST_COUNT)), mask)
        return
    holds = get(barrier, B_LAST_AND) if kind == BARRIER_AND else get(barrier, B_LAST_OR)
    set_predicate(frame, field(record, DST), mask, np.uint32(0xFFFFFFFF) if holds else np.uint32(0))


@compiled
def meet_in_warp(warp_address, current, pc, op, active, members):
    """Do all `members` of a warp stand at this instruction? Returns the lanes to run it with, 0 to wait.

    bar.warp.sync lets lanes meet that wait at different places; the others need the same instruction.
    """
    live = np.uint32(get(warp_address, W_LIVE))
    needed = members & live
    together = active
    used = np.uint64(get(warp_address, W_USED))
    rest = used
    while rest:
        split = np.int64(trailing_zeros64(rest))
        rest &= rest - np.uint64(1)
        state = split_state(warp_address, split)
        waits = split != current and get(state, S_STATE) == SPLIT_AT_WARP_SYNC
        if waits and (op == OP_WARP_SYNC or get(state, S_PC) == pc):
            together |= np.uint32(get(state, S_MASK)) & live
    if needed & ~together:
        return np.uint32(0)
    rest = used
    while rest:
        split = np.int64(trailing_zeros64(rest))
        rest &= rest - np.uint64(1)
        state = split_state(warp_address, split)
        waits = split != current and get(state, S_STATE) == SPLIT_AT_WARP_SYNC
        if waits and (op == OP_WARP_SYNC or get(state, S_PC) == pc):
            put(state, S_STATE, SPLIT_READY)
            put(state, S_WAIT, WAIT_UNDECIDED)
            increase(state, S_PC, 1)
    return together


@compiled
def resolve_stuck(m, warp, warp_address):
    """No split of a warp is ready. If one waits for lanes that cannot come, report it and let it go on."""
    live = get(warp_address, W_LIVE)
    chosen = np.int64(-1)
    order = np.int64(-(1 << 62))
    used = np.uint64(get(warp_address, W_USED))
    while used:
        split = np.int64(trailing_zeros64(used))
        used &= used - np.uint64(1)
        state = split_state(warp_address, split)
        waits = get(state, S_STATE) == SPLIT_AT_WARP_SYNC or (
            get(state, S_STATE) == SPLIT_AT_BARRIER and get(state, S_WAIT) == WAIT_UNDECIDED
        )
        if waits and get(state, S_ORDER) > order:
            chosen, order = split, get(state, S_ORDER)
    if chosen < 0:
        return False
    state = split_state(warp_address, chosen)
    mask = get(state, S_MASK) & live
    if get(state, S_STATE) == SPLIT_AT_WARP_SYNC:
        missing = get(state, S_WAIT) & live & ~mask
        kind = FAULT_DIVERGENT_WARP_SYNC
    else:
        missing = live & ~mask
        kind = FAULT_DIVERGENT_BARRIER
    if missing:
        lane = np.int64(trailing_zeros32(np.uint32(mask)))
        report(m, kind, get(state, S_PC), warp, lane, 0, 0, 0, -1, 0, missing)
    put(state, S_STATE, SPLIT_READY)
    put(state, S_WAIT, WAIT_FORCED)
    return True
