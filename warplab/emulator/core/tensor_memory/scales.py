"""Products whose A and B have a scale for every 16 or 32 elements of a row (.block_scale).

Scales lie in tensor memory, a byte each: that of row r is in lane r % 32, r / 32 columns behind the address, and each
warp's 32 lanes have all of them. A word holds four bytes; the instruction descriptor says at which one a row's scales
begin. The rows of D in a warp's lanes use what those lanes hold. Each block of a pair has the scales of its rows of A
and of all of B. (PTX ISA, "Block Scaling"; CUTLASS, tmem_sf_frg.)
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
)
from warplab.emulator.core.tensor.scaled import multiply_bytes, multiply_nibbles, split_scale
from warplab.emulator.core.tensor_memory.places import column_of, host_of

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
def _gather_scales(owner, operation, of_b, warp, first, rows, significands, exponents):
    """The scales [row, place] of rows from the `first` on, as a warp's lanes hold them."""
    address, descriptor = scale_address(operation, of_b), get(operation, O_DESCRIPTOR)
    exponents_alone = (descriptor >> 23) & 1
    for row in range(rows):
        lane, column = warp * WARP_LANES + (first + row) % WARP_LANES, (first + row) // WARP_LANES
        place = host_of(owner, lane, column_of(address) + column) + scale_byte(descriptor, of_b)
        for i in range(exponents.shape[1]):
            significands[row, i], exponents[row, i] = split_scale(np.int64(load_u8(place + i)), exponents_alone)


@compiled
def multiply_scaled(owner, operation, kind, a, b, d, a_kind, b_kind, rule, part):
    """D = (A scales) (B scales) + D, in place, of the `part`-th half of D's columns if its layout is folded, else 0."""
    rows, depth = a.shape
    columns, count = b.shape[0], scales_of(get(operation, O_FORM))
    a_significands, a_exponents = np.empty((rows, count), np.int64), np.empty((rows, count), np.int64)
    b_significands, b_exponents = np.empty((columns, count), np.int64), np.empty((columns, count), np.int64)
    warps = rows // WARP_LANES
    for warp in range(warps):
        first, lanes = warp * WARP_LANES, part * warps + warp
        _gather_scales(owner, operation, 0, lanes, 0, rows, a_significands, a_exponents)
        _gather_scales(owner, operation, 1, lanes, part * columns, columns, b_significands, b_exponents)
        mine = slice(first, first + WARP_LANES)
        if kind == KIND_MXF8F6F4:
            multiply_bytes(a[mine], b, d[mine], a_kind, b_kind, a_exponents[mine], b_exponents, rule)
        else:
            scales_a, scales_b = a_significands[mine], b_significands
            multiply_nibbles(a[mine], b, d[mine], scales_a, a_exponents[mine], scales_b, b_exponents)
