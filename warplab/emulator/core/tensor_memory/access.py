"""tcgen05.ld and tcgen05.st: tensor memory to the registers of a warp and back.

A warp reaches the 32 lanes of its number modulo 4. Register r of thread t holds the word at (lane, column), counted
from the address:

    32x32b     (t, r)
    16x64b     (t / 4 + 8 (t % 2), 2 r + t / 2 % 2)
    16x128b    (t / 4 + 8 (r % 2), 4 (r / 2) + t % 4)
    16x256b    (t / 4 + 8 (r / 2 % 2), 8 (r / 4) + 2 (t % 4) + r % 2)
    16x32bx2   (t % 16, r), for t from 16 on behind the columns between the halves

(PTX ISA, "Matrix fragments" of tcgen05; CUTLASS, copy_traits_sm100.hpp.) Packed, the word at column c has the lower
halves of columns 2 c and 2 c + 1. A load takes place when it is issued: the ISA respects what depends on its registers.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    FAULT_TENSOR_PLACE,
    IMM,
    LANES,
    RECORD_BYTES,
    ROWS_PER_RECORD,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
    X4,
    X5,
    X6,
    X7,
)
from warplab.emulator.core.state.raw import (
    field,
    load_u16,
    load_u32,
    operand,
    store_u16,
    store_u32,
)
from warplab.emulator.core.state.tensor_layout import (
    BY_LOAD,
    BY_STORE,
    HALF_LANES,
    PLACE_ADDRESSES,
    PLACE_LANES,
    SHAPE_16X32BX2,
    SHAPE_16X64B,
    SHAPE_16X128B,
    SHAPE_16X256B,
    SHAPE_32X32B,
    WARP_LANES,
    WORD,
)
from warplab.emulator.core.tensor_memory.order import lanes_of, read_cells, write_cells
from warplab.emulator.core.tensor_memory.places import allocated, column_of, host_of, lane_of

_SLOTS = np.array([SRC_A, SRC_B, SRC_C, X0, X1, X2, X4, X5, X6], np.int64)


@compiled
def _register(frame, constants, record, index):
    """The row of the index-th register."""
    rows = record + (index // ROWS_PER_RECORD - field(record, X7)) * RECORD_BYTES
    return operand(frame, constants, rows, _SLOTS[index % ROWS_PER_RECORD])


@compiled
def _row(shape, thread, register):
    if shape == SHAPE_32X32B:
        return thread
    if shape == SHAPE_16X64B:
        return thread // 4 + thread % 2 * 8
    if shape == SHAPE_16X128B:
        return thread // 4 + register % 2 * 8
    if shape == SHAPE_16X256B:
        return thread // 4 + register // 2 % 2 * 8
    return thread % HALF_LANES


@compiled
def _word(shape, thread, register):
    """The number of a register's word in its lane, counted without packing."""
    if shape == SHAPE_16X64B:
        return 2 * register + thread // 2 % 2
    if shape == SHAPE_16X128B:
        return register // 2 * 4 + thread % 4
    if shape == SHAPE_16X256B:
        return register // 4 * 8 + thread % 4 * 2 + register % 2
    return register


@compiled
def _words(shape, registers):
    """How many words of a lane an access covers."""
    if shape in (SHAPE_16X64B, SHAPE_16X128B, SHAPE_16X256B):
        return 2 * registers
    return registers


@compiled
def _same_address(frame, constants, record, mask, lane):
    """The address that a lane gives, and whether the others of the mask give the same."""
    row = operand(frame, constants, record, SRC_A)
    address = load_u32(row + 4 * lane)
    same = True
    for other in range(LANES):
        if mask >> np.uint32(other) & np.uint32(1):
            same = same and load_u32(row + 4 * other) == address
    return np.int64(address), same


@compiled
def _own(warp, address):
    """An address in the lanes that a warp reaches. The first warp's are those of each warp, as DeepGEMM relies on."""
    return address + (warp % 4 * WARP_LANES << 16) if lane_of(address) < WARP_LANES else address


@compiled
def _covers(m, warp, record, address, write, pc, lane):
    """Check the lanes and columns of an access; the halves (a mask) that it covers, 0 after a report."""
    shape, registers, packed = field(record, X0), field(record, X1), field(record, X5)
    first = lane_of(address)
    inside = first - warp % 4 * WARP_LANES
    halves = np.int64(3) if shape == SHAPE_32X32B else np.int64(1)
    whole = shape == SHAPE_32X32B
    if inside != 0 and (whole or inside != HALF_LANES):
        report(m, FAULT_TENSOR_PLACE, pc, warp, lane, address, 0, write, -1, 0, PLACE_LANES)
        if first >= WARP_LANES:
            return np.int64(0)
    count = _words(shape, registers) << packed
    if not allocated(m, m, address, count, write, pc, warp, lane):
        return np.int64(0)
    if shape == SHAPE_16X32BX2 and not allocated(m, m, address + field(record, IMM), count, write, pc, warp, lane):
        return np.int64(0)
    return halves << (lane_of(_own(warp, address)) // HALF_LANES)


@compiled
def move_registers(m, warp, frame, constants, record, pc, mask, lane, write):
    """One tcgen05.ld (`write` = 0) or tcgen05.st of a warp."""
    shape, registers, packed = field(record, X0), field(record, X1), field(record, X5)
    address, same = _same_address(frame, constants, record, mask, lane)
    if not same:
        report(m, FAULT_TENSOR_PLACE, pc, warp, lane, address, 0, write, -1, 0, PLACE_ADDRESSES)
    halves = _covers(m, warp, record, address, write, pc, lane)
    if halves == 0:
        return
    address = _own(warp, address)
    column, split = column_of(address), field(record, IMM)
    count = _words(shape, registers) << packed
    for part in range(2 if shape == SHAPE_16X32BX2 else 1):
        first = column + part * split
        if write:
            write_cells(m, m, warp, lanes_of(halves), address, first, count, BY_STORE, pc, lane)
        else:
            read_cells(m, m, warp, halves, address, first, count, BY_LOAD, pc, lane)
    for register in range(registers):
        row = _register(frame, constants, record, register)
        for thread in range(LANES):
            if not mask >> np.uint32(thread) & np.uint32(1):
                continue
            at = column + (_word(shape, thread, register) << packed)
            if shape == SHAPE_16X32BX2 and thread >= HALF_LANES:
                at += split
            place = host_of(m, lane_of(address) + _row(shape, thread, register), at)
            if packed and write:
                store_u32(place, np.uint32(load_u16(row + 4 * thread)))
                store_u32(place + WORD, np.uint32(load_u16(row + 4 * thread + 2)))
            elif packed:
                store_u16(row + 4 * thread, load_u16(place))
                store_u16(row + 4 * thread + 2, load_u16(place + WORD))
            elif write:
                store_u32(place, load_u32(row + 4 * thread))
            else:
                store_u32(row + 4 * thread, load_u32(place))
