"""tcgen05.mma: what it reads and writes, and the product itself.

D has 32 bits for each element, f16 in the lower half. Row i of 128 lies in lane i; of 64 rows the first 16 lie in lanes
0 to 15, the next in lanes 32 to 47, and so on.

Of a pair each block has half of the rows of A, of B transposed and of D. Of 128 rows the 64 of a block lie in lanes 0
to 63 with the first half of D's columns, and in lanes 64 to 127 with the other; A in tensor memory lies in both. The
parts of D of a weight-stationary product (.ws) lie the same way: two of 64 rows, or four of 32. Where a pair's A is
sparse the 64 rows lie as those of a block alone.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import C_FIELDS, C_PRODUCTS, C_REQUESTS, FAULT_TENSOR_RULE, M_COUNTS
from warplab.emulator.core.state.raw import get, increase, load_u32, store_u32
from warplab.emulator.core.state.tensor_layout import (
    BY_OPERAND,
    BY_PRODUCT,
    COLUMNS,
    FORM_A_MEMORY,
    FORM_MASKED,
    FORM_PAIR,
    FORM_SHIFTED,
    FORM_SPARSE,
    FORM_ZERO_COLUMNS,
    HALF_LANES,
    HALVES,
    KIND_I8,
    O_A,
    O_B,
    O_D,
    O_DESCRIPTOR,
    O_FORM,
    O_KEEP,
    O_LANE,
    O_MASK,
    O_METADATA,
    O_PC,
    O_SHIFT,
    O_WARP,
    O_ZERO_COLUMNS,
    RULE_NO_PAIR,
    WORD,
)
from warplab.emulator.core.tensor.numerics import FORMATS, Kind, decode, encode, multiply_accumulate
from warplab.emulator.core.tensor_memory.asked import (
    CODES,
    D_F16,
    D_F32,
    a_bytes,
    b_bytes,
    bits_of,
    by_nibbles,
    element_of,
    elements_of,
    kind_of,
    m_of,
    n_of,
    narrow_bits,
    parts_of,
    rows_of,
    sign_of,
)
from warplab.emulator.core.tensor_memory.matrices import (
    gather_memory,
    gather_nibbles,
    gather_packed,
    gather_shared,
    halves_of,
    lane_of_row,
)
from warplab.emulator.core.tensor_memory.order import check_written, lanes_of, read_cells, write_cells
from warplab.emulator.core.tensor_memory.pairs import block_of, blocks_of, has_pair
from warplab.emulator.core.tensor_memory.places import allocated, column_of, host_of, lane_of
from warplab.emulator.core.tensor_memory.product_rules import RULES, broken_rule
from warplab.emulator.core.tensor_memory.scales import multiply_scaled, scale_address, scale_columns, scales_of
from warplab.emulator.core.tensor_memory.shared_operands import end_reading, start_reading, used_bytes
from warplab.emulator.core.tensor_memory.sparse import find_places, metadata_column, metadata_columns, pick
from warplab.emulator.core.tensor_memory.zero_columns import clear_zero_columns, column_shift

_PIECE_ROWS = 16  # rows of B transposed that a piece has, at most


@compiled
def _first_column(operation):
    """The first column of B that is read."""
    form = get(operation, O_FORM)
    return column_shift(get(operation, O_ZERO_COLUMNS)) if form & FORM_ZERO_COLUMNS else np.int64(0)


@compiled
def _b_rows(operation):
    """Where the rows of B transposed end that are read of a block."""
    rows = n_of(get(operation, O_DESCRIPTOR)) // blocks_of(get(operation, O_FORM)) + _first_column(operation)
    return (rows + _PIECE_ROWS - 1) // _PIECE_ROWS * _PIECE_ROWS if _first_column(operation) else rows


# What is asked for


@compiled
def _read_cells(m, owner, operation, halves, address, column, count):
    """Check and note that columns of tensor memory are read; False if they are not all allocated."""
    pc, warp, lane = get(operation, O_PC), get(operation, O_WARP), get(operation, O_LANE)
    place = address - column_of(address) + min(column, np.int64(COLUMNS))
    if not allocated(m, owner, place, count, 0, pc, warp, lane):
        return False
    read_cells(m, owner, warp, halves, address, column, count, BY_OPERAND, pc, lane)
    return True


@compiled
def _read_memory(m, owner, operation, halves_of_d):
    """The same of all that a product reads of tensor memory beside D."""
    form, a = get(operation, O_FORM), get(operation, O_A)
    if form & FORM_A_MEMORY and not _read_cells(
        m, owner, operation, halves_of_d, a, column_of(a), a_bytes(operation) // WORD
    ):
        return False
    if form & FORM_SPARSE:
        column, count = metadata_column(operation), metadata_columns(operation)
        if not _read_cells(m, owner, operation, halves_of_d, get(operation, O_METADATA), column, count):
            return False
    for of_b in range(2 if scales_of(form) else 0):
        address, count = scale_address(operation, of_b), scale_columns(operation, of_b)
        if not _read_cells(m, owner, operation, np.int64(0xFF), address, column_of(address), count):
            return False
    return True


@compiled
def _written_lanes(operation, index, halves):
    """The lanes of D that a product writes in the index-th block, as a mask for each half."""
    lanes = lanes_of(halves)
    if get(operation, O_FORM) & FORM_MASKED:
        for half in range(HALVES):
            masked = get(operation, O_MASK + 4 * index + half // 2) >> (half % 2 * HALF_LANES)
            lanes[half] &= ~masked
    return lanes


@compiled
def _accept_part(m, index, operation):
    """Check and note what a product reads and writes of its index-th block; False if columns are not allocated."""
    pc, warp, lane = get(operation, O_PC), get(operation, O_WARP), get(operation, O_LANE)
    kind, descriptor, form = kind_of(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    owner, parts = block_of(m, form, index), parts_of(operation)
    element, rows, d = element_of(kind), rows_of(operation), get(operation, O_D)
    wide = n_of(descriptor) // parts
    if not allocated(m, owner, d, wide, 1, pc, warp, lane):
        return False
    halves = halves_of(rows, parts, lane_of(d))
    if not _read_memory(m, owner, operation, halves):
        return False
    none = np.int64(0)
    if not form & FORM_A_MEMORY:
        a, transposed, width = get(operation, O_A), bits_of(descriptor, 15, 1), a_bytes(operation)
        used = used_bytes(narrow_bits(kind, bits_of(descriptor, 7, 3)))
        start_reading(m, owner, warp, a, transposed, element, none, rows, width, used, pc, lane)
    b, transposed, width = get(operation, O_B), bits_of(descriptor, 16, 1), b_bytes(operation)
    used, first, end = (
        used_bytes(narrow_bits(kind, bits_of(descriptor, 10, 3))),
        _first_column(operation),
        _b_rows(operation),
    )
    start_reading(m, owner, warp, b, transposed, element, first, end, width, used, pc, lane)
    lanes = _written_lanes(operation, index, halves)
    if get(operation, O_KEEP):
        check_written(m, owner, warp, lanes, d, column_of(d), wide, pc, lane)
    write_cells(m, owner, warp, lanes, d, column_of(d), wide, BY_PRODUCT, pc, lane)
    return True


@compiled
def accept_product(m, operation):
    """Check a product that is issued and note what it will read and write; False if it cannot be made."""
    pc, warp, lane = get(operation, O_PC), get(operation, O_WARP), get(operation, O_LANE)
    kind, descriptor, form = kind_of(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    rule = broken_rule(operation)
    if form & FORM_PAIR and not has_pair(m):
        rule = np.int64(RULE_NO_PAIR)
    if rule >= 0:
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, descriptor, kind, 0, -1, 0, rule)
        return False
    for index in range(blocks_of(form)):
        if not _accept_part(m, index, operation):
            return False
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    increase(cell, C_REQUESTS, 1)
    increase(cell, C_PRODUCTS, m_of(descriptor) * n_of(descriptor) * elements_of(kind, a_bytes(operation)))
    return True


# The product


@compiled
def _gather(owner, matrix, at, count, descriptor, first, transposed, kind, code, negated):
    flip = sign_of(kind, code) if negated else np.uint32(0)
    bits = narrow_bits(kind, code)
    if by_nibbles(kind):
        gather_nibbles(owner, matrix, at, count, descriptor, first, flip)
    elif bits:
        gather_packed(owner, matrix, at, count, descriptor, first, bits, flip)
    else:
        gather_shared(owner, matrix, at, count, descriptor, first, transposed, element_of(kind), flip)


@compiled
def _scaled(word, shift, accumulator):
    """A number of the accumulator's type, divided by a power of two."""
    significand, exponent = decode(word, accumulator)
    if shift == 0 or significand == 0 or exponent > 1000:
        return word
    fraction = FORMATS[accumulator, 1]
    return encode(np.int64(significand), exponent - fraction - shift, accumulator, np.int64(fraction))


@compiled
def _multiply_integers(a, b, d, descriptor):
    """Exact sums of products of bytes, added to d in 32 bits: they wrap, or stop at the ends."""
    rows, depth = a.shape
    n = b.shape[0]
    a_signed, b_signed, saturates = bits_of(descriptor, 7, 1), bits_of(descriptor, 10, 1), bits_of(descriptor, 3, 1)
    right, total = np.empty((depth, n), np.int32), np.empty(n, np.int32)
    for j in range(n):
        for k in range(depth):
            value = np.int32(b[j, k])
            right[k, j] = value - np.int32(256) if b_signed and value >= 128 else value
    for i in range(rows):
        total[:] = 0
        for k in range(depth):
            factor = np.int32(a[i, k])
            factor = factor - np.int32(256) if a_signed and factor >= 128 else factor
            for j in range(n):
                total[j] += np.int32(factor * right[k, j])
        for j in range(n):
            whole = np.int64(np.int32(d[i, j])) + np.int64(total[j])
            if saturates:
                whole = min(max(whole, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
            d[i, j] = np.uint32(whole & 0xFFFFFFFF)


@compiled
def _load_sums(owner, d, parts, part, operation, accumulator):
    address, shift = get(operation, O_D), get(operation, O_SHIFT)
    rows, columns = d.shape
    for i in range(rows):
        lane = lane_of_row(rows, parts, lane_of(address), i) + part * rows
        place = host_of(owner, lane, column_of(address))
        for j in range(columns):
            word = load_u32(place + 4 * j)
            if accumulator == Kind.F16:
                word &= np.uint32(0xFFFF)
            d[i, j] = np.uint32(_scaled(np.int64(word), shift, accumulator)) if shift else word


@compiled
def _store_sums(owner, index, d, parts, part, operation):
    address, masked = get(operation, O_D), get(operation, O_FORM) & FORM_MASKED
    rows, columns = d.shape
    for i in range(rows):
        lane = lane_of_row(rows, parts, lane_of(address), i) + part * rows
        if masked and get(operation, O_MASK + 4 * index + lane // 32) >> (lane % 32) & 1:
            continue
        place = host_of(owner, lane, column_of(address))
        for j in range(columns):
            store_u32(place + 4 * j, d[i, j])


@compiled
def _gather_a(owner, a, parts, part, operation):
    kind, descriptor, form = kind_of(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    code, negated = bits_of(descriptor, 7, 3), bits_of(descriptor, 13, 1)
    if form & FORM_A_MEMORY:
        flip = sign_of(kind, code) if negated else np.uint32(0)
        bits, shifted = narrow_bits(kind, code), form & FORM_SHIFTED
        address = get(operation, O_A)
        gather_memory(owner, a, parts, part, address, element_of(kind), by_nibbles(kind), bits, shifted, flip)
    elif part == 0:
        none, count = np.int64(0), np.int64(a.shape[0])
        matrix, transposed = get(operation, O_A), bits_of(descriptor, 15, 1)
        _gather(owner, a, none, count, matrix, none, transposed, kind, code, negated)


@compiled
def _gather_b(m, b, operation):
    """The rows of B transposed, of a pair those of each block."""
    kind, descriptor, form = kind_of(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    code, negated, transposed = bits_of(descriptor, 10, 3), bits_of(descriptor, 14, 1), bits_of(descriptor, 16, 1)
    count, first = n_of(descriptor) // blocks_of(form), _first_column(operation)
    for index in range(blocks_of(form)):
        owner, matrix = block_of(m, form, index), get(operation, O_B)
        _gather(owner, b, index * count, count, matrix, first, transposed, kind, code, negated)
    if form & FORM_ZERO_COLUMNS:
        clear_zero_columns(b, get(operation, O_ZERO_COLUMNS), parts_of(operation))


@compiled
def _end_reading(m, operation):
    """The operands in shared memory have been read."""
    kind, descriptor, form = kind_of(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    warp, pc, element, none = get(operation, O_WARP), get(operation, O_PC), element_of(kind), np.int64(0)
    for index in range(blocks_of(form)):
        owner = block_of(m, form, index)
        if not form & FORM_A_MEMORY:
            a, transposed, width = get(operation, O_A), bits_of(descriptor, 15, 1), a_bytes(operation)
            end_reading(m, owner, warp, a, transposed, element, none, rows_of(operation), width, pc)
        b, transposed, width = get(operation, O_B), bits_of(descriptor, 16, 1), b_bytes(operation)
        first, end = _first_column(operation), _b_rows(operation)
        end_reading(m, owner, warp, b, transposed, element, first, end, width, pc)


@compiled
def _multiply(kind, a, b, d, descriptor, rule):
    """D += A B, in place, without scales."""
    if kind == KIND_I8:
        _multiply_integers(a, b, d, descriptor)
    else:
        multiply_accumulate(a, b, d, d, rule)


@compiled
def _add_products(owner, operation, a, b, d, part, places):
    """D += A B, in place, of one part of D's columns; `places` are those of a sparse A's elements along k."""
    kind, descriptor = kind_of(operation), get(operation, O_DESCRIPTOR)
    d_code = bits_of(descriptor, 4, 2)
    a_kind, b_kind = CODES[kind, bits_of(descriptor, 7, 3)], CODES[kind, bits_of(descriptor, 10, 3)]
    if scales_of(get(operation, O_FORM)):
        rule = RULES[a_kind, b_kind, D_F32]
        multiply_scaled(owner, operation, kind, a, b, d, a_kind, b_kind, rule, part, places)
        return
    rule = np.int64(-1) if kind == KIND_I8 else RULES[a_kind, b_kind, d_code]
    if places.shape[0] == 0:
        _multiply(kind, a, b, d, descriptor, rule)
        return
    picked = np.empty((b.shape[0], a.shape[1]), np.uint32)
    for row in range(a.shape[0]):
        pick(b, places, row, picked)
        _multiply(kind, a[row : row + 1], picked, d[row : row + 1], descriptor, rule)


@compiled
def make_product(m, operation):
    """Read the operands of a product and write D."""
    kind, descriptor, form = kind_of(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    parts, rows, n = parts_of(operation), rows_of(operation), n_of(descriptor)
    columns, sparse = n // parts, form & FORM_SPARSE
    a = np.empty((rows, elements_of(kind, a_bytes(operation))), np.uint32)
    b = np.empty((n, elements_of(kind, b_bytes(operation))), np.uint32)
    d = np.empty((rows, columns), np.uint32)
    places = np.empty((rows if sparse else 0, a.shape[1]), np.int64)
    half_sums = bits_of(descriptor, 4, 2) == D_F16 and scales_of(form) == 0
    accumulator = np.int64(Kind.F16) if half_sums else np.int64(Kind.F32)
    _gather_b(m, b, operation)
    for index in range(blocks_of(form)):
        owner = block_of(m, form, index)
        for part in range(parts):
            _gather_a(owner, a, parts, part, operation)
            if sparse:
                find_places(owner, operation, parts, part, places)
            d[:] = 0
            if get(operation, O_KEEP):
                _load_sums(owner, d, parts, part, operation, accumulator)
            _add_products(owner, operation, a, b[part * columns : (part + 1) * columns], d, part, places)
            _store_sums(owner, index, d, parts, part, operation)
    _end_reading(m, operation)
