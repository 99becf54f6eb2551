"""Which tcgen05.mma there are: types, shapes, descriptors and the lanes where matrices start.

(PTX ISA, "Matrix Shape", "Data Path Layout Organization".)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.raw import get
from warplab.emulator.core.state.tensor_layout import (
    FORM_A_MEMORY,
    FORM_DEEP,
    FORM_PAIR,
    FORM_SHIFTED,
    FORM_SPARSE,
    FORM_STATIONARY,
    FORM_ZERO_COLUMNS,
    KIND_F8F6F4,
    KIND_I8,
    KIND_MXF4NVF4,
    KIND_MXF8F6F4,
    KIND_TF32,
    O_A,
    O_B,
    O_D,
    O_DESCRIPTOR,
    O_FORM,
    O_METADATA,
    O_ZERO_COLUMNS,
    RULE_ALIGNMENT,
    RULE_COLUMN_SHIFT,
    RULE_DESCRIPTOR,
    RULE_SHAPE,
    RULE_TYPES,
)
from warplab.emulator.core.tensor.numerics import Kind, rule_number
from warplab.emulator.core.tensor_memory.asked import (
    CODES,
    D_F16,
    D_F32,
    D_S32,
    bits_of,
    element_of,
    is_deep,
    is_narrow,
    kind_of,
    m_of,
    n_of,
    parts_of,
    rows_of,
)
from warplab.emulator.core.tensor_memory.matrices import is_absolute, well_formed
from warplab.emulator.core.tensor_memory.places import lane_of
from warplab.emulator.core.tensor_memory.scales import scale_byte, scales_of
from warplab.emulator.core.tensor_memory.zero_columns import column_shift


def _rules() -> np.ndarray:
    """The rule for each kind of A, of B and of D (f16, f32); -1: there is none."""
    rules = np.full((len(Kind), len(Kind), 2), -1, np.int64)
    for a in Kind:
        for b in Kind:
            for d, accumulator in ((D_F16, Kind.F16), (D_F32, Kind.F32)):
                try:
                    rules[a, b, d] = rule_number("sm_100a", "tcgen05", a, b, accumulator)
                except ValueError:
                    continue
    return rules


RULES = _rules()


@compiled
def _scales_fit(operation, kind, descriptor, scales):
    """Has the tensor core scales of this type, and of so many elements; are they where a row's may be?"""
    exponents_alone, a, b = bits_of(descriptor, 23, 1), scale_byte(descriptor, 0), scale_byte(descriptor, 1)
    if bits_of(descriptor, 31, 1):  # k = 96
        if not is_deep(operation) or get(operation, O_FORM) & FORM_SPARSE or not get(operation, O_FORM) & FORM_DEEP:
            return False
        if scales == 4 and (a | b) & 1:
            return False
    elif scales > 1 and (a | b) & 1 or scales == 4 and (a | b):
        return False
    return exponents_alone or kind == KIND_MXF4NVF4 and scales == 4


@compiled
def _types_fit(operation, kind, descriptor, scales):
    """Has the tensor core a product of this kind with the types of the descriptor?"""
    a, b, d = CODES[kind, bits_of(descriptor, 7, 3)], CODES[kind, bits_of(descriptor, 10, 3)], bits_of(descriptor, 4, 2)
    if a < 0 or b < 0 or (bits_of(descriptor, 2, 1) != 0) != (get(operation, O_FORM) & FORM_SPARSE != 0):
        return False
    if kind >= KIND_MXF8F6F4:
        return _scales_fit(operation, kind, descriptor, scales)
    if bits_of(descriptor, 0, 2) and get(operation, O_FORM) & FORM_SPARSE and kind in (KIND_I8, KIND_F8F6F4):
        return False
    if kind == KIND_I8:
        return d == D_S32 and bits_of(descriptor, 13, 2) == 0
    if bits_of(descriptor, 3, 1) or d > D_F32 or kind == KIND_TF32 and d != D_F32:
        return False
    return RULES[a, b, d] >= 0


@compiled
def _shape_fits(operation, kind, descriptor):
    m, n, form = m_of(descriptor), n_of(descriptor), get(operation, O_FORM)
    if form & FORM_SHIFTED and m < 128:
        return False
    if form & FORM_STATIONARY:
        return m in (32, 64, 128) and (n in (64, 128) or n == 256 and not form & FORM_SPARSE)
    if form & FORM_PAIR:  # of each block half of the rows of A and of B
        if n % 16 or kind == KIND_I8 and n % 32 or element_of(kind) == 1 and bits_of(descriptor, 16, 1) and n % 32:
            return False
        halves = kind < KIND_MXF8F6F4 or not (form & FORM_SPARSE or is_deep(operation))
        return (m == 256 or m == 128 and halves) and 16 <= n <= 256
    if m not in (64, 128) or n < 8 or n > 256 or kind >= KIND_MXF8F6F4 and m != 128:
        return False
    if m == 128 and n % 16 and kind < KIND_MXF8F6F4:
        return False
    if kind == KIND_I8 and n > 32 and n % 16:
        return False
    return not (element_of(kind) == 1 and bits_of(descriptor, 16, 1) and n % 16)


@compiled
def _matrix_fits(operation, matrix, transposed, element):
    """Is a matrix descriptor well formed, for k = 96 perhaps with an absolute address?"""
    absolute = is_absolute(matrix)
    if absolute and not (is_deep(operation) and get(operation, O_FORM) & FORM_DEEP and not transposed):
        return False
    return well_formed(matrix, transposed, element)


@compiled
def _descriptors_fit(operation, kind, descriptor):
    """Are the matrix descriptors well formed, and the types such as may be transposed?"""
    a_transposed, b_transposed = bits_of(descriptor, 15, 1), bits_of(descriptor, 16, 1)
    if a_transposed and is_narrow(kind, bits_of(descriptor, 7, 3)):
        return False
    if b_transposed and is_narrow(kind, bits_of(descriptor, 10, 3)):
        return False
    if not _matrix_fits(operation, get(operation, O_B), b_transposed, element_of(kind)):
        return False
    if get(operation, O_FORM) & FORM_A_MEMORY:
        return a_transposed == 0 and not is_deep(operation)
    return _matrix_fits(operation, get(operation, O_A), a_transposed, element_of(kind))


@compiled
def _lanes_fit(operation):
    """Does D start in a lane where its layout may, and A and metadata in tensor memory in the same?"""
    lane, form = lane_of(get(operation, O_D)), get(operation, O_FORM)
    if form & FORM_A_MEMORY and lane_of(get(operation, O_A)) != lane:
        return False
    if form & FORM_SPARSE and lane_of(get(operation, O_METADATA)) != lane:
        return False
    return lane == 0 or lane == 16 and rows_of(operation) == 64 and parts_of(operation) == 1


@compiled
def _shift_fits(operation, descriptor):
    """Are B's columns shifted by as many as the instruction descriptor allows, and m?"""
    if not get(operation, O_FORM) & FORM_ZERO_COLUMNS:
        return True
    allowed = bits_of(descriptor, 30, 2)
    largest = np.int64(4) << allowed if allowed else np.int64(0)
    return column_shift(get(operation, O_ZERO_COLUMNS)) <= (min(largest, 16) if m_of(descriptor) == 32 else largest)


@compiled
def broken_rule(operation):
    """The rule that a product breaks; -1: none."""
    kind, descriptor = kind_of(operation), get(operation, O_DESCRIPTOR)
    if not _types_fit(operation, kind, descriptor, scales_of(get(operation, O_FORM))):
        return np.int64(RULE_TYPES)
    if not _shape_fits(operation, kind, descriptor):
        return np.int64(RULE_SHAPE)
    if not _descriptors_fit(operation, kind, descriptor):
        return np.int64(RULE_DESCRIPTOR)
    if not _shift_fits(operation, descriptor):
        return np.int64(RULE_COLUMN_SHIFT)
    return np.int64(-1) if _lanes_fit(operation) else np.int64(RULE_ALIGNMENT)
