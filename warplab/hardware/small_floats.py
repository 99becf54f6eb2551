"""Floating-point formats of 4 and 8 bits: their values, derived from exponent and fraction bits, and rounding to them.

e4m3 and e5m2 are those of Micikevicius et al., "FP8 Formats for Deep Learning" (arXiv:2209.05433); e2m1 is FP4 of the
OCP Microscaling Formats (MX) Specification 1.0. Rounding is to the nearest value, ties to the even code, as `cvt.rn`
does (PTX ISA, "cvt").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np


class Specials(Enum):
    """What the codes with all exponent bits set mean."""

    IEEE = "infinity, and NaN for any other fraction"
    ONE_NAN = "numbers, but NaN where all fraction bits are set too"
    NONE = "numbers"


@dataclass(frozen=True)
class SmallFloat:
    """A format with a sign bit, `exponent_bits` and `fraction_bits`, 8 bits at most together."""

    name: str
    exponent_bits: int
    fraction_bits: int
    specials: Specials

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        """What the exponent field is above the exponent: half of its range, as in IEEE 754."""
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def lowest_exponent(self) -> int:
        """The exponent of the smallest normal number, which subnormal numbers share."""
        return 1 - self.bias

    @cached_property
    def values(self) -> np.ndarray:
        """The number that each code stands for, float64 of shape (2**bits,): with NaN and infinities where they are."""
        codes = np.arange(2**self.bits)
        top = 2**self.exponent_bits - 1
        field, fraction = codes >> self.fraction_bits & top, codes & 2**self.fraction_bits - 1
        normal = field > 0
        significand = normal + fraction / 2**self.fraction_bits
        numbers = significand * 2.0 ** (np.where(normal, field, 1) - self.bias)
        if self.specials is Specials.IEEE:
            numbers = np.where(field == top, np.where(fraction, np.nan, np.inf), numbers)
        elif self.specials is Specials.ONE_NAN:
            numbers = np.where((field == top) & (fraction == 2**self.fraction_bits - 1), np.nan, numbers)
        return np.where(codes >> self.bits - 1, -numbers, numbers)

    @cached_property
    def magnitudes(self) -> np.ndarray:
        """The finite values without a sign, in ascending order: the index of one is its code."""
        positive = self.values[: 2 ** (self.bits - 1)]
        return positive[np.isfinite(positive)]

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return float(self.magnitudes[-1])

    @property
    def smallest_normal(self) -> float:
        """The smallest value of full precision: what is smaller is subnormal."""
        return 2.0**self.lowest_exponent

    @property
    def nan(self) -> int | None:
        """The code that rounding gives for NaN, or None where the format has none."""
        return None if self.specials is Specials.NONE else 2 ** (self.bits - 1) - 1

    def encode(self, x: np.ndarray | float, *, saturate: bool = True) -> np.ndarray:
        """The codes, uint8, of the values nearest to `x` (any shape, float64 or what converts to it exactly).

        What rounds beyond the largest value becomes it with `saturate` (`.satfinite`); without, infinity, or NaN where
        the format has no infinity. NaN stays NaN. Raises ValueError where a result has no code: NaN, or without
        `saturate` a number out of range, in a format with neither NaN nor infinity.
        """
        x = np.asarray(x, np.float64)
        magnitude = np.minimum(np.abs(x), 4 * self.largest)  # infinity has no quantum; NaN is put back below
        exponent = np.frexp(np.where(np.isnan(x), 1.0, magnitude))[1] - 1
        quantum = 2.0 ** (np.maximum(exponent, self.lowest_exponent) - self.fraction_bits)
        rounded = np.rint(magnitude / quantum) * quantum  # exact in float64 up to here; rint takes ties to even
        beyond = rounded > self.largest
        codes = np.searchsorted(self.magnitudes, np.minimum(rounded, self.largest)).astype(np.int64)
        special = np.isnan(x) if saturate else np.isnan(x) | beyond
        if self.nan is None and special.any():
            raise ValueError(f"{self.name} has no NaN and no infinity: round with saturate=True, and leave NaN out")
        if not saturate:
            infinity = len(self.magnitudes) if self.specials is Specials.IEEE else self.nan
            codes = np.where(beyond, infinity or 0, codes)
        codes = np.where(np.isnan(x), self.nan or 0, codes)
        return np.where(np.signbit(x) & ~np.isnan(x), codes | 1 << self.bits - 1, codes).astype(np.uint8)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The values of codes, float64, in their shape."""
        return self.values[codes]

    def rounded(self, x: np.ndarray | float) -> np.ndarray:
        """The nearest values to `x`, float64, saturated: `decode(encode(x))`."""
        return self.decode(self.encode(x))


E4M3 = SmallFloat("e4m3", 4, 3, Specials.ONE_NAN)
E5M2 = SmallFloat("e5m2", 5, 2, Specials.IEEE)
E2M1 = SmallFloat("e2m1", 2, 1, Specials.NONE)
FORMATS = {number.name: number for number in (E4M3, E5M2, E2M1)}
