"""Products whose operands have a scale for every 16 or 32 elements of a row.

Sums as published, not measured by us (MMA-Sim): with elements of eight bits as without scales, with the exponents of
the scales added. With four bits, 16 products are added exactly and scaled, and these sums and D are aligned to the
largest exponent of two scales' product or of D, cut off toward zero at 35 fraction bits, added and cut off to 23.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.tensor.numerics import FORMATS, Kind, add_block, decode, encode

_GROUP, _FRACTION, _RESULT = 16, 35, 23
_UNITS = 8  # fraction bits of a scaled sum of four-bit products: 2 of the products, 3 of each scale
_NO_NUMBER = 1 << 20
_ZERO = -126


@compiled
def split_scale(byte, exponents_alone):
    """A scale as (significand with 3 fraction bits, exponent); _NO_NUMBER as the exponent of NaN."""
    if exponents_alone:
        return np.int64(8), np.int64(_NO_NUMBER) if byte == 255 else byte - 127
    significand, exponent = decode(byte & 0x7F, np.int64(Kind.E4M3))
    if exponent > 1000:
        return np.int64(8), np.int64(_NO_NUMBER)
    return np.int64(significand), np.int64(exponent) if significand else np.int64(_ZERO)


@compiled
def _decode_row(bits, kind, scale, significands, exponents):
    for k in range(bits.shape[0]):
        significand, exponent = decode(np.int64(bits[k]), kind)
        significands[k] = significand
        exponents[k] = exponent + scale if significand and exponent < 1000 else exponent


@compiled
def multiply_bytes(a, b, d, a_kind, b_kind, a_scales, b_scales, rule):
    """D += A B in place, of numbers of up to eight bits with a power of two for each row."""
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
def multiply_nibbles(a, b, d, a_significands, a_exponents, b_significands, b_exponents):
    """D += A B in place, of e2m1 with two or four scales for each row."""
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
