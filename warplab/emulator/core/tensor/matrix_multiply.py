"""mma.sync: gathers the fragments that the lanes hold into matrices, multiplies, hands the sums back.

Lane t belongs to group g = t / 4 as its member q = t % 4. A register of a or b holds p = 32 / bits neighbours along k
(one if elements are 32 bits or more): register 0 of a those of row g from column q p on; then come row g + 8, if there
is one, and the same again 4 p columns further. b is the same with columns for rows. Sums lie in pairs: columns 2 q and
2 q + 1 of row g, then of row g + 8. (PTX ISA, "Matrix Fragments for mma".)

Of a sparse a half of each row is stored, as a dense a of half the depth would be, and metadata tell which half: the
place of each stored element among four, in two bits (of tf32 those of an element's halves; of 4 bits that of two
neighbours). They begin at bit 0 with a row's first elements. Where operands have 16 bits or more, a lane's register
holds 16 bits of row g and above them 16 of row g + 8, and the next lane of the group what comes next; else a lane holds
32 bits of one row, even members of row g and odd ones of row g + 8. The selector says with which members that begins.
(PTX ISA, "Sparse matrix storage", and the figures beside the fragments.)

With scales (.block_scale) a register of each lane holds up to four, of which the instruction names the first byte.
Those of row r of a are in member r / 8 of group r % 8, or two members further; those of column j of b in one member of
group j. Elements of e2m1 that have a byte each lie in its bits 2 to 5. (PTX ISA, "Block scaling for mma.sync"; CUTLASS,
mma_traits_sm120.hpp.)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.transfer import data_operand
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    DST,
    LANES,
    MMA_A_SIGNED,
    MMA_B_SIGNED,
    MMA_DENSE,
    MMA_DEPTH_UNIT,
    MMA_DOUBLES,
    MMA_FLOATS,
    MMA_FOUR_OF_EIGHT,
    MMA_ONE_OF_TWO,
    MMA_POWERS,
    MMA_RULE_MASK,
    MMA_SATURATES,
    MMA_SCALED,
    MMA_SCALES_SHIFT,
    MMA_TWO_OF_FOUR,
    MMA_XOR,
    RECORD_BYTES,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
    X3,
    X4,
    X6,
    X7,
)
from warplab.emulator.core.state.raw import (
    bits_of_f64,
    f64_of_bits,
    field,
    fused_multiply_add,
    load_u16,
    load_u32,
    load_u64,
    operand,
    store_u32,
    store_u64,
    trailing_zeros32,
)
from warplab.emulator.core.tensor.numerics import RULES, Kind, multiply_accumulate
from warplab.emulator.core.tensor.scaled import multiply_bytes, multiply_nibbles, split_scale

_COLUMNS = 8  # n of every mma
_KINDS = np.array([(rule.a, rule.b) for rule in RULES], np.int64)


@compiled
def _source(frame, constants, record, first, register):
    """The row of the n-th register of a (first = SRC_A), b (X1) or c (SRC_A)."""
    if first == SRC_A:
        return operand(frame, constants, record, X0 if register == 3 else SRC_A + register)
    return operand(frame, constants, record, X1 + register if register < 2 else X4 + register - 2)


@compiled
def _gather(matrix, frame, constants, record, first, bits):
    """Elements of up to 32 bits of a, or of b transposed, as unsigned numbers."""
    height, depth = matrix.shape
    packed = 32 // bits
    low = (np.int64(1) << bits) - 1
    halves = height // 8
    for register in range(halves * depth // (4 * packed)):
        row = _source(frame, constants, record, first, register)
        top, left = 8 * (register % halves), register // halves * 4 * packed
        for lane in range(LANES):
            word = np.int64(load_u32(row + 4 * lane))
            for i in range(packed):
                matrix[top + lane // 4, left + lane % 4 * packed + i] = np.uint32((word >> (bits * i)) & low)


@compiled
def _gather_sums(matrix, frame, constants, record, bits):
    """c, of 16 or 32 bits an element."""
    halves = matrix.shape[0] // 8
    packed = 32 // bits
    for register in range(halves * 2 // packed):
        row = _source(frame, constants, record, SRC_A, register)
        for lane in range(LANES):
            word = load_u32(row + 4 * lane)
            column = lane % 4 * 2
            if packed == 2:
                matrix[8 * register + lane // 4, column] = word & np.uint32(0xFFFF)
                matrix[8 * register + lane // 4, column + 1] = word >> np.uint32(16)
            else:
                matrix[register // 2 * 8 + lane // 4, column + register % 2] = word


@compiled
def _scatter_sums(matrix, frame, constants, record, bits, mask):
    """d to the registers of the active lanes."""
    halves = matrix.shape[0] // 8
    packed = 32 // bits
    for register in range(halves * 2 // packed):
        row = data_operand(frame, constants, record, register, DST)
        rest = np.uint32(mask)
        while rest:
            lane = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            column = lane % 4 * 2
            if packed == 2:
                pair = matrix[8 * register + lane // 4, column : column + 2]
                store_u32(row + 4 * lane, np.uint32(pair[0]) | np.uint32(np.uint32(pair[1]) << np.uint32(16)))
            else:
                store_u32(row + 4 * lane, matrix[register // 2 * 8 + lane // 4, column + register % 2])


@compiled
def _extended(pattern, signed, bits):
    """A pattern of 1, 4 or 8 bits as a number."""
    value = np.int64(pattern)
    return value - (np.int64(1) << bits) if signed and value >> (bits - 1) else value


@compiled
def _multiply_integers(a, b, c, d, flags, bits):
    """Exact sums of products of 1, 4 or 8 bits, in 32 bits: they wrap, or stop at the ends with .satfinite.

    The product of two bits is their AND, which popc counts; with MMA_XOR it counts where they differ.
    """
    for i in range(a.shape[0]):
        for j in range(_COLUMNS):
            total = np.int64(np.int32(c[i, j]))
            for k in range(a.shape[1]):
                if flags & MMA_XOR:
                    total += np.int64(a[i, k] ^ b[j, k])
                    continue
                left = _extended(a[i, k], flags & MMA_A_SIGNED, bits)
                total += left * _extended(b[j, k], flags & MMA_B_SIGNED, bits)
            if flags & MMA_SATURATES:
                total = min(max(total, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
            d[i, j] = np.uint32(total & 0xFFFFFFFF)


@compiled
def _multiply_doubles(frame, constants, record, height, depth, mask):
    """A chain of fused multiply-adds along k, each rounded to nearest, starting from c."""
    sources = record - RECORD_BYTES
    halves = height // 8
    d = np.empty((height, _COLUMNS))
    for i in range(height):
        for j in range(_COLUMNS):
            row = _source(frame, constants, record, SRC_A, i // 8 * 2 + j % 2)
            total = f64_of_bits(load_u64(row + 8 * (i % 8 * 4 + j // 2)))
            for k in range(depth):
                a_row = _source(frame, constants, sources, SRC_A, k // 4 * halves + i // 8)
                b_row = _source(frame, constants, sources, X1, k // 4)
                left = f64_of_bits(load_u64(a_row + 8 * (i % 8 * 4 + k % 4)))
                right = f64_of_bits(load_u64(b_row + 8 * (j * 4 + k % 4)))
                total = fused_multiply_add(left, right, total)
            d[i, j] = total
    for register in range(halves * 2):
        row = data_operand(frame, constants, record, register, DST)
        rest = np.uint32(mask)
        while rest:
            lane = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            store_u64(row + 8 * lane, bits_of_f64(d[register // 2 * 8 + lane // 4, lane % 4 * 2 + register % 2]))


@compiled
def _unpad(matrix, kind):
    """Take elements of four and six bits out of their bytes."""
    if kind in (Kind.E2M1, Kind.E2M3, Kind.E3M2):
        for i in range(matrix.shape[0]):
            for k in range(matrix.shape[1]):
                byte = matrix[i, k]
                matrix[i, k] = byte >> np.uint32(2) & np.uint32(15) if kind == Kind.E2M1 else byte & np.uint32(63)


@compiled
def _gather_scales(frame, constants, rows, of_b, powers, significands, exponents):
    """The scales of a's rows or of b's columns, as split_scale gives them."""
    words = operand(frame, constants, rows, SRC_B if of_b else SRC_A)
    byte_row = operand(frame, constants, rows, X1 if of_b else SRC_C)
    thread_row = operand(frame, constants, rows, X2 if of_b else X0)
    first, thread = np.int64(load_u16(byte_row)) & 3, np.int64(load_u16(thread_row)) & 3
    for i in range(exponents.shape[0]):
        member = thread if of_b else (thread & 1) * 2 + i // 8
        word = np.int64(load_u32(words + 4 * (i % 8 * 4 + member)))
        for j in range(exponents.shape[1]):
            byte = (word >> (8 * ((first + j) & 3))) & 0xFF
            significands[i, j], exponents[i, j] = split_scale(byte, powers)


@compiled
def _multiply_matrices(a, b, c, d, arithmetic, rule, bits):
    """D = A B + C on patterns, b transposed; `rule` is that of floats or the flags of integers."""
    if arithmetic == MMA_FLOATS:
        multiply_accumulate(a, b, c, d, rule)
    else:
        _multiply_integers(a, b, c, d, rule, bits)


@compiled
def _column(metadata, sparsity, selector, bits, stored, row, element):
    """Which of a row's columns along k an element is from, of `stored` in the row; `metadata` is a row of the frame."""
    if sparsity == MMA_TWO_OF_FOUR:
        first, step = element // 2 * 4, 2
    elif sparsity == MMA_ONE_OF_TWO:
        first, step = element * 2, 4
    else:
        first, step = element // 4 * 8, 1
    bit = element // 2 * 2 if sparsity == MMA_FOUR_OF_EIGHT else element * step
    if bits >= 16:
        lane, shift = selector * (stored * step // 16) + bit // 16, row // 8 * 16 + bit % 16
    else:
        lane, shift = selector * 2 + bit // 32 * 2 + row // 8, bit % 32
    index = np.int64(load_u32(metadata + 4 * (row % 8 * 4 + lane)) >> np.uint32(shift)) & 3
    if sparsity == MMA_TWO_OF_FOUR:
        return first + index
    if sparsity == MMA_ONE_OF_TWO:  # the places of the element's halves, of 16 bits: 0 and 1, or 2 and 3
        return first + (index >> 1)
    return first + 2 * index + element % 2  # neighbours go together


@compiled
def _pick(b, bits, rows, metadata, row, picked):
    """Those rows of b, transposed, that a row of a sparse a has elements for."""
    sparsity, selector, stored = field(rows, X7), field(rows, X3), np.int64(picked.shape[1])
    for element in range(stored):
        column = _column(metadata, sparsity, selector, bits, stored, row, element)
        for j in range(_COLUMNS):
            picked[j, element] = b[j, column]


@compiled
def _multiply_sparse(a, b, c, d, arithmetic, rule, bits, rows, metadata):
    """The same where a has half of its columns."""
    height, stored = a.shape
    left, right = np.empty((1, stored), np.uint32), np.empty((_COLUMNS, stored), np.uint32)
    before, after = np.empty((1, _COLUMNS), np.uint32), np.empty((1, _COLUMNS), np.uint32)
    for i in range(height):
        _pick(b, bits, rows, metadata, i, right)
        for element in range(stored):
            left[0, element] = a[i, element]
        for j in range(_COLUMNS):
            before[0, j] = c[i, j]
        _multiply_matrices(left, right, before, after, arithmetic, rule, bits)
        for j in range(_COLUMNS):
            d[i, j] = after[0, j]


@compiled
def _multiply_scaled(a, b, c, d, rule, bits, frame, constants, rows):
    """D = (A scales) (B scales) + C; `rows` is the record that names a's and b's registers."""
    scales, powers, number = (rule >> MMA_SCALES_SHIFT) & 7, rule & MMA_POWERS, rule & MMA_RULE_MASK
    height, stored = a.shape
    a_significands, a_exponents = np.empty((height, scales), np.int64), np.empty((height, scales), np.int64)
    b_significands, b_exponents = np.empty((_COLUMNS, scales), np.int64), np.empty((_COLUMNS, scales), np.int64)
    _gather_scales(frame, constants, rows - RECORD_BYTES, 0, powers, a_significands, a_exponents)
    _gather_scales(frame, constants, rows - RECORD_BYTES, 1, powers, b_significands, b_exponents)
    d[:] = c
    sparse, metadata = field(rows, X7) != MMA_DENSE, operand(frame, constants, rows, X6)
    right = np.empty((_COLUMNS if sparse else 0, stored), np.uint32)
    together = 1 if sparse else height
    for first in range(0, height, together):
        mine, met = slice(first, first + together), b
        if sparse:
            _pick(b, bits, rows, metadata, np.int64(first), right)
            met = right
        if bits == 4:
            of_a, exponents = a_significands[mine], a_exponents[mine]
            multiply_nibbles(a[mine], met, d[mine], of_a, exponents, b_significands, b_exponents)
        else:
            kinds = _KINDS[number]
            multiply_bytes(a[mine], met, d[mine], kinds[0], kinds[1], a_exponents[mine], b_exponents, number)


@compiled
def multiply(frame, constants, record, mask):
    """One mma of a warp; lanes outside `mask` give their fragments of a, b and c but get no sums."""
    shape, rows = field(record, X7), record - RECORD_BYTES
    height, depth = shape & 0xFF, ((shape >> 8) & 0xFF) * MMA_DEPTH_UNIT
    bits, sum_bits = (shape >> 16) & 0xFF, (shape >> 24) & 0xFF
    arithmetic, rule = field(record, X1), field(record, X3)
    if arithmetic == MMA_DOUBLES:
        _multiply_doubles(frame, constants, record, height, depth, mask)
        return
    sparse = field(rows, X7) != MMA_DENSE
    a, b = np.empty((height, depth >> 1 if sparse else depth), np.uint32), np.empty((_COLUMNS, depth), np.uint32)
    c, d = np.empty((height, _COLUMNS), np.uint32), np.empty((height, _COLUMNS), np.uint32)
    _gather(a, frame, constants, rows, SRC_A, bits)
    _gather(b, frame, constants, rows, X1, bits)
    _gather_sums(c, frame, constants, record, sum_bits)
    if bits == 8 and arithmetic in (MMA_FLOATS, MMA_SCALED):
        _unpad(a, _KINDS[rule & MMA_RULE_MASK, 0])
        _unpad(b, _KINDS[rule & MMA_RULE_MASK, 1])
    if arithmetic == MMA_SCALED:
        _multiply_scaled(a, b, c, d, rule, bits, frame, constants, rows)
    elif sparse:
        _multiply_sparse(a, b, c, d, arithmetic, rule, bits, rows, operand(frame, constants, rows, X6))
    else:
        _multiply_matrices(a, b, c, d, arithmetic, rule, bits)
    _scatter_sums(d, frame, constants, record, sum_bits, mask)
