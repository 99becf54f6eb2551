"""Floating-point formats and correct rounding, as vector IR.

Directed roundings and the small formats are computed without touching the processor's rounding mode: an operation is
done in float64 "rounded to odd" (the last bit set whenever the result is inexact), which makes a second rounding to
any format of at most 51 bits correct in every mode (Boldo and Melquiond, "When double rounding is odd"). `narrow` is
that second rounding, in integer arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

from warplab.emulator.core.alu.lanes import BITS, F32, F64, I16, I32, I64, INT, Vector


class Format(NamedTuple):
    """A binary floating-point format: bits of exponent and stored significand, and its canonical NaN.

    `finite` counts the codes from infinity's on that are finite numbers instead: formats below 8 bits and e4m3 have no
    infinity. A format without NaN makes its largest number of one.
    """

    exponent: int
    significand: int
    nan: int
    finite: int = 0

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        return (((1 << self.exponent) - 1) << self.significand) + self.finite

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.significand)


F16_FORMAT = Format(5, 10, 0x7FFF)
BF16_FORMAT = Format(8, 7, 0x7FFF)
F32_FORMAT = Format(8, 23, 0x7FFFFFFF)
E4M3_FORMAT = Format(4, 3, 0x7F, finite=7)
E5M2_FORMAT = Format(5, 2, 0x7F)
E2M1_FORMAT = Format(2, 1, 0x7, finite=2)
E2M3_FORMAT = Format(2, 3, 0x1F, finite=8)
E3M2_FORMAT = Format(3, 2, 0x1F, finite=4)
F64_FORMAT = Format(11, 52, 0x7FFFFFFFFFFFFFFF)
_WORD_SHIFT = 31  # bits that a word can drop
FORMATS = {"f16": F16_FORMAT, "bf16": BF16_FORMAT, "f32": F32_FORMAT, "f64": F64_FORMAT}


def narrow(
    bits: Vector,
    source: Format,
    target: Format,
    mode: str = "rn",
    saturate: bool = False,
    chance: tuple[Vector, int] | None = None,
) -> Vector:
    """Round `bits` (integers holding `source` values) to `target`, result in the low bits of the same integers.

    `mode`: rn (ties to even), rna (ties away), rz, rm (down), rp (up), rs (stochastic: away from zero where `chance`,
    so many random bits, and the highest of the bits that are dropped add up to a carry). `saturate` gives the largest
    finite value instead of infinity. NaN becomes the target's canonical NaN.
    """
    sign_bit = bits & source.sign
    magnitude = bits & (source.sign - 1)
    exponent = magnitude.lshr(source.significand)
    fraction = magnitude & ((1 << source.significand) - 1)
    normal = exponent.compare("!=", 0)
    significand = normal.where(fraction | (1 << source.significand), fraction)
    exponent = normal.where(exponent, 1)
    rebias = source.bias - target.bias
    dropped = source.significand - target.significand
    # Below the target's smallest normal more bits are dropped, one for each step of the exponent.
    deficit = (exponent * -1) + (rebias + 1)
    deficit = deficit.compare(">", 0, signed=True).where(deficit, 0)
    shift = deficit + dropped
    limit = _WORD_SHIFT if chance else source.significand + 2
    shift = shift.compare(">", limit).where(splat_like(shift, limit), shift)
    kept = significand.lshr(shift)
    one = splat_like(shift, 1)
    rest = significand & ((one << shift) - 1)
    half = one << (shift - 1) if dropped else (one << shift).lshr(1)
    negative = sign_bit.compare("!=", 0)
    zero = splat_like(shift, 0)
    if mode == "rn":
        tie_up = rest.compare("==", half) & (kept & 1).compare("!=", 0)
        up = (rest.compare(">", half) | tie_up).where(one, zero)
    elif mode == "rna":
        up = rest.compare(">=", half).where(one, zero)
    elif chance:
        up = _carry(rest, shift, *chance)
    elif mode == "rz":
        up = zero
    else:
        away = negative if mode == "rm" else negative ^ 1
        up = (rest.compare("!=", 0) & away).where(one, zero)
    field = exponent - (rebias + 1)
    field = field.compare("<", 0, signed=True).where(zero, field)
    result = (field << target.significand) + kept + up

    largest = target.infinity - 1
    infinity = splat_like(result, target.infinity)
    if saturate or mode == "rz":
        overflow = splat_like(result, largest)
    elif mode == "rm":
        overflow = negative.where(infinity, largest)
    elif mode == "rp":
        overflow = negative.where(splat_like(result, largest), infinity)
    else:
        overflow = infinity
    result = result.compare(">=", target.infinity).where(overflow, result)
    if not saturate:
        result = magnitude.compare("==", source.infinity).where(infinity, result)
    width = source.exponent + source.significand - target.exponent - target.significand
    result = result | sign_bit.lshr(width)
    return magnitude.compare(">", source.infinity).where(splat_like(result, target.nan), result)


def _carry(rest: Vector, shift: Vector, random: Vector, width: int) -> Vector:
    """The carry out of the `shift` bits that are dropped when `width` random bits are added to the highest of them."""
    fewer = shift.compare("<", width)
    left = fewer.where(splat_like(shift, 0), shift - width)
    right = fewer.where(splat_like(shift, width) - shift, 0)
    return (rest + (random << left).lshr(right)).lshr(shift)


def splat_like(vector: Vector, number: int | float) -> Vector:
    """A constant in every lane, typed as `vector`."""
    return vector._wrap(ir_constant(vector, number))


def ir_constant(vector: Vector, number: int | float):
    """The LLVM constant behind `splat_like`."""
    return vector._other(number)


def widen_half(bits: Vector) -> Vector:
    """f16 bits (i16) to f32, exactly; NaN becomes canonical."""
    wide = bits.zext(I32)
    sign = (wide & 0x8000) << 16
    magnitude = (wide & 0x7FFF) << 13
    # As float32 bits the exponent is 112 too small: multiply by 2**112, which also normalises the subnormals.
    scaled = (magnitude.bits(F32) * 2.0**112).bits(I32)
    special = magnitude.compare("==", 0x7C00 << 13).where(splat_like(scaled, 0x7F800000), scaled)
    result = (special | sign).bits(F32)
    return magnitude.compare(">", 0x7C00 << 13).where(splat_like(sign, 0x7FFFFFFF).bits(F32), result)


def widen_bfloat(bits: Vector) -> Vector:
    """bf16 bits (i16) to f32, exactly; NaN becomes canonical."""
    return canonical((bits.zext(I32) << 16).bits(F32))


def canonical(value: Vector) -> Vector:
    """float32 with every NaN replaced by 0x7fffffff, as the hardware's arithmetic returns it."""
    # By the bits: LLVM may take any NaN for any other, and drop a choice between floats that only differ so.
    bits = value.bits(I32)
    return (bits & 0x7FFFFFFF).compare(">", 0x7F800000).where(splat_like(bits, 0x7FFFFFFF), bits).bits(F32)


def flush(value: Vector) -> Vector:
    """float32 with subnormal values replaced by zero of the same sign (.ftz)."""
    bits = value.bits(I32)
    small = (bits & 0x7FFFFFFF).compare("<", 0x00800000)
    return small.where(bits & 0x80000000, bits).bits(F32)


def saturate(value: Vector) -> Vector:
    """A float clamped to [0, 1]; NaN becomes 0 (.sat)."""
    value = value.compare("ogt", 0.0).where(value, 0.0)
    return value.compare("olt", 1.0).where(value, 1.0)


def to_odd(value: Vector, error: Vector) -> Vector:
    """float64 `value` rounded to odd, where `error` has the sign of the exact result minus `value`."""
    bits = value.bits(I64)
    even = (bits & 1).compare("==", 0)
    above, below = error.compare("ogt", 0.0), error.compare("olt", 0.0)
    positive = bits.compare(">=", 0, signed=True)
    step = splat_like(bits, 1)
    # Moving the bit pattern up by one moves away from zero.
    delta = (above ^ positive).where(splat_like(bits, -1), step)
    adjust = even & (above | below)
    return adjust.where(bits + delta, bits).bits(F64)


def add_odd(a: Vector, b: Vector) -> Vector:
    """a + b in float64, rounded to odd (Knuth's two-sum gives the error exactly)."""
    total = a + b
    virtual = total - a
    error = (a - (total - virtual)) + (b - virtual)
    return to_odd(total, error)


def load_small(bits: Vector, name: str) -> Vector:
    """i16 bits of format f16 or bf16 as f32."""
    return widen_half(bits) if name == "f16" else widen_bfloat(bits)


def store_small(value: Vector, name: str, mode: str = "rn", chance: tuple[Vector, int] | None = None) -> Vector:
    """f32 or f64 values rounded to f16 or bf16, as i16 bits."""
    source = F32_FORMAT if value.element is F32 else F64_FORMAT
    bits = value.bits(INT[BITS[value.element]])
    return narrow(bits, source, FORMATS[name], mode, chance=chance).trunc(I16)
