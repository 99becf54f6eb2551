"""wgmma.mma_async: what one warp of a warpgroup computes.

Warp w of the four has rows 16 w to 16 w + 15 of A and D and needs all of B. Lane t belongs to group g = t / 4 as its
member q = t % 4. Accumulators: registers 4 i and 4 i + 1 hold columns 8 i + 2 q and 8 i + 2 q + 1 of row g, the next
two those of row g + 8; f16 pairs share a register. A's registers are those of mma. (PTX ISA, "Register Fragments and
Shared Memory Matrix Layouts".) Operands are gathered as 16-byte pieces in a fixed order first, see `descriptors.py`.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    LANES,
    M_SHARED,
    M_SHARED_BYTES,
    MMA_A_SIGNED,
    MMA_B_SIGNED,
    MMA_SATURATES,
    RECORD_BYTES,
    ROWS_PER_RECORD,
    SHARED_BASE,
    SRC_A,
    SRC_B,
    SRC_C,
    WGMMA_A_REGISTERS,
    WGMMA_BITS,
    WGMMA_INTEGERS,
    WGMMA_NEGATE_A,
    WGMMA_NEGATE_B,
    WGMMA_SUM_BITS,
    WGMMA_TRANSPOSE_A,
    WGMMA_TRANSPOSE_B,
    X0,
    X1,
    X2,
    X3,
    X4,
    X5,
    X6,
    X7,
)
from warplab.emulator.core.state.raw import (
    copy_bytes,
    field,
    fill_bytes,
    get,
    load_u8,
    load_u16,
    load_u32,
    operand,
    store_u32,
)
from warplab.emulator.core.tensor.descriptors import PIECE_BYTES, piece_address
from warplab.emulator.core.tensor.numerics import multiply_accumulate

_SLOTS = np.array([SRC_A, SRC_B, SRC_C, X0, X1, X2, X4, X5, X6], np.int64)
ROWS = 16  # of A and D in a warp
K_BYTES = 32  # of a row of A, or a column of B
LINE_ROWS = 8  # rows that an MN-major piece holds


@compiled
def accumulators(record):
    """The number of a product's accumulator registers."""
    return field(record, X1) * ((field(record, X3) >> WGMMA_SUM_BITS) & 0xFF) // 64


@compiled
def accumulator_offset(record, index):
    """The frame offset of the index-th accumulator."""
    rows = record + (index // ROWS_PER_RECORD - field(record, X7)) * RECORD_BYTES
    return field(rows, _SLOTS[index % ROWS_PER_RECORD])


@compiled
def fragment_record(record):
    """The record that names a's registers, in SRC_A, SRC_B, SRC_C and X0."""
    return record - (field(record, X7) + 1) * RECORD_BYTES


@compiled
def pieces(rows):
    """The number of pieces that `rows` rows of A or columns of B are made of."""
    return rows * K_BYTES // PIECE_BYTES


@compiled
def nth_piece(descriptor, transposed, first, rows, index):
    """The shared address of the index-th piece of rows `first` to `first` + `rows` - 1."""
    if transposed:
        groups = rows // LINE_ROWS
        return piece_address(descriptor, True, first + index % groups * LINE_ROWS, index // groups)
    return piece_address(descriptor, False, first + (index >> 1), index & 1)


@compiled
def inside(m, address):
    """Does a piece lie in the block's shared memory?"""
    return address >= SHARED_BASE and address + PIECE_BYTES <= get(m, M_SHARED_BYTES)


@compiled
def gather_pieces(m, target, descriptor, transposed, first, rows):
    """Copy all pieces of a matrix to `target`; what lies outside shared memory counts as zero."""
    shared = get(m, M_SHARED)
    for index in range(pieces(rows)):
        address = nth_piece(descriptor, transposed, first, rows, index)
        if inside(m, address):
            copy_bytes(target + index * PIECE_BYTES, shared + address, PIECE_BYTES)
        else:
            fill_bytes(target + index * PIECE_BYTES, np.uint8(0), PIECE_BYTES)


@compiled
def _unpack(matrix, source, transposed, bits, flip):
    """Elements [row, k] of gathered pieces; `flip` is XORed into each pattern."""
    rows, depth = matrix.shape
    for i in range(rows):
        for k in range(depth):
            place = (k * rows + i) * 2 if transposed else (i * depth + k) * bits // 8
            if bits == 16:
                word = np.uint32(load_u16(source + place))
            elif bits == 8:
                word = np.uint32(load_u8(source + place))
            elif bits == 1:
                word = (np.uint32(load_u8(source + place)) >> np.uint32(k & 7)) & np.uint32(1)
            else:
                word = load_u32(source + place)
            matrix[i, k] = word ^ flip


@compiled
def _unpack_fragment(matrix, source, bits, flip):
    """Elements [row, k] of four registers of all lanes, a register after the other."""
    packed = 32 // bits
    low = (np.int64(1) << bits) - 1
    for register in range(4):
        for lane in range(LANES):
            word = np.int64(load_u32(source + 4 * (register * LANES + lane)))
            row, left = register % 2 * 8 + lane // 4, (register // 2 * 4 + lane % 4) * packed
            for i in range(packed):
                matrix[row, left + i] = np.uint32((word >> (bits * i)) & low) ^ flip


@compiled
def _load_sums(matrix, frame, record, bits):
    for index in range(accumulators(record)):
        row = frame + accumulator_offset(record, index)
        for lane in range(LANES):
            word = load_u32(row + 4 * lane)
            if bits == 16:
                i, j = index % 2 * 8 + lane // 4, index // 2 * 8 + lane % 4 * 2
                matrix[i, j] = word & np.uint32(0xFFFF)
                matrix[i, j + 1] = word >> np.uint32(16)
            else:
                matrix[index // 2 % 2 * 8 + lane // 4, index // 4 * 8 + lane % 4 * 2 + index % 2] = word


@compiled
def _store_sums(matrix, frame, record, bits, mask):
    for index in range(accumulators(record)):
        row = frame + accumulator_offset(record, index)
        for lane in range(LANES):
            if not (mask >> np.uint32(lane)) & np.uint32(1):
                continue
            if bits == 16:
                i, j = index % 2 * 8 + lane // 4, index // 2 * 8 + lane % 4 * 2
                store_u32(row + 4 * lane, matrix[i, j] | np.uint32(matrix[i, j + 1] << np.uint32(16)))
            else:
                i, j = index // 2 % 2 * 8 + lane // 4, index // 4 * 8 + lane % 4 * 2 + index % 2
                store_u32(row + 4 * lane, matrix[i, j])


@compiled
def _multiply_integers(a, b, d, flags):
    """Exact sums of products of 1 or 8 bits, added to d in 32 bits: they wrap, or stop at the ends with .satfinite.

    Single bits have no sign; popc of their AND is the sum of their products.
    """
    n, depth = b.shape
    left, right = np.empty(depth, np.int32), np.empty((depth, n), np.int32)
    for j in range(n):
        for k in range(depth):
            value = np.int32(b[j, k])
            right[k, j] = value - np.int32(256) if flags & MMA_B_SIGNED and value >= 128 else value
    total = np.empty(n, np.int32)
    for i in range(a.shape[0]):
        for k in range(depth):
            value = np.int32(a[i, k])
            left[k] = value - np.int32(256) if flags & MMA_A_SIGNED and value >= 128 else value
        total[:] = 0
        for k in range(depth):
            factor = left[k]
            for j in range(n):
                total[j] += np.int32(factor * right[k, j])
        for j in range(n):
            whole = np.int64(np.int32(d[i, j])) + np.int64(total[j])
            if flags & MMA_SATURATES:
                whole = min(max(whole, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
            d[i, j] = np.uint32(whole & 0xFFFFFFFF)


@compiled
def multiply(frame, record, a_source, b_source, keep, mask):
    """D = A B (+ D if `keep`) for one warp: gathered A (pieces, or registers) and B at host addresses."""
    flags, n = field(record, X3), field(record, X1)
    bits, sum_bits = (flags >> WGMMA_BITS) & 0xFF, (flags >> WGMMA_SUM_BITS) & 0xFF
    depth = 8 * K_BYTES // bits
    sign = np.uint32(np.int64(1) << (bits - 1))
    a, b = np.empty((ROWS, depth), np.uint32), np.empty((n, depth), np.uint32)
    d = np.zeros((ROWS, n), np.uint32)
    a_flip = sign if flags & WGMMA_NEGATE_A else np.uint32(0)
    b_flip = sign if flags & WGMMA_NEGATE_B else np.uint32(0)
    if flags & WGMMA_A_REGISTERS:
        _unpack_fragment(a, a_source, bits, a_flip)
    else:
        _unpack(a, a_source, flags & WGMMA_TRANSPOSE_A, bits, a_flip)
    _unpack(b, b_source, flags & WGMMA_TRANSPOSE_B, bits, b_flip)
    if keep:
        _load_sums(d, frame, record, sum_bits)
    if flags & WGMMA_INTEGERS:
        _multiply_integers(a, b, d, field(record, X0))
    else:
        multiply_accumulate(a, b, d, d, field(record, X0))
    _store_sums(d, frame, record, sum_bits, mask)


@compiled
def copy_fragment(target, frame, constants, record):
    """A's four registers of all lanes, a register after the other."""
    source = fragment_record(record)
    for register in range(4):
        row = operand(frame, constants, source, X0 if register == 3 else SRC_A + register)
        copy_bytes(target + register * 4 * LANES, row, 4 * LANES)
