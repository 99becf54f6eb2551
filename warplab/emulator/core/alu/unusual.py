"""What the assembler's ways through a division or a root cost, where operands are unusual.

ptxas makes a short sequence of a rounded division, reciprocal or root, and a branch to a subroutine for operands that
it cannot serve: zeros, subnormal, infinite and very large or small ones. Vector operations tell which lanes have such;
the sums, products and fused operations of the subroutines are counted lane by lane, as the machine code of ptxas 13.0
has them.

A cost is one integer: fused operations, and above them, 16 bits each, products and sums.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.lanes import I32, I64, Lanes, Table
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    C_FUSED,
    C_PRODUCTS,
    C_SUMS,
    SRC_A,
    SRC_B,
    UNUSUAL_DIVISION,
    UNUSUAL_DIVISION_64,
    UNUSUAL_DIVISION_FTZ,
    UNUSUAL_RECIPROCAL,
    UNUSUAL_RECIPROCAL_64,
    UNUSUAL_RECIPROCAL_FTZ,
    UNUSUAL_ROOT,
    UNUSUAL_ROOT_FTZ,
    X0,
)
from warplab.emulator.core.state.raw import field, increase, load_u32, load_u64, operand, trailing_zeros32

_SUM, _PRODUCT, _FUSED = 1 << 32, 1 << 16, 1
_EXPONENTS, _EXPONENTS_64 = 0xFF, 0x7FF  # as they are stored: of infinities and NaN
_SIZE_64 = 0x7FFF_FFFF_FFFF_FFFF


@compiled
def _normal_exponent(exponent, mantissa, bits):
    """The exponent that a number would be stored with if subnormal ones had a first bit too."""
    if exponent == 0:
        exponent = 1
        while mantissa >> bits == 0 and mantissa != 0:
            mantissa <<= 1
            exponent -= 1
    return exponent


@compiled
def _normal_mantissa(exponent, mantissa, bits):
    """A number's bits from its first one on, `bits` behind it."""
    if exponent != 0:
        return mantissa | np.int64(1) << bits
    while mantissa >> bits == 0 and mantissa != 0:
        mantissa <<= 1
    return mantissa


@compiled
def _quotient_exponent(a, b, bits, bias):
    """The exponent that the quotient of two finite numbers, not zero, would be stored with; a and b have no sign."""
    low = (np.int64(1) << bits) - 1
    one = _normal_exponent(a >> bits, a & low, bits) - _normal_exponent(b >> bits, b & low, bits) + bias
    smaller = _normal_mantissa(a >> bits, a & low, bits) < _normal_mantissa(b >> bits, b & low, bits)
    return one - 1 if smaller else one


@compiled
def _next_to_subnormal(a, b):
    """Is the quotient of two finite float64, not zero, subnormal or less than 1 + 2^-20 times the least normal number?

    ptxas compares the quotient's upper word with that of the least normal number, so that it takes those for subnormal.
    """
    exponent = _quotient_exponent(a, b, 52, 1023)
    if exponent != 1:
        return exponent < 1
    low = (np.int64(1) << 52) - 1
    one, other = _normal_mantissa(a >> 52, a & low, 52), _normal_mantissa(b >> 52, b & low, 52)
    if one < other:
        one <<= 1
    return one - other <= other - 1 >> 20


@compiled
def division_cost(a, b, flushes):
    """Of the subroutine, float32 as its bits; `flushes`: with .ftz."""
    a, b = a & 0x7FFFFFFF, b & 0x7FFFFFFF
    infinite = _EXPONENTS << 23
    if a > infinite or b > infinite:
        return _SUM  # NaN is made by a sum
    least = 1 << 23 if flushes else 1
    if a < least or b < least or a == infinite or b == infinite:
        return 0
    cost = _SUM + 7 * _FUSED
    if not flushes:
        cost += _FUSED * ((a < 1 << 23) + (b < 1 << 23))  # scaled first
        if -24 <= _quotient_exponent(a, b, 23, 127) <= 0:
            cost += 3 * _FUSED  # rounded down, up and to zero, to find how to round a subnormal quotient
    return cost


@compiled
def reciprocal_cost(x, flushes):
    """Of the subroutine, float32 as its bits."""
    x = x & 0x7FFFFFFF
    if flushes or x == 0 or x >= _EXPONENTS << 23:
        return 0
    return _SUM + 4 * _FUSED if x < 1 << 23 else _SUM + 3 * _FUSED


@compiled
def root_cost(x, flushes):
    """Of the subroutine, float32 as its bits."""
    size = x & 0x7FFFFFFF
    if size > _EXPONENTS << 23:
        return _SUM  # NaN
    if size < 1 << 23 and flushes:
        return _PRODUCT  # zero, which a product with 1 makes of subnormal ones
    if size == 0 or size == _EXPONENTS << 23 or x != size and size >= 1 << 23:
        return 0
    return _SUM + 4 * _PRODUCT + 2 * _FUSED if flushes else _SUM + 3 * _PRODUCT + 3 * _FUSED


@compiled
def division_64_cost(a, b):
    """Of the subroutine, float64 as its bits. A subnormal quotient that leaves no remainder has not to be rounded."""
    a, b = a & _SIZE_64, b & _SIZE_64
    least, infinite = np.int64(1) << 52, np.int64(_EXPONENTS_64) << 52
    plain = a >= np.int64(54) << 52 and a < infinite and b >= least and b < np.int64(2040) << 52
    if plain and _quotient_exponent(a, b, 52, 1023) < 2040 and not _next_to_subnormal(a, b):
        return np.int64(0)  # not called
    cost = _PRODUCT + 7 * _FUSED + _FUSED * (a < least) + _PRODUCT * (b < least)
    if a == 0 or b == 0 or a >= infinite or b >= infinite:
        return cost
    cost += _PRODUCT
    if _next_to_subnormal(a, b):
        low = least - 1
        one, other = _normal_mantissa(a >> 52, a & low, 52), _normal_mantissa(b >> 52, b & low, 52)
        exact = one % (other // (other & -other)) == 0
        cost += _FUSED if exact else _PRODUCT + 2 * _FUSED
    return cost


@compiled
def reciprocal_64_cost(x):
    """Of the subroutine, float64 as its bits."""
    upper = (x >> 32) & 0x7FFFFFFF
    if upper == 0 or upper >= 0x7FF00000:
        return 0
    return _PRODUCT + 8 * _FUSED if upper >= 0x01000001 else 2 * _PRODUCT + 5 * _FUSED


@compiled
def root_64_cost(x):
    """Of the subroutine, float64 as its bits."""
    size = x & _SIZE_64
    upper = (x >> 32) & 0xFFFFFFFF
    if 0x00100000 <= upper < 0x03500000:
        return 2 * _FUSED
    if size == 0 or size > np.int64(_EXPONENTS_64) << 52:
        return _SUM
    if x != size:
        return 0
    return _SUM if upper >= 0x7FF00000 else 4 * _PRODUCT + 5 * _FUSED


@compiled
def _cost(kind, a, b):
    if kind in (UNUSUAL_DIVISION, UNUSUAL_DIVISION_FTZ):
        return division_cost(a, b, kind == UNUSUAL_DIVISION_FTZ)
    if kind in (UNUSUAL_RECIPROCAL, UNUSUAL_RECIPROCAL_FTZ):
        return reciprocal_cost(a, kind == UNUSUAL_RECIPROCAL_FTZ)
    if kind in (UNUSUAL_ROOT, UNUSUAL_ROOT_FTZ):
        return root_cost(a, kind == UNUSUAL_ROOT_FTZ)
    if kind == UNUSUAL_DIVISION_64:
        return division_64_cost(a, b)
    return reciprocal_64_cost(a) if kind == UNUSUAL_RECIPROCAL_64 else root_64_cost(a)


@compiled
def note_unusual(cell, frame, constants, record, mask):
    """Count what the subroutine does for some lanes, those whose operands need it."""
    kind = field(record, X0)
    row_a, row_b = operand(frame, constants, record, SRC_A), operand(frame, constants, record, SRC_B)
    rest, cost = np.uint32(mask), np.int64(0)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        if kind < UNUSUAL_DIVISION_64:
            a, b = np.int64(load_u32(row_a + 4 * lane)), np.int64(load_u32(row_b + 4 * lane))
        else:
            a, b = np.int64(load_u64(row_a + 8 * lane)), np.int64(load_u64(row_b + 8 * lane))
        cost += _cost(kind, a, b)
    increase(cell, C_SUMS, cost >> 32)
    increase(cell, C_PRODUCTS, (cost >> 16) & 0xFFFF)
    increase(cell, C_FUSED, cost & 0xFFFF)


def _division(o: Lanes) -> None:
    """Of FCHK, which decides, only this was measured: that a below 2^-102 needs the subroutine, as the remainder may be
    subnormal. That b, its reciprocal and the quotient are normal is what the short sequence needs."""
    a, b = ((o.read(slot, I32).lshr(23)) & _EXPONENTS for slot in (SRC_A, SRC_B))
    o.write_predicate(
        (a - 25).compare(">", 254 - 25) | (b - 1).compare(">", 252 - 1) | (a - b + 125).compare(">", 126 + 125)
    )


def _reciprocal(o: Lanes) -> None:
    """All but exponents 1 to 252."""
    o.write_predicate(((o.read(SRC_A, I32) + 0x01800000) & 0x7F800000).compare("<", 0x02000000))


def _root(o: Lanes) -> None:
    """All but what lies from 2^-101 to infinity."""
    o.write_predicate((o.read(SRC_A, I32) - 0x0D000000).compare(">", 0x727FFFFF))


def _division_64(o: Lanes) -> None:
    """Where a is below 2^-969, or b or the quotient may be no normal number below 2^1017."""
    a, b = ((o.read(slot, I64).lshr(52)) & _EXPONENTS_64 for slot in (SRC_A, SRC_B))
    o.write_predicate(
        (a - 54).compare(">", 2046 - 54) | (b - 1).compare(">", 2039 - 1) | (a - b + 1021).compare(">", 2039 - 2)
    )


def _reciprocal_64(o: Lanes) -> None:
    """Subnormal numbers and zero, and those whose reciprocal is subnormal, by the upper half."""
    upper = o.read(SRC_A, I64).lshr(32).trunc(I32)
    o.write_predicate(((upper + 0x00300402) & 0x7FFFFFFF).compare("<", 0x00400402))


def _root_64(o: Lanes) -> None:
    """Below 2^-970, infinite, NaN and negative, by the upper half."""
    upper = o.read(SRC_A, I64).lshr(32).trunc(I32)
    o.write_predicate((upper - 0x03500000).compare(">=", 0x7CA00000))


def build() -> Table:
    """The tests of operands that need a subroutine, as the machine code in front of its call makes them."""
    return {
        "unusual.div.f32": _division,
        "unusual.rcp.f32": _reciprocal,
        "unusual.sqrt.f32": _root,
        "unusual.div.f64": _division_64,
        "unusual.rcp.f64": _reciprocal_64,
        "unusual.sqrt.f64": _root_64,
    }
