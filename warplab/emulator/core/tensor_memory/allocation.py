"""tcgen05.alloc, dealloc and relinquish_alloc_permit.

A block has all columns of its SM: blocks beside it that wait for each other's columns are not modelled. An allocation
for which there is no room waits until another warp deallocates.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.cluster_memory import shared_host
from warplab.emulator.core.memory.lane_order import all_meet
from warplab.emulator.core.memory.shadow import check_write
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    FAULT_OUT_OF_BOUNDS,
    FAULT_TENSOR_RULE,
    IMM,
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
)
from warplab.emulator.core.state.raw import field, get, load_i64, load_u32, operand, put, store_u32
from warplab.emulator.core.state.tensor_layout import (
    COLUMNS,
    RULE_GROWS,
    RULE_LEFT,
    RULE_NOT_ALLOCATED,
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
from warplab.emulator.core.tensor_memory.places import column_of, lane_of, units_of


@compiled
def _room(tensor, columns):
    """The first column of a free place, aligned to its size; -1 if there is none."""
    for column in range(0, COLUMNS, columns):
        if get(tensor, T_TAKEN) & units_of(column, columns) == 0:
            return np.int64(column)
    return np.int64(-1)


@compiled
def _grant(m, warp, columns, address, pc, lane):
    """Allocate if there is room; False if there is not."""
    tensor = get(m, M_TENSOR)
    column = _room(tensor, columns)
    if column < 0:
        return False
    units, first = units_of(column, columns), column // UNIT
    put(tensor, T_TAKEN, get(tensor, T_TAKEN) | units)
    put(tensor, T_FREED, get(tensor, T_FREED) & ~units)
    put(tensor, T_SIZES + first, columns)
    put(tensor, T_PCS + first, pc)
    put(tensor, T_OWNERS + first, warp)
    host = shared_host(m, address, 4)
    if host:
        check_write(m, warp, address, 4, 4, pc, lane, 0, 0, 0)
        store_u32(host, np.uint32(column))
        all_meet(warp_state(get(m, M_WARPS), warp))  # every thread of the warp may read it
    return True


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
    if not _grant(m, warp, columns, address, pc, lane):
        waiter = tensor + 8 * (T_WAITERS + warp * WAITER_FIELDS)
        put(waiter, 0, columns)
        put(waiter, 1, address)
        put(waiter, 2, pc)
        put(warp_state(get(m, M_WARPS), warp), W_STATUS, STATUS_WAITING)


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
    for other in range(WARPS):
        waiter = tensor + 8 * (T_WAITERS + other * WAITER_FIELDS)
        if get(waiter, 0) and _grant(m, np.int64(other), get(waiter, 0), get(waiter, 1), get(waiter, 2), np.int64(0)):
            put(waiter, 0, 0)
            put(warp_state(get(m, M_WARPS), other), W_STATUS, STATUS_READY)


@compiled
def relinquish(m, pc):
    """tcgen05.relinquish_alloc_permit."""
    if get(get(m, M_TENSOR), T_RELINQUISHED) == 0:
        put(get(m, M_TENSOR), T_RELINQUISHED, pc + 1)


@compiled
def report_starved(m):
    """No warp of the cluster can go on: allocations that wait never get their columns."""
    for warp in range(WARPS):
        waiter = get(m, M_TENSOR) + 8 * (T_WAITERS + warp * WAITER_FIELDS)
        if get(waiter, 0):
            report(m, FAULT_TENSOR_RULE, get(waiter, 2), warp, 0, get(waiter, 0), 0, 0, -1, 0, RULE_STARVED)
            put(waiter, 0, 0)
            put(warp_state(get(m, M_WARPS), warp), W_STATUS, STATUS_READY)
            put(m, M_STOP, 1)


@compiled
def report_left(m):
    """A block has ended: report what it has not deallocated."""
    tensor = get(m, M_TENSOR)
    for unit in range(UNITS):
        if get(tensor, T_SIZES + unit):
            pc, warp, columns = get(tensor, T_PCS + unit), get(tensor, T_OWNERS + unit), get(tensor, T_SIZES + unit)
            report(m, FAULT_TENSOR_RULE, pc, warp, 0, columns, 0, 0, -1, 0, RULE_LEFT)
