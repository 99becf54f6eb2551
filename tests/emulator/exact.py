"""Exact floating-point arithmetic by Python's rationals: the independent truth for rounding tests."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple


class Format(NamedTuple):
    """A binary format by its exponent and significand bits."""

    exponent: int
    significand: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.significand

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.significand


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)


def decode(bits: int, form: Format) -> Fraction | float:
    """A bit pattern's value: an exact rational, or a float for infinities, NaN and the negative zero."""
    sign = -1 if bits >> (form.width - 1) else 1
    magnitude = bits & ((1 << (form.width - 1)) - 1)
    if magnitude > form.infinity:
        return math.nan
    if magnitude == form.infinity:
        return sign * math.inf
    if magnitude == 0:
        return sign * 0.0
    exponent, fraction = magnitude >> form.significand, magnitude & ((1 << form.significand) - 1)
    if exponent:
        fraction |= 1 << form.significand
    power = max(exponent, 1) - form.bias - form.significand
    return sign * Fraction(fraction) * Fraction(2) ** power


def encode(value: Fraction, form: Format, mode: str = "rn") -> int:
    """Round a rational that is not zero into a format."""
    sign, magnitude = value < 0, abs(value)
    power = math.floor(math.log2(magnitude.numerator) - math.log2(magnitude.denominator)) if magnitude else 0
    while Fraction(2) ** power > magnitude:
        power -= 1
    while Fraction(2) ** (power + 1) <= magnitude:
        power += 1
    power = max(power, 1 - form.bias)
    scaled = magnitude / Fraction(2) ** (power - form.significand)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if mode == "rn":
        whole += rest > Fraction(1, 2) or rest == Fraction(1, 2) and whole & 1
    elif mode == "rp":
        whole += rest > 0 and not sign
    elif mode == "rm":
        whole += rest > 0 and sign
    bits = whole + ((power + form.bias - 1) << form.significand) if whole >= 1 << form.significand else whole
    if bits >= form.infinity:
        away = {"rn": True, "rz": False, "rp": not sign, "rm": sign}[mode]
        bits = form.infinity if away else form.infinity - 1
    return bits | sign << (form.width - 1)
