"""tcgen05.alloc, dealloc and relinquish_alloc_permit.

A block has all columns of its SM: blocks beside it that wait for each other's columns are not modelled. An allocation
for which there is no room waits until another warp deallocates. With .cta_group::2 a warp of each block of a pair
allocates, and the first waits for the other; both get the same columns. Each block deallocates its own.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.cluster_memory import peer, shared_host
from warplab.emulator.core.memory.lane_order import all_meet
from warplab.emulator.core.memory.shadow import check_write
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    FAULT_OUT_OF_BOUNDS,
    FAULT_TENSOR_RULE,
    IMM,
    M_PEERS,
    M_RANK,
    M_SHARED_WINDOW,
    M_STOP,
    M_TENSOR,
    M_WARPS,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    STATUS_READY,
    STATUS_WAITING,
    W_STATUS,
    X5,
    X6,
)
from warplab.emulator.core.state.raw import field, get, load_i64, load_u32, operand, put, store_u32
from warplab.emulator.core.state.tensor_layout import (
    COLUMNS,
    RULE_GROWS,
    RULE_LEFT,
    RULE_NO_PAIR,
    RULE_NOT_ALLOCATED,
    RULE_PAIR_STARVED,
    RULE_RELINQUISHED,
    RULE_SIZE,
    RULE_STARVED,
    T_FREED,
    T_OWNERS,
    T_PCS,
    T_RELINQUISHED,
    T_SIZES,
    T_SMALLEST,
    T_TAKEN,
    T_WAITERS,
    UNIT,
    UNITS,
    WAITER_FIELDS,
    WARPS,
)
from warplab.emulator.core.tensor_memory.order import free_cells
from warplab.emulator.core.tensor_memory.pairs import has_pair
from warplab.emulator.core.tensor_memory.places import column_of, lane_of, units_of


@compiled
def _room(taken, columns):
    """The first column of a free place, aligned to its size; -1 if there is none. `taken`: a mask of units."""
    for column in range(0, COLUMNS, columns):
        if taken & units_of(column, columns) == 0:
            return np.int64(column)
    return np.int64(-1)


@compiled
def _waiter(m, warp):
    return get(m, M_TENSOR) + 8 * (T_WAITERS + warp * WAITER_FIELDS)


@compiled
def _grant(m, warp, column):
    """A warp that waits gets its columns, from this one on, and goes on."""
    tensor, waiter = get(m, M_TENSOR), _waiter(m, warp)
    columns, address, pc = get(waiter, 0), get(waiter, 1), get(waiter, 2)
    units, first = units_of(column, columns), column // UNIT
    put(tensor, T_TAKEN, get(tensor, T_TAKEN) | units)
    put(tensor, T_FREED, get(tensor, T_FREED) & ~units)
    put(tensor, T_SIZES + first, columns)
    put(tensor, T_PCS + first, pc)
    put(tensor, T_OWNERS + first, warp)
    put(waiter, 0, 0)
    state = warp_state(get(m, M_WARPS), warp)
    put(state, W_STATUS, STATUS_READY)
    host = shared_host(m, address, 4)
    if host:
        check_write(m, warp, address, 4, 4, pc, np.int64(0), 0, 0, 0)
        store_u32(host, np.uint32(column))
        all_meet(state)  # every thread of the warp may read it


@compiled
def _pair_waiter(m):
    """The first warp of a block that waits for columns of a pair; -1 if none does."""
    for warp in range(WARPS):
        if get(_waiter(m, warp), 0) and get(_waiter(m, warp), 3):
            return np.int64(warp)
    return np.int64(-1)


@compiled
def _same_request(m, other):
    """Do warps of both blocks of a pair wait for as many columns?"""
    mine, theirs = _pair_waiter(m), _pair_waiter(other)
    return mine >= 0 and theirs >= 0 and get(_waiter(m, mine), 0) == get(_waiter(other, theirs), 0)


@compiled
def _serve(m):
    """Let warps have their columns as far as there is room."""
    tensor = get(m, M_TENSOR)
    for warp in range(WARPS):
        waiter = _waiter(m, warp)
        if get(waiter, 0) and not get(waiter, 3):
            column = _room(get(tensor, T_TAKEN), get(waiter, 0))
            if column >= 0:
                _grant(m, np.int64(warp), column)
    if has_pair(m):
        other = peer(m, get(m, M_RANK) ^ 1)
        if _same_request(m, other):
            mine, theirs = _pair_waiter(m), _pair_waiter(other)
            taken = get(tensor, T_TAKEN) | get(get(other, M_TENSOR), T_TAKEN)
            column = _room(taken, get(_waiter(m, mine), 0))
            if column >= 0:
                _grant(m, mine, column)
                _grant(other, theirs, column)


@compiled
def _bad_size(columns):
    return columns < UNIT or columns > COLUMNS or columns & (columns - 1) != 0


@compiled
def allocate(m, warp, frame, constants, record, pc, lane):
    """tcgen05.alloc: the warp waits where there is no room."""
    tensor = get(m, M_TENSOR)
    columns = np.int64(load_u32(operand(frame, constants, record, SRC_B) + 4 * lane))
    address = load_i64(operand(frame, constants, record, SRC_A) + 8 * lane) + field(record, IMM)
    address -= get(m, M_SHARED_WINDOW) if field(record, X5) else np.int64(0)
    if shared_host(m, address, 4) == 0 or address & 3:
        report(m, FAULT_OUT_OF_BOUNDS, pc, warp, lane, address, 4, 1, -1, SPACE_SHARED, 0)
    if _bad_size(columns):
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, columns, 0, 0, -1, 0, RULE_SIZE)
        put(m, M_STOP, 1)
        return
    if get(tensor, T_RELINQUISHED):
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, columns, 0, 0, get(tensor, T_RELINQUISHED) - 1, 0,
               RULE_RELINQUISHED)  # fmt: skip
    if get(tensor, T_SMALLEST) and columns > get(tensor, T_SMALLEST):
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, columns, get(tensor, T_SMALLEST), 0, -1, 0, RULE_GROWS)
    put(tensor, T_SMALLEST, columns)
    if field(record, X6) and not has_pair(m):
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, columns, 0, 0, -1, 0, RULE_NO_PAIR)
        put(m, M_STOP, 1)
        return
    waiter = _waiter(m, warp)
    put(waiter, 0, columns)
    put(waiter, 1, address)
    put(waiter, 2, pc)
    put(waiter, 3, field(record, X6))
    put(warp_state(get(m, M_WARPS), warp), W_STATUS, STATUS_WAITING)
    _serve(m)


@compiled
def deallocate(m, warp, frame, constants, record, pc, lane):
    """tcgen05.dealloc, and the allocations that waited for it."""
    tensor = get(m, M_TENSOR)
    address = np.int64(load_u32(operand(frame, constants, record, SRC_A) + 4 * lane))
    columns = np.int64(load_u32(operand(frame, constants, record, SRC_B) + 4 * lane))
    column = column_of(address)
    first = column // UNIT
    known = lane_of(address) == 0 and column < COLUMNS and column % UNIT == 0
    if _bad_size(columns):
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, columns, 0, 0, -1, 0, RULE_SIZE)
        return
    if not known or get(tensor, T_SIZES + first) != columns:
        other = 1 if known and get(tensor, T_SIZES + first) else 0
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, address, columns, other, -1, 0, RULE_NOT_ALLOCATED)
        return
    free_cells(m, warp, address, column, columns, pc, lane)
    put(tensor, T_TAKEN, get(tensor, T_TAKEN) & ~units_of(column, columns))
    put(tensor, T_FREED, get(tensor, T_FREED) | units_of(column, columns))
    put(tensor, T_SIZES + first, 0)
    _serve(m)


@compiled
def relinquish(m, pc):
    """tcgen05.relinquish_alloc_permit."""
    if get(get(m, M_TENSOR), T_RELINQUISHED) == 0:
        put(get(m, M_TENSOR), T_RELINQUISHED, pc + 1)


@compiled
def report_starved(m):
    """No warp of the cluster can go on: allocations that wait never get their columns."""
    for warp in range(WARPS):
        waiter = _waiter(m, warp)
        if get(waiter, 0):
            alone = get(waiter, 3) and not _same_request(m, peer(m, get(m, M_RANK) ^ 1))
            reason = RULE_PAIR_STARVED if alone else RULE_STARVED
            report(m, FAULT_TENSOR_RULE, get(waiter, 2), warp, 0, get(waiter, 0), 0, 0, -1, 0, reason)
            put(warp_state(get(m, M_WARPS), warp), W_STATUS, STATUS_READY)
            put(get(m, M_PEERS), M_STOP, 1)


@compiled
def report_left(m):
    """A block has ended: report what it has not deallocated."""
    tensor = get(m, M_TENSOR)
    for unit in range(UNITS):
        if get(tensor, T_SIZES + unit):
            pc, warp, columns = get(tensor, T_PCS + unit), get(tensor, T_OWNERS + unit), get(tensor, T_SIZES + unit)
            report(m, FAULT_TENSOR_RULE, pc, warp, 0, columns, 0, 0, -1, 0, RULE_LEFT)
