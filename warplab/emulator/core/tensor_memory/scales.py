"""Products whose A and B have a scale for every 16 or 32 elements of a row (.block_scale).

Scales lie in tensor memory, a byte each: that of row r is in lane r % 32, r / 32 columns behind the address, and each
warp's 32 lanes have all of them. A word holds four bytes; the instruction descriptor says at which one a row's scales
begin. The rows of D in a warp's lanes use what those lanes hold. Each block of a pair has the scales of its rows of A
and of all of B. (PTX ISA, "Block Scaling"; CUTLASS, tmem_sf_frg.)

Sums as published, not measured by us (MMA-Sim): mxf8f6f4 as f8f6f4, with the exponents of the scales added. With four
bits, 16 products are added exactly and scaled, and these sums and D are aligned to the largest exponent of two scales'
product or of D, cut off toward zero at 35 fraction bits, added and cut off to 23.
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
from warplab.emulator.core.tensor.numerics import FORMATS, Kind, add_block, decode, encode
from warplab.emulator.core.tensor_memory.places import column_of, host_of

_GROUP, _FRACTION, _RESULT = 16, 35, 23
_UNITS = 8  # fraction bits of a scaled sum of four-bit products: 2 of the products, 3 of each scale
_NO_NUMBER = 1 << 20
_ZERO = -126
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
def _split(byte, exponents_alone):
    """A scale as (significand with 3 fraction bits, exponent); _NO_NUMBER as the exponent of NaN."""
    if exponents_alone:
        return np.int64(8), np.int64(_NO_NUMBER) if byte == 255 else byte - 127
    significand, exponent = decode(byte & 0x7F, np.int64(Kind.E4M3))
    if exponent > 1000:
        return np.int64(8), np.int64(_NO_NUMBER)
    return np.int64(significand), np.int64(exponent) if significand else np.int64(_ZERO)


@compiled
def _gather_scales(owner, operation, of_b, warp, rows, significands, exponents):
    """The scales [row, place] of some rows, as a warp's lanes hold them."""
    address, descriptor = scale_address(operation, of_b), get(operation, O_DESCRIPTOR)
    exponents_alone = (descriptor >> 23) & 1
    for row in range(rows):
        lane = warp * WARP_LANES + row % WARP_LANES
        place = host_of(owner, lane, column_of(address)) + row // WARP_LANES * WORD + scale_byte(descriptor, of_b)
        for i in range(exponents.shape[1]):
            significands[row, i], exponents[row, i] = _split(np.int64(load_u8(place + i)), exponents_alone)


@compiled
def multiply_scaled(owner, operation, kind, a, b, d, a_kind, b_kind, rule):
    """D = (A scales) (B scales) + D, in place."""
    rows, depth = a.shape
    columns, count = b.shape[0], scales_of(get(operation, O_FORM))
    a_significands, a_exponents = np.empty((rows, count), np.int64), np.empty((rows, count), np.int64)
    b_significands, b_exponents = np.empty((columns, count), np.int64), np.empty((columns, count), np.int64)
    for warp in range(rows // WARP_LANES):
        first = warp * WARP_LANES
        _gather_scales(owner, operation, 0, warp, rows, a_significands, a_exponents)
        _gather_scales(owner, operation, 1, warp, columns, b_significands, b_exponents)
        part = slice(first, first + WARP_LANES)
        if kind == KIND_MXF8F6F4:
            _multiply_bytes(a[part], b, d[part], a_kind, b_kind, a_exponents[part], b_exponents, rule)
        else:
            scales_a, scales_b = a_significands[part], b_significands
            _multiply_nibbles(a[part], b, d[part], scales_a, a_exponents[part], scales_b, b_exponents)


@compiled
def _decode_row(bits, kind, scale, significands, exponents):
    for k in range(bits.shape[0]):
        significand, exponent = decode(np.int64(bits[k]), kind)
        significands[k] = significand
        exponents[k] = exponent + scale if significand and exponent < 1000 else exponent


@compiled
def _multiply_bytes(a, b, d, a_kind, b_kind, a_scales, b_scales, rule):
    rows, depth = a.shape
    columns = b.shape[0]
    lift = 25 - FORMATS[a_kind, 1] - FORMATS[b_kind, 1]
    sig_a, exp_a = np.empty(depth, np.int32), np.empty(depth, np.int32)
    sig_b, exp_b = np.empty((depth, columns), np.int32), np.empty((depth, columns), np.int32)
    largest, total, row = np.empty(columns, np.int32), np.empty(columns, np.int64), np.empty(columns, np.int64)
    for j in range(columns):
        _decode_row(b[j], b_kind, b_scales[j, 0], sig_b[:, j], exp_b[:, j])
    for i in range(rows):
        _decode_row(a[i], a_kind, a_scales[i, 0], sig_a, exp_a)
        for j in range(columns):
            row[j] = np.int64(d[i, j])
        add_block(sig_a, exp_a, sig_b, exp_b, lift, rule, largest, total, row)
        for j in range(columns):
            no_number = a_scales[i, 0] == _NO_NUMBER or b_scales[j, 0] == _NO_NUMBER
            d[i, j] = np.uint32(0x7FFFFFFF) if no_number else np.uint32(row[j])


@compiled
def _twice(bits):
    """Twice the number that four bits of e2m1 are."""
    significand, exponent = decode(np.int64(bits), np.int64(Kind.E2M1))
    return np.int32(significand << exponent if significand else 0)


@compiled
def _multiply_nibbles(a, b, d, a_significands, a_exponents, b_significands, b_exponents):
    rows, depth = a.shape
    columns, count = b.shape[0], a_exponents.shape[1]
    groups = depth // _GROUP
    right = np.empty((depth, columns), np.int32)
    for j in range(columns):
        for k in range(depth):
            right[k, j] = _twice(b[j, k])
    sums = np.empty((groups, columns), np.int32)
    for i in range(rows):
        sums[:] = 0
        for k in range(depth):
            factor = _twice(a[i, k])
            for j in range(columns):
                sums[k // _GROUP, j] += np.int32(factor * right[k, j])
        for j in range(columns):
            significand, exponent = decode(np.int64(d[i, j]), np.int64(Kind.F32))
            no_number = exponent > 1000 and significand == 0
            largest = exponent if significand else np.int64(_ZERO)
            for scale in range(count):
                both = a_exponents[i, scale] + b_exponents[j, scale]
                no_number = no_number or both > 1000
                largest = max(largest, both)
            if no_number:
                d[i, j] = np.uint32(0x7FFFFFFF)
                continue
            if exponent > 1000:
                continue  # infinity stays
            kept = (abs(significand) << (_FRACTION - _RESULT)) >> min(largest - exponent, np.int64(63))
            total = kept if significand >= 0 else -kept
            for group in range(groups):
                scale = group * count // groups
                term = np.int64(sums[group, j]) * a_significands[i, scale] * b_significands[j, scale]
                drop = min(largest - a_exponents[i, scale] - b_exponents[j, scale], np.int64(63))
                kept = (abs(term) << (_FRACTION - _UNITS)) >> drop
                total += kept if term >= 0 else -kept
            d[i, j] = np.uint32(encode(total, largest - _FRACTION, np.int64(Kind.F32), np.int64(_RESULT)))
