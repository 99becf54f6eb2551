"""tcgen05.mma: what it is asked for, its checks, and the product itself.

The instruction descriptor:

    bit 2       sparse                   bit 13      negate A       bits 17-22  n / 8
    bit 3       saturate (i8)            bit 14      negate B       bits 24-28  m / 16
    bits 4-5    type of D                bit 15      transpose A    bits 30-31  shift, of .ws alone
    bits 7-9    type of A                bit 16      transpose B
    bits 10-12  type of B

With scales bits 4, 5, 29 and 30 tell where those of B and A begin, and bit 23 their type. (PTX ISA, "Instruction
descriptor"; CUTLASS, mma_sm100_desc.hpp.) D has 32 bits for each element, f16 in the lower half. Row i of 128 lies in
lane i; of 64 rows the first 16 lie in lanes 0 to 15, the next in lanes 32 to 47, and so on.

Of a pair each block has half of the rows of A, of B transposed and of D. Of 128 rows the 64 of a block lie in lanes 0
to 63 with the first half of D's columns, and in lanes 64 to 127 with the other; A in tensor memory lies in both.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_PRODUCTS,
    C_REQUESTS,
    FAULT_TENSOR_RULE,
    M_COUNTS,
)
from warplab.emulator.core.state.raw import get, increase, load_u32, store_u32
from warplab.emulator.core.state.tensor_layout import (
    BY_OPERAND,
    BY_PRODUCT,
    FORM_A_MEMORY,
    FORM_KIND_SHIFT,
    FORM_MASKED,
    FORM_PAIR,
    HALF_LANES,
    HALVES,
    KIND_F8F6F4,
    KIND_F16,
    KIND_I8,
    KIND_MXF4,
    KIND_MXF4NVF4,
    KIND_MXF8F6F4,
    KIND_TF32,
    O_A,
    O_B,
    O_D,
    O_DESCRIPTOR,
    O_FORM,
    O_KEEP,
    O_LANE,
    O_MASK,
    O_PC,
    O_SHIFT,
    O_WARP,
    RULE_ALIGNMENT,
    RULE_DESCRIPTOR,
    RULE_NO_PAIR,
    RULE_SHAPE,
    RULE_TYPES,
)
from warplab.emulator.core.tensor.numerics import (
    FORMATS,
    NARROW,
    Kind,
    decode,
    encode,
    multiply_accumulate,
    rule_number,
)
from warplab.emulator.core.tensor_memory.matrices import (
    gather_memory,
    gather_nibbles,
    gather_packed,
    gather_shared,
    halves_of,
    lane_of_row,
    well_formed,
)
from warplab.emulator.core.tensor_memory.order import check_written, lanes_of, read_cells, write_cells
from warplab.emulator.core.tensor_memory.pairs import block_of, blocks_of, has_pair
from warplab.emulator.core.tensor_memory.places import allocated, column_of, host_of, lane_of
from warplab.emulator.core.tensor_memory.scales import multiply_scaled, scale_address, scale_byte, scales_of
from warplab.emulator.core.tensor_memory.shared_operands import end_reading, start_reading, used_bytes

_K_BYTES = 32
_A_WORDS = 8  # columns that A takes in tensor memory: below a byte an element has one to itself, but for mxf4
_D_F16, _D_F32, _D_S32 = range(3)
# The kinds of number that a descriptor's codes stand for, by the kind of product; -1: none
_CODES = np.full((7, 8), -1, np.int64)
_CODES[KIND_F16, :2] = Kind.F16, Kind.BF16
_CODES[KIND_TF32, 2] = Kind.TF32
_CODES[KIND_F8F6F4, [0, 1, 3, 4, 5]] = NARROW
_CODES[KIND_I8, :2] = 0, 1  # unsigned, signed
_CODES[KIND_MXF8F6F4] = _CODES[KIND_F8F6F4]
_CODES[KIND_MXF4, 1] = _CODES[KIND_MXF4NVF4, 1] = Kind.E2M1


def _rules() -> np.ndarray:
    """The rule for each kind of A, of B and of D (f16, f32); -1: there is none."""
    rules = np.full((len(Kind), len(Kind), 2), -1, np.int64)
    for a in Kind:
        for b in Kind:
            for d, accumulator in ((_D_F16, Kind.F16), (_D_F32, Kind.F32)):
                try:
                    rules[a, b, d] = rule_number("sm_100a", "tcgen05", a, b, accumulator)
                except ValueError:
                    continue
    return rules


_RULES = _rules()


@compiled
def _bits(word, first, count):
    return (word >> first) & ((np.int64(1) << count) - 1)


@compiled
def _m(descriptor):
    """Rows of A and D."""
    return _bits(descriptor, 24, 5) << 4


@compiled
def _n(descriptor):
    """Rows of B transposed, columns of D."""
    return _bits(descriptor, 17, 6) << 3


@compiled
def _kind(operation):
    return (get(operation, O_FORM) >> FORM_KIND_SHIFT) & 0xFF


@compiled
def _element(kind):
    """The bytes of an element of A or B; 1 also for those below a byte, of which mxf4 has two in one."""
    if kind == KIND_F16:
        return np.int64(2)
    return np.int64(4) if kind == KIND_TF32 else np.int64(1)


@compiled
def _by_nibbles(kind):
    """Does an element take four bits?"""
    return kind in (KIND_MXF4, KIND_MXF4NVF4)


@compiled
def _depth(kind):
    """Elements of a row of A."""
    return np.int64(2 * _K_BYTES) if _by_nibbles(kind) else _K_BYTES // _element(kind)


@compiled
def _is_narrow(kind, code):
    """Has a type fewer than eight bits?"""
    return _by_nibbles(kind) or kind in (KIND_F8F6F4, KIND_MXF8F6F4) and code > 1


# What is asked for


@compiled
def _scales_fit(kind, descriptor, scales):
    """Has the tensor core scales of this type, and of so many elements; are they where a row's may be?"""
    exponents_alone, a, b = _bits(descriptor, 23, 1), scale_byte(descriptor, 0), scale_byte(descriptor, 1)
    if _bits(descriptor, 31, 1) or scales > 1 and (a | b) & 1 or scales == 4 and (a | b):
        return False
    return exponents_alone or kind == KIND_MXF4NVF4 and scales == 4


@compiled
def _types_fit(kind, descriptor, scales):
    """Has the tensor core a product of this kind with the types of the descriptor?"""
    a, b, d = _CODES[kind, _bits(descriptor, 7, 3)], _CODES[kind, _bits(descriptor, 10, 3)], _bits(descriptor, 4, 2)
    if a < 0 or b < 0 or _bits(descriptor, 2, 1):
        return False
    if kind >= KIND_MXF8F6F4:
        return _scales_fit(kind, descriptor, scales)
    if kind == KIND_I8:
        return d == _D_S32 and _bits(descriptor, 13, 2) == 0
    if _bits(descriptor, 3, 1) or d > _D_F32 or kind == KIND_TF32 and d != _D_F32:
        return False
    return _RULES[a, b, d] >= 0


@compiled
def _shape_fits(kind, descriptor, pair):
    m, n = _m(descriptor), _n(descriptor)
    if pair:  # of each block half of the rows of A and of B
        if n % 16 or kind == KIND_I8 and n % 32 or _element(kind) == 1 and _bits(descriptor, 16, 1) and n % 32:
            return False
        return m in (128, 256) and 16 <= n <= 256
    if m not in (64, 128) or n < 8 or n > 256 or kind >= KIND_MXF8F6F4 and m != 128:
        return False
    if m == 128 and n % 16 and kind < KIND_MXF8F6F4:
        return False
    if kind == KIND_I8 and n > 32 and n % 16:
        return False
    return not (_element(kind) == 1 and _bits(descriptor, 16, 1) and n % 16)


@compiled
def _descriptors_fit(operation, kind, descriptor):
    """Are the matrix descriptors well formed, and the types such as may be transposed?"""
    a_transposed, b_transposed = _bits(descriptor, 15, 1), _bits(descriptor, 16, 1)
    if a_transposed and _is_narrow(kind, _bits(descriptor, 7, 3)):
        return False
    if b_transposed and _is_narrow(kind, _bits(descriptor, 10, 3)):
        return False
    if not well_formed(get(operation, O_B), b_transposed, _element(kind)):
        return False
    if get(operation, O_FORM) & FORM_A_MEMORY:
        return a_transposed == 0
    return well_formed(get(operation, O_A), a_transposed, _element(kind))


@compiled
def _lanes_fit(operation, m):
    """Does D, and A in tensor memory, start in a lane where its layout may?"""
    lane = lane_of(get(operation, O_D))
    if get(operation, O_FORM) & FORM_A_MEMORY and lane_of(get(operation, O_A)) != lane:
        return False
    pair = get(operation, O_FORM) & FORM_PAIR
    return lane == 0 or m == 64 and lane == 16 and not pair


@compiled
def _broken_rule(operation):
    """The rule that a product breaks; -1: none."""
    kind, descriptor = _kind(operation), get(operation, O_DESCRIPTOR)
    if not _types_fit(kind, descriptor, scales_of(get(operation, O_FORM))):
        return np.int64(RULE_TYPES)
    if not _shape_fits(kind, descriptor, get(operation, O_FORM) & FORM_PAIR):
        return np.int64(RULE_SHAPE)
    if not _descriptors_fit(operation, kind, descriptor):
        return np.int64(RULE_DESCRIPTOR)
    return np.int64(-1) if _lanes_fit(operation, _m(descriptor)) else np.int64(RULE_ALIGNMENT)


@compiled
def _read_scales(m, owner, warp, operation, pc, lane):
    """Check and note that the scales are read; False if they are not all allocated."""
    descriptor = get(operation, O_DESCRIPTOR)
    for of_b in range(2):
        address = scale_address(operation, of_b)
        rows = _n(descriptor) if of_b else _m(descriptor) // blocks_of(get(operation, O_FORM))
        count = (rows + 31) // 32
        if not allocated(m, owner, address, count, 0, pc, warp, lane):
            return False
        read_cells(m, owner, warp, np.int64(0xFF), address, column_of(address), count, BY_OPERAND, pc, lane)
    return True


@compiled
def _folded(form, descriptor):
    """Has D, of which each block of a pair has 64 rows, the columns of its second half behind those rows?"""
    return (form & FORM_PAIR) != 0 and _m(descriptor) == 128


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
    kind, descriptor, form = _kind(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    owner = block_of(m, form, index)
    blocks, folded, element = blocks_of(form), _folded(form, descriptor), _element(kind)
    rows, columns = _m(descriptor) // blocks, _n(descriptor)
    a, b, d = get(operation, O_A), get(operation, O_B), get(operation, O_D)
    wide = columns // 2 if folded else columns
    if not allocated(m, owner, d, wide, 1, pc, warp, lane):
        return False
    if form & FORM_A_MEMORY:
        if not allocated(m, owner, a, np.int64(_A_WORDS), 0, pc, warp, lane):
            return False
        halves, words = halves_of(rows, folded, lane_of(a)), np.int64(_A_WORDS)
        read_cells(m, owner, warp, halves, a, column_of(a), words, BY_OPERAND, pc, lane)
    else:
        used = used_bytes(_narrow_bits(kind, _bits(descriptor, 7, 3)))
        start_reading(m, owner, warp, a, _bits(descriptor, 15, 1), element, rows, _K_BYTES, used, pc, lane)
    used = used_bytes(_narrow_bits(kind, _bits(descriptor, 10, 3)))
    start_reading(m, owner, warp, b, _bits(descriptor, 16, 1), element, columns // blocks, _K_BYTES, used, pc, lane)
    if scales_of(form) and not _read_scales(m, owner, warp, operation, pc, lane):
        return False
    lanes = _written_lanes(operation, index, halves_of(rows, folded, lane_of(d)))
    if get(operation, O_KEEP):
        check_written(m, owner, warp, lanes, d, column_of(d), wide, pc, lane)
    write_cells(m, owner, warp, lanes, d, column_of(d), wide, BY_PRODUCT, pc, lane)
    return True


@compiled
def accept_product(m, operation):
    """Check a product that is issued and note what it will read and write; False if it cannot be made."""
    pc, warp, lane = get(operation, O_PC), get(operation, O_WARP), get(operation, O_LANE)
    kind, descriptor, form = _kind(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    rule = _broken_rule(operation)
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
    increase(cell, C_PRODUCTS, _m(descriptor) * _n(descriptor) * _depth(kind))
    return True


# The product


@compiled
def _sign(kind, code):
    """The sign bit of a type."""
    if kind == KIND_F16:
        return np.uint32(0x8000)
    if kind == KIND_TF32:
        return np.uint32(0x80000000)
    if _by_nibbles(kind):
        return np.uint32(8)
    return np.uint32(8) if code == 5 else np.uint32(0x20) if code > 1 else np.uint32(0x80)


@compiled
def _narrow_bits(kind, code):
    """The bits of an element that has a padded place in shared memory; 0 for others."""
    if _by_nibbles(kind) or not _is_narrow(kind, code):
        return np.int64(0)
    return np.int64(4) if code == 5 else np.int64(6)


@compiled
def _gather(owner, matrix, at, count, descriptor, transposed, kind, code, negated):
    flip = _sign(kind, code) if negated else np.uint32(0)
    bits = _narrow_bits(kind, code)
    if _by_nibbles(kind):
        gather_nibbles(owner, matrix, at, count, descriptor, flip)
    elif bits:
        gather_packed(owner, matrix, at, count, descriptor, bits, flip)
    else:
        gather_shared(owner, matrix, at, count, descriptor, transposed, _element(kind), flip)


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
    a_signed, b_signed, saturates = _bits(descriptor, 7, 1), _bits(descriptor, 10, 1), _bits(descriptor, 3, 1)
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
def _load_sums(owner, d, folded, part, operation, accumulator):
    address, shift = get(operation, O_D), get(operation, O_SHIFT)
    rows, columns = d.shape
    for i in range(rows):
        lane = lane_of_row(rows, folded, lane_of(address), i) + part * rows
        place = host_of(owner, lane, column_of(address))
        for j in range(columns):
            word = load_u32(place + 4 * j)
            if accumulator == Kind.F16:
                word &= np.uint32(0xFFFF)
            d[i, j] = np.uint32(_scaled(np.int64(word), shift, accumulator)) if shift else word


@compiled
def _store_sums(owner, index, d, folded, part, operation):
    address, masked = get(operation, O_D), get(operation, O_FORM) & FORM_MASKED
    rows, columns = d.shape
    for i in range(rows):
        lane = lane_of_row(rows, folded, lane_of(address), i) + part * rows
        if masked and get(operation, O_MASK + 4 * index + lane // 32) >> (lane % 32) & 1:
            continue
        place = host_of(owner, lane, column_of(address))
        for j in range(columns):
            store_u32(place + 4 * j, d[i, j])


@compiled
def _gather_a(owner, a, folded, part, operation):
    kind, descriptor, form = _kind(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    code, negated = _bits(descriptor, 7, 3), _bits(descriptor, 13, 1)
    rows = a.shape[0]
    if form & FORM_A_MEMORY:
        flip = _sign(kind, code) if negated else np.uint32(0)
        address = get(operation, O_A) + (part * rows << 16)
        bits = _narrow_bits(kind, code)
        gather_memory(owner, a, folded, address, _element(kind), _by_nibbles(kind), bits, flip)
    else:
        _gather(owner, a, np.int64(0), rows, get(operation, O_A), _bits(descriptor, 15, 1), kind, code, negated)


@compiled
def _gather_b(m, b, folded, part, operation):
    """The rows of B that a part of D needs: all, of each block its own; folded, those of one block."""
    kind, descriptor, form = _kind(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    code, negated, transposed = _bits(descriptor, 10, 3), _bits(descriptor, 14, 1), _bits(descriptor, 16, 1)
    blocks = blocks_of(form)
    count = _n(descriptor) // blocks
    for index in range(blocks):
        if folded and index != part:
            continue
        at = np.int64(0) if folded else index * count
        _gather(block_of(m, form, index), b, at, count, get(operation, O_B), transposed, kind, code, negated)


@compiled
def _end_reading(m, operation):
    """The operands in shared memory have been read."""
    kind, descriptor, form = _kind(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    warp, pc, element, blocks = get(operation, O_WARP), get(operation, O_PC), _element(kind), blocks_of(form)
    for index in range(blocks):
        owner = block_of(m, form, index)
        if not form & FORM_A_MEMORY:
            rows = _m(descriptor) // blocks
            end_reading(m, owner, warp, get(operation, O_A), _bits(descriptor, 15, 1), element, rows, _K_BYTES, pc)
        rows = _n(descriptor) // blocks
        end_reading(m, owner, warp, get(operation, O_B), _bits(descriptor, 16, 1), element, rows, _K_BYTES, pc)


@compiled
def make_product(m, operation):
    """Read the operands of a product and write D."""
    kind, descriptor, form = _kind(operation), get(operation, O_DESCRIPTOR), get(operation, O_FORM)
    a_code, b_code, d_code = _bits(descriptor, 7, 3), _bits(descriptor, 10, 3), _bits(descriptor, 4, 2)
    blocks, folded, scaled = blocks_of(form), _folded(form, descriptor), scales_of(form) != 0
    parts = 2 if folded else 1
    rows, columns, depth = _m(descriptor) // blocks, _n(descriptor) // parts, _depth(kind)
    a, b = np.empty((rows, depth), np.uint32), np.empty((columns, depth), np.uint32)
    d = np.empty((rows, columns), np.uint32)
    accumulator = np.int64(Kind.F16) if d_code == _D_F16 and not scaled else np.int64(Kind.F32)
    a_kind, b_kind = _CODES[kind, a_code], _CODES[kind, b_code]
    for index in range(blocks):
        owner = block_of(m, form, index)
        for part in range(parts):
            _gather_a(owner, a, folded, part, operation)
            _gather_b(m, b, folded, part, operation)
            d[:] = 0
            if get(operation, O_KEEP):
                _load_sums(owner, d, folded, part, operation, accumulator)
            if scaled:
                rule = _RULES[a_kind, b_kind, _D_F32]
                multiply_scaled(owner, operation, kind, a, b, d, a_kind, b_kind, rule, part)
            elif kind == KIND_I8:
                _multiply_integers(a, b, d, descriptor)
            else:
                multiply_accumulate(a, b, d, d, _RULES[a_kind, b_kind, d_code])
            _store_sums(owner, index, d, folded, part, operation)
    _end_reading(m, operation)
