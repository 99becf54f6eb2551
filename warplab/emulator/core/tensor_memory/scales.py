"""Products whose A and B have a scale for every 16 or 32 elements of a row (.block_scale).

Scales lie in tensor memory, a byte each: that of row r is in lane r % 32, r / 32 columns behind the address, and each
warp's 32 lanes have all of them. A word holds four bytes; the instruction descriptor says at which one a row's scales
begin. With k = 96 they go on in the word that is as many columns behind as 128 rows take, or 256. The rows of D in a
warp's lanes use what those lanes hold. Each block of a pair has the scales of its rows of A and of all of B. (PTX ISA,
"Block Scaling"; CUTLASS, tmem_sf_frg.)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.raw import get, load_u8
from warplab.emulator.core.state.tensor_layout import (
    FORM_SCALES_SHIFT,
    KIND_MXF8F6F4,
    O_A_SCALES,
    O_B_SCALES,
    O_DESCRIPTOR,
    O_FORM,
    WARP_LANES,
    WORD,
)
from warplab.emulator.core.tensor.scaled import multiply_bytes, multiply_nibbles, split_scale
from warplab.emulator.core.tensor_memory.asked import is_deep, n_of, rows_of
from warplab.emulator.core.tensor_memory.places import column_of, host_of
from warplab.emulator.core.tensor_memory.sparse import pick

_ROWS_TOGETHER = 128  # whose scales lie side by side before those of the next word
_ADDRESS = (1 << 30) - 1  # the two bits above it are a copy of the scale's byte


@compiled
def scales_of(form):
    """The scales of a row; 0: the product has none."""
    return (form >> FORM_SCALES_SHIFT) & 7


@compiled
def scale_address(operation, of_b):
    """Where the scales of A, or of B, begin."""
    return get(operation, O_B_SCALES if of_b else O_A_SCALES) & _ADDRESS


@compiled
def scale_byte(descriptor, of_b):
    """The first byte of a word that holds a row's scales."""
    return (descriptor >> (4 if of_b else 29)) & 3


@compiled
def scale_count(operation):
    """The scales of a row of this product."""
    count = scales_of(get(operation, O_FORM))
    return count * 3 // 2 if is_deep(operation) else count


@compiled
def scale_step(operation, of_b):
    """The columns from a word with scales of a row to the next."""
    rows = n_of(get(operation, O_DESCRIPTOR)) if of_b else rows_of(operation)
    return (rows + _ROWS_TOGETHER - 1) // _ROWS_TOGETHER * _ROWS_TOGETHER // WARP_LANES


@compiled
def scale_columns(operation, of_b):
    """The columns from the first with scales of A, or of B, to the last."""
    rows = n_of(get(operation, O_DESCRIPTOR)) if of_b else rows_of(operation)
    words = (scale_byte(get(operation, O_DESCRIPTOR), of_b) + scale_count(operation) + WORD - 1) // WORD
    return (words - 1) * scale_step(operation, of_b) + (rows + WARP_LANES - 1) // WARP_LANES


@compiled
def _gather_scales(owner, operation, of_b, warp, first, rows, significands, exponents):
    """The scales [row, place] of rows from the `first` on, as a warp's lanes hold them."""
    address, descriptor = scale_address(operation, of_b), get(operation, O_DESCRIPTOR)
    exponents_alone, step, start = (descriptor >> 23) & 1, scale_step(operation, of_b), scale_byte(descriptor, of_b)
    for row in range(rows):
        lane, column = warp * WARP_LANES + (first + row) % WARP_LANES, (first + row) // WARP_LANES
        for i in range(exponents.shape[1]):
            word, byte = (start + i) // WORD, (start + i) % WORD
            place = host_of(owner, lane, column_of(address) + column + word * step) + byte
            significands[row, i], exponents[row, i] = split_scale(np.int64(load_u8(place)), exponents_alone)


@compiled
def multiply_scaled(owner, operation, kind, a, b, d, a_kind, b_kind, rule, part, places):
    """D = (A scales) (B scales) + D, in place, of the `part`-th part of D's columns; `places` of a sparse A are its
    elements', and are empty for a dense one."""
    rows, depth = a.shape
    columns, count = b.shape[0], scale_count(operation)
    picked = np.empty((columns if places.shape[0] else 0, depth), np.uint32)
    a_significands, a_exponents = np.empty((rows, count), np.int64), np.empty((rows, count), np.int64)
    b_significands, b_exponents = np.empty((columns, count), np.int64), np.empty((columns, count), np.int64)
    warps = rows // WARP_LANES
    for warp in range(warps):
        first, lanes = warp * WARP_LANES, part * warps + warp
        _gather_scales(owner, operation, 0, lanes, 0, rows, a_significands, a_exponents)
        _gather_scales(owner, operation, 1, lanes, part * columns, columns, b_significands, b_exponents)
        together = 1 if places.shape[0] else WARP_LANES
        for row in range(first, first + WARP_LANES, together):
            mine, met = slice(row, row + together), b
            if places.shape[0]:
                pick(b, places, row, picked)
                met = picked
            if kind == KIND_MXF8F6F4:
                multiply_bytes(a[mine], met, d[mine], a_kind, b_kind, a_exponents[mine], b_exponents, rule)
            else:
                scales_a, scales_b = a_significands[mine], b_significands
                multiply_nibbles(a[mine], met, d[mine], scales_a, a_exponents[mine], scales_b, b_exponents)
