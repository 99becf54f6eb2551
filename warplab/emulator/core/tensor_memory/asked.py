"""What a tcgen05.mma is asked for: its instruction descriptor and its form.

    bits 0-1    selector of metadata     bit 13      negate A       bits 17-22  n / 8
    bit 2       sparse                   bit 14      negate B       bits 24-28  m / 16
    bit 3       saturate (i8)            bit 15      transpose A    bits 30-31  largest shift of columns, of .ws alone
    bits 4-5    type of D                bit 16      transpose B
    bits 7-9    type of A
    bits 10-12  type of B

With scales bits 4, 5, 29 and 30 tell where those of B and A begin, bit 23 their type, and bit 31 that k is 96. (PTX
ISA, "Instruction descriptor"; CUTLASS, mma_sm100_desc.hpp.)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.raw import get
from warplab.emulator.core.state.tensor_layout import (
    FORM_KIND_SHIFT,
    FORM_PAIR,
    FORM_SPARSE,
    FORM_STATIONARY,
    KIND_F8F6F4,
    KIND_F16,
    KIND_I8,
    KIND_MXF4,
    KIND_MXF4NVF4,
    KIND_MXF8F6F4,
    KIND_TF32,
    O_DESCRIPTOR,
    O_FORM,
)
from warplab.emulator.core.tensor.numerics import NARROW, Kind
from warplab.emulator.core.tensor_memory.pairs import blocks_of

D_F16, D_F32, D_S32 = range(3)
# The kinds of number that a descriptor's codes stand for, by the kind of product; -1: none
CODES = np.full((7, 8), -1, np.int64)
CODES[KIND_F16, :2] = Kind.F16, Kind.BF16
CODES[KIND_TF32, 2] = Kind.TF32
CODES[KIND_F8F6F4, [0, 1, 3, 4, 5]] = NARROW
CODES[KIND_I8, :2] = 0, 1  # unsigned, signed
CODES[KIND_MXF8F6F4] = CODES[KIND_F8F6F4]
CODES[KIND_MXF4, 1] = CODES[KIND_MXF4NVF4, 1] = Kind.E2M1
_K_BYTES, _DEEP_BYTES = 32, 48  # of a row of A


@compiled
def bits_of(word, first, count):
    """`count` bits of a word from the `first` on."""
    return (word >> first) & ((np.int64(1) << count) - 1)


@compiled
def kind_of(operation):
    """The kind of a product."""
    return (get(operation, O_FORM) >> FORM_KIND_SHIFT) & 0xFF


@compiled
def m_of(descriptor):
    """Rows of A and D."""
    return bits_of(descriptor, 24, 5) << 4


@compiled
def n_of(descriptor):
    """Rows of B transposed, columns of D."""
    return bits_of(descriptor, 17, 6) << 3


@compiled
def rows_of(operation):
    """Rows of A and D in a block."""
    return m_of(get(operation, O_DESCRIPTOR)) // blocks_of(get(operation, O_FORM))


@compiled
def element_of(kind):
    """The bytes of an element of A or B; 1 also for those below a byte, of which mxf4 has two in one."""
    if kind == KIND_F16:
        return np.int64(2)
    return np.int64(4) if kind == KIND_TF32 else np.int64(1)


@compiled
def by_nibbles(kind):
    """Does an element take four bits?"""
    return kind in (KIND_MXF4, KIND_MXF4NVF4)


@compiled
def is_deep(operation):
    """Is k 96?"""
    return by_nibbles(kind_of(operation)) and bits_of(get(operation, O_DESCRIPTOR), 31, 1) != 0


@compiled
def a_bytes(operation):
    """The bytes of a row of A, of a sparse one those that are stored."""
    return np.int64(_DEEP_BYTES) if is_deep(operation) else np.int64(_K_BYTES)


@compiled
def b_bytes(operation):
    """The bytes of a row of B transposed."""
    return a_bytes(operation) * (2 if get(operation, O_FORM) & FORM_SPARSE else 1)


@compiled
def elements_of(kind, count):
    """The elements that a row of `count` bytes has."""
    return 2 * count if by_nibbles(kind) else count // element_of(kind)


@compiled
def is_narrow(kind, code):
    """Has a type fewer than eight bits?"""
    return by_nibbles(kind) or kind in (KIND_F8F6F4, KIND_MXF8F6F4) and code > 1


@compiled
def narrow_bits(kind, code):
    """The bits of an element that has a padded place in shared memory; 0 for others."""
    if by_nibbles(kind) or not is_narrow(kind, code):
        return np.int64(0)
    return np.int64(4) if code == 5 else np.int64(6)


@compiled
def sign_of(kind, code):
    """The sign bit of a type."""
    if kind == KIND_F16:
        return np.uint32(0x8000)
    if kind == KIND_TF32:
        return np.uint32(0x80000000)
    if by_nibbles(kind):
        return np.uint32(8)
    return np.uint32(8) if code == 5 else np.uint32(0x20) if code > 1 else np.uint32(0x80)


@compiled
def parts_of(operation):
    """Into how many parts D's columns are divided, whose lanes follow each other.

    64 rows are divided where they are a block's of a pair with a dense A, or of a weight-stationary product, whose 32
    rows have four parts. (PTX ISA, "Data Path Layout Organization", B, E and G.)
    """
    form, m = get(operation, O_FORM), m_of(get(operation, O_DESCRIPTOR))
    if form & FORM_STATIONARY:
        return np.int64(128) // m
    return np.int64(2) if form & FORM_PAIR and m == 128 and not form & FORM_SPARSE else np.int64(1)
