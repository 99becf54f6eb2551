"""Products of a warpgroup: its four warps issue each together, and a wait of one of them is a wait for all four.

A warp that reaches a wgmma.mma_async goes no further before the other three have come, as on an H200. The products of a
warpgroup are counted: the number of one is its moment, in the clock that `shadow.py` keeps for what they read.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.rows import lanes_matching
from warplab.emulator.core.memory.clocks import know_product
from warplab.emulator.core.memory.shadow import BY_PRODUCT, check_async_read, check_read, record_product
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_SHARED_REQUESTS,
    C_WAVEFRONTS,
    FAULT_NO_FENCE,
    FAULT_OUT_OF_BOUNDS,
    FAULT_WARPGROUP,
    IMM,
    LANES,
    M_CODE,
    M_COUNTS,
    M_SHARED_SHADOW,
    M_THREADS,
    M_WARP_COUNT,
    M_WARPGROUPS,
    M_WARPS,
    RECORD_BYTES,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    SRC_C,
    STATUS_READY,
    STATUS_WAITING,
    W_STATUS,
    WARPGROUP_DESCRIPTORS,
    WARPGROUP_DIFFERS,
    WARPGROUP_MISSING,
    WARPGROUP_SKIPS,
    WARPGROUP_WARPS,
    WGMMA_A_REGISTERS,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    WGMMA_TOUCHED,
    WGMMA_TRANSPOSE_A,
    WGMMA_TRANSPOSE_B,
    X0,
    X1,
    X3,
)
from warplab.emulator.core.state.raw import (
    field,
    get,
    increase,
    load_i64,
    load_u32,
    operand,
    put,
    trailing_zeros32,
)
from warplab.emulator.core.tensor.descriptors import PIECE_BYTES
from warplab.emulator.core.tensor.wgmma import K_BYTES, ROWS, fragment_record, inside, nth_piece, pieces
from warplab.emulator.core.tensor.wgmma_queue import (
    COMMITS,
    FENCED,
    GROUPS,
    ISSUED,
    KEPT_COMMITS,
    TOUCH,
    check_register,
    clear_queue,
    make_groups,
    make_some,
    queue_product,
    queue_state,
)

# A warpgroup, in int64 units: the products that it has issued, the warps that wait at one (a mask), whether one never
# came to a product (then each goes on alone), and where each warp is, with its descriptors.
_COUNT, _WAITING, _BROKEN, _ARRIVALS = range(4)
_PC, _MASK, _A, _B, _KEEP, _ARRIVAL = range(6)
_ALL = (1 << WARPGROUP_WARPS) - 1
WARPGROUP_BYTES = 8 * (_ARRIVALS + WARPGROUP_WARPS * _ARRIVAL)
WAVEFRONT_BYTES = 128


@compiled
def _warpgroup(m, warp):
    return get(m, M_WARPGROUPS) + warp // WARPGROUP_WARPS * WARPGROUP_BYTES


@compiled
def _arrival(group, warp):
    return group + 8 * (_ARRIVALS + warp % WARPGROUP_WARPS * _ARRIVAL)


@compiled
def clear_warpgroups(m):
    """Nothing is in flight and nobody waits, as at the start of a block."""
    for warp in range(get(m, M_WARP_COUNT)):
        clear_queue(m, warp)
        group = _warpgroup(m, warp)
        put(group, _COUNT, 0)
        put(group, _WAITING, 0)
        put(group, _BROKEN, 0)


# Arriving at a product


@compiled
def _descriptor(m, warp, frame, constants, record, slot, pc, lane, mask):
    """A descriptor, which all threads of the warp have to give alike."""
    row = operand(frame, constants, record, slot)
    value = load_i64(row + 8 * lane)
    if lanes_matching(row, value, np.int64(0)) & mask != mask:
        report(m, FAULT_WARPGROUP, pc, warp, lane, 0, 0, 0, -1, 0, WARPGROUP_DESCRIPTORS)
    return value


@compiled
def _count_reads(m, warp, record, pc):
    """Wavefronts of 128 bytes: a warp's rows of A, and B once a warpgroup. Canonical layouts have no conflicts."""
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    rows = np.int64(0) if field(record, X3) & WGMMA_A_REGISTERS else np.int64(ROWS)
    if warp % WARPGROUP_WARPS == 0:
        rows += field(record, X1)
    increase(cell, C_SHARED_REQUESTS, 1)
    increase(cell, C_WAVEFRONTS, rows * K_BYTES // WAVEFRONT_BYTES)


@compiled
def _check_registers(m, warp, state, record, pc, lane):
    """The rules for the registers of a product that is about to be issued."""
    if not get(state, FENCED):
        report(m, FAULT_NO_FENCE, pc, warp, lane, 0, 0, 0, -1, 0, 0)
        put(state, FENCED, 1)
    elif field(record, X3) & WGMMA_TOUCHED and get(state, TOUCH) >= 0:
        report(m, FAULT_NO_FENCE, pc, warp, lane, 0, 0, 0, get(state, TOUCH), 0, 0)
        put(state, TOUCH, -1)
    if field(record, X3) & WGMMA_A_REGISTERS:
        source = fragment_record(record)
        for register in range(4):
            check_register(m, warp, state, field(source, X0 if register == 3 else SRC_A + register), 0, pc, lane)


@compiled
def reach_product(m, warp, frame, constants, record, pc, mask):
    """A warp reaches a wgmma.mma_async, which is issued once all four warps of the warpgroup are there."""
    group = _warpgroup(m, warp)
    arrival, lane = _arrival(group, warp), np.int64(trailing_zeros32(mask))
    if get(group, _WAITING) >> warp % WARPGROUP_WARPS & 1:
        _issue_apart(m, group, warp // WARPGROUP_WARPS * WARPGROUP_WARPS)  # lanes of the warp that went on meanwhile
    a = np.int64(0)
    if not field(record, X3) & WGMMA_A_REGISTERS:
        a = _descriptor(m, warp, frame, constants, record, SRC_A, pc, lane, mask)
    put(arrival, _PC, pc)
    put(arrival, _MASK, np.int64(mask))
    put(arrival, _A, a)
    put(arrival, _B, _descriptor(m, warp, frame, constants, record, SRC_B, pc, lane, mask))
    keep = load_u32(operand(frame, constants, record, SRC_C)) >> np.uint32(lane)
    put(arrival, _KEEP, np.int64(keep & np.uint32(1)))
    _count_reads(m, warp, record, pc)
    _check_registers(m, warp, queue_state(m, warp), record, pc, lane)
    if (warp // WARPGROUP_WARPS + 1) * WARPGROUP_WARPS * LANES > get(m, M_THREADS):
        report(m, FAULT_WARPGROUP, pc, warp, lane, 0, 0, 0, -1, 0, WARPGROUP_MISSING)
        put(group, _BROKEN, 1)
    if get(group, _BROKEN):
        _issue(m, warp, arrival, np.int64(0))
        return
    waiting = get(group, _WAITING) | 1 << warp % WARPGROUP_WARPS
    put(group, _WAITING, waiting)
    put(warp_state(get(m, M_WARPS), warp), W_STATUS, STATUS_WAITING)
    if waiting == _ALL:
        _issue_together(m, group, warp // WARPGROUP_WARPS * WARPGROUP_WARPS)


# Issuing


@compiled
def _check_operand(m, warp, descriptor, transposed, first, rows, pc, lane):
    """Check that a warp may read all pieces of a matrix now."""
    for index in range(pieces(rows)):
        address = nth_piece(descriptor, transposed, first, rows, index)
        if inside(m, address):
            check_read(m, warp, address, PIECE_BYTES, PIECE_BYTES, pc, lane, 0, 0, BY_PRODUCT)
            check_async_read(m, warp, address, PIECE_BYTES, pc, lane)
        else:
            report(m, FAULT_OUT_OF_BOUNDS, pc, warp, lane, address, PIECE_BYTES, 0, -1, SPACE_SHARED, 0)


@compiled
def _record_operand(m, leader, descriptor, transposed, rows, pc, moment):
    """Keep in the sanitizer's memory that a product reads all pieces of a matrix."""
    for index in range(pieces(rows)):
        address = nth_piece(descriptor, transposed, 0, rows, index)
        if inside(m, address):
            record_product(m, leader, address, PIECE_BYTES, pc, moment)


@compiled
def _issue(m, warp, arrival, moment):
    """Issue a warp's part of a product."""
    pc, mask = get(arrival, _PC), np.uint32(get(arrival, _MASK))
    a, b = get(arrival, _A), get(arrival, _B)
    record, state = get(m, M_CODE) + pc * RECORD_BYTES, queue_state(m, warp)
    flags, lane = field(record, X3), np.int64(trailing_zeros32(mask))
    make_some(m, warp, state)
    if get(m, M_SHARED_SHADOW):
        if not flags & WGMMA_A_REGISTERS:
            first = warp % WARPGROUP_WARPS * ROWS
            _check_operand(m, warp, a, flags & WGMMA_TRANSPOSE_A, first, ROWS, pc, lane)
        _check_operand(m, warp, b, flags & WGMMA_TRANSPOSE_B, 0, field(record, X1), pc, lane)
    queue_product(m, warp, state, record, pc, mask, a, b, get(arrival, _KEEP), moment)
    put(state, ISSUED, moment)


@compiled
def _issue_together(m, group, leader):
    """All four warps are at a product: issue it and let them go on."""
    increase(group, _COUNT, 1)
    put(group, _WAITING, 0)
    moment, first = get(group, _COUNT), _arrival(group, leader)
    for warp in range(leader, leader + WARPGROUP_WARPS):
        arrival = _arrival(group, warp)
        same = get(arrival, _PC) == get(first, _PC) and get(arrival, _KEEP) == get(first, _KEEP)
        if not (same and get(arrival, _A) == get(first, _A) and get(arrival, _B) == get(first, _B)):
            lane = np.int64(trailing_zeros32(np.uint32(get(arrival, _MASK))))
            report(m, FAULT_WARPGROUP, get(arrival, _PC), warp, lane, 0, 0, 0, get(first, _PC), 0, WARPGROUP_DIFFERS)
        _issue(m, warp, arrival, moment)
        put(warp_state(get(m, M_WARPS), warp), W_STATUS, STATUS_READY)
    if get(m, M_SHARED_SHADOW):
        pc = get(first, _PC)
        record = get(m, M_CODE) + pc * RECORD_BYTES
        flags = field(record, X3)
        if not flags & WGMMA_A_REGISTERS:
            rows = np.int64(WARPGROUP_WARPS * ROWS)
            _record_operand(m, leader, get(first, _A), flags & WGMMA_TRANSPOSE_A, rows, pc, moment)
        _record_operand(m, leader, get(first, _B), flags & WGMMA_TRANSPOSE_B, field(record, X1), pc, moment)


@compiled
def _issue_apart(m, group, leader):
    """Let the warps go on that wait at a product, each with its own part of it."""
    waiting = get(group, _WAITING)
    put(group, _WAITING, 0)
    put(group, _BROKEN, 1)
    for warp in range(leader, leader + WARPGROUP_WARPS):
        if waiting >> warp % WARPGROUP_WARPS & 1:
            _issue(m, warp, _arrival(group, warp), np.int64(0))
            put(warp_state(get(m, M_WARPS), warp), W_STATUS, STATUS_READY)


@compiled
def release_warpgroups(m):
    """No warp of the cluster can go on: report the products that part of a warpgroup waits at, and go on without it."""
    for leader in range(0, get(m, M_WARP_COUNT), WARPGROUP_WARPS):
        group = _warpgroup(m, leader)
        waiting = get(group, _WAITING)
        if waiting:
            missing = np.int64(trailing_zeros32(np.uint32(_ALL & ~waiting)))
            there = np.int64(trailing_zeros32(np.uint32(waiting)))
            pc = get(_arrival(group, there), _PC)
            report(m, FAULT_WARPGROUP, pc, leader + missing, 0, waiting, 0, 0, -1, 0, WARPGROUP_SKIPS)
            _issue_apart(m, group, leader)


# Waiting


@compiled
def group_products(m, warp, record):
    """wgmma.fence, commit_group or wait_group of a warp."""
    state, action = queue_state(m, warp), field(record, X0)
    make_some(m, warp, state)
    if action == WGMMA_FENCE:
        put(state, FENCED, 1)
        put(state, TOUCH, -1)
    elif action == WGMMA_COMMIT:
        put(state, COMMITS + get(state, GROUPS) % KEPT_COMMITS, get(state, ISSUED))
        increase(state, GROUPS, 1)
    else:
        awaited = get(state, GROUPS) - field(record, IMM)
        make_groups(m, warp, state, awaited)
        if awaited > 0 and field(record, IMM) < KEPT_COMMITS:
            know_product(m, warp, get(state, COMMITS + (awaited - 1) % KEPT_COMMITS))
