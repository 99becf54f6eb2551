"""ldmatrix, stmatrix and movmatrix: matrices of 16-bit elements, or of bytes, between shared memory and fragments.

Lane t holds elements 2 (t % 4) and 2 (t % 4) + 1 of row t / 4 of each 8 x 8 matrix in one register; with .trans, those
of column t / 4. Lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i, 16 bytes each. (PTX ISA, "ldmatrix".)

Of bytes, lane t holds in its registers

    m8n16          elements 4 (t % 4) and on of row t / 4
    m16n16.trans   rows 4 (t % 4) and on of column t / 4, and of column t / 4 + 8; 16 lanes give a matrix's addresses
    m16n8.trans    rows 2 (t % 4) and on of column t / 4, then of column t / 4 + 8: rows as shared memory has them

(CUTLASS, copy_traits_sm100.hpp.) Elements of 4 and 6 bits are unpacked to bytes (pieces.py).
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.counting import count_rows
from warplab.emulator.core.memory.shadow import check_read, check_write
from warplab.emulator.core.memory.transfer import data_operand
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_IDEAL,
    C_SHARED_REQUESTS,
    C_WAVEFRONTS,
    DST,
    FAULT_MISALIGNED,
    FAULT_ONE_STORE,
    FAULT_OUT_OF_BOUNDS,
    IMM,
    LANES,
    M_COUNTS,
    M_SCRATCH,
    M_SHARED,
    M_SHARED_BYTES,
    M_SHARED_SHADOW,
    M_SHARED_WINDOW,
    MATRIX_BITS_SHIFT,
    MATRIX_BYTES_FORM,
    MATRIX_TRANSPOSED,
    SHARED_BASE,
    SPACE_GENERIC,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    X0,
    X1,
    X3,
)
from warplab.emulator.core.state.raw import (
    copy_bytes,
    field,
    fill_bytes,
    get,
    increase,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    operand,
    store_u8,
    store_u16,
    store_u32,
    trailing_zeros32,
)
from warplab.emulator.core.tensor.pieces import unpack_piece

ROW_BYTES = 16
_MATRIX_BYTES = 8 * ROW_BYTES


@compiled
def _element(lane, half, transposed):
    """The byte offset in a matrix, row after row, of one half of a lane's register."""
    if transposed:
        return (lane % 4 * 2 + half) * ROW_BYTES + lane // 4 * 2
    return lane // 4 * ROW_BYTES + lane % 4 * 4 + half * 2


@compiled
def _byte_place(register, lane, byte, form, write):
    """The offset in the matrices, row after row, of a byte of a lane's register."""
    if not form & MATRIX_TRANSPOSED:
        return register * _MATRIX_BYTES + lane // 4 * ROW_BYTES + lane % 4 * 4 + byte
    if write:
        row, column = lane % 4 * 2 + byte % 2, lane // 4 + byte // 2 * 8
        return register * _MATRIX_BYTES + row * ROW_BYTES + column
    row, column = lane % 4 * 4 + byte, lane // 4 + register % 2 * 8
    return register // 2 * 2 * _MATRIX_BYTES + row * ROW_BYTES + column


@compiled
def _check_row(m, warp, address, bits, pc, lane):
    """Check that a row is read: of packed elements what is in front of the padding."""
    if bits == 0:
        check_read(m, warp, address, ROW_BYTES, ROW_BYTES, pc, lane, 0, 0, 1)
        return
    check_read(m, warp, address, 8, 8, pc, lane, 0, 0, 1)
    if bits > 4:
        check_read(m, warp, address + 8, 4, 4, pc, lane, 0, 0, 1)


@compiled
def _good_rows(m, warp, addresses, offset, pc, mask, write):
    """Report rows that are misaligned or outside; the lanes of the others."""
    good = np.uint32(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(addresses + 8 * lane) + offset
        if address < SHARED_BASE or address > get(m, M_SHARED_BYTES) - ROW_BYTES or address & (ROW_BYTES - 1):
            kind = FAULT_MISALIGNED if address & (ROW_BYTES - 1) else FAULT_OUT_OF_BOUNDS
            report(m, kind, pc, warp, lane, address, ROW_BYTES, write, -1, SPACE_SHARED, 0)
        else:
            good |= np.uint32(1) << np.uint32(lane)
    return good


@compiled
def _check_rows(m, warp, addresses, offset, rows, pc, good):
    """Report two rows of a stmatrix that go to one address and differ."""
    rest = np.uint32(good) if get(m, M_SHARED_SHADOW) else np.uint32(0)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address, row = load_i64(addresses + 8 * lane), rows + lane * ROW_BYTES
        later = rest
        while later:
            other = np.int64(trailing_zeros32(later))
            later &= later - np.uint32(1)
            beside = rows + other * ROW_BYTES
            differ = load_u64(row) != load_u64(beside) or load_u64(row + 8) != load_u64(beside + 8)
            if load_i64(addresses + 8 * other) == address and differ:
                report(m, FAULT_ONE_STORE, pc, warp, other, address + offset, ROW_BYTES, 1, -1, SPACE_SHARED, lane)
                return


@compiled
def move_shared(m, warp, frame, constants, record, pc, mask, write):
    """One ldmatrix (write = 0) or stmatrix of a warp."""
    count, form = field(record, X1), field(record, X3)
    bits = form >> MATRIX_BITS_SHIFT
    window = get(m, M_SHARED_WINDOW) if field(record, X0) == SPACE_GENERIC else np.int64(0)
    addresses = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM) - window
    lanes = mask & np.uint32((np.int64(1) << (8 * count)) - 1)
    good = _good_rows(m, warp, addresses, offset, pc, lanes, write)
    wavefronts, ideal = count_rows(m, addresses, offset, ROW_BYTES, good)
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    increase(cell, C_SHARED_REQUESTS, 1)
    increase(cell, C_WAVEFRONTS, wavefronts)
    increase(cell, C_IDEAL, ideal)
    # Rows go through the scratch memory: a destination may be a register that another matrix still needs.
    scratch, shared = get(m, M_SCRATCH), get(m, M_SHARED)
    fill_bytes(scratch, np.uint8(0), count * _MATRIX_BYTES)
    if write:
        _exchange_registers(frame, constants, record, scratch, count, form, mask, 1)
        _check_rows(m, warp, addresses, offset, scratch, pc, good)
    rest = np.uint32(good)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(addresses + 8 * lane) + offset
        if write:
            check_write(m, warp, address, ROW_BYTES, ROW_BYTES, pc, lane, 0, 0, 1)
            copy_bytes(shared + address, scratch + lane * ROW_BYTES, ROW_BYTES)
        else:
            _check_row(m, warp, address, bits, pc, lane)
            if bits:
                unpack_piece(scratch + lane * ROW_BYTES, shared + address, bits)
            else:
                copy_bytes(scratch + lane * ROW_BYTES, shared + address, ROW_BYTES)
    if not write:
        _exchange_registers(frame, constants, record, scratch, count, form, mask, 0)


@compiled
def _exchange_registers(frame, constants, record, scratch, count, form, mask, to_scratch):
    """Registers of the active lanes from matrices in the scratch memory, or the other way round."""
    for matrix in range(count):
        row = data_operand(frame, constants, record, matrix, SRC_B if to_scratch else DST)
        base = scratch + matrix * _MATRIX_BYTES
        rest = np.uint32(mask)
        while rest:
            lane = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            for byte in range(4 if form & MATRIX_BYTES_FORM else 0):
                place, register = scratch + _byte_place(matrix, lane, byte, form, to_scratch), row + 4 * lane + byte
                if to_scratch:
                    store_u8(place, load_u8(register))
                else:
                    store_u8(register, load_u8(place))
            for half in range(0 if form & MATRIX_BYTES_FORM else 2):
                place = base + _element(lane, half, form & MATRIX_TRANSPOSED)
                register = row + 4 * lane + 2 * half
                if to_scratch:
                    store_u16(place, load_u16(register))
                else:
                    store_u16(register, load_u16(place))


@compiled
def transpose_fragment(m, frame, constants, record, mask):
    """movmatrix: each lane gets its two elements of the transposed matrix."""
    scratch = get(m, M_SCRATCH)
    source, target = operand(frame, constants, record, SRC_A), operand(frame, constants, record, DST)
    for word in range(LANES):
        store_u32(scratch + 4 * word, load_u32(source + 4 * word))
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        for half in range(2):
            store_u16(target + 4 * lane + 2 * half, load_u16(scratch + _element(lane, half, 1)))
