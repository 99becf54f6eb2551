"""What a tensor core computes, bit for bit.

A tensor core does not add products one after the other. It takes a block of products and the accumulator, shifts them
all to the largest exponent among them, cuts off what falls below a fixed number of fraction bits, adds the rest exactly
and rounds once. `RULES` says, for each architecture, instruction and operand type, how long a block is, how many bits
survive and how the result is rounded; docs/tensor-numerics.md explains and gives the evidence.

Operands are bit patterns in unsigned integers: 8 bits for e4m3 and e5m2, 16 for f16 and bf16, 32 for tf32 and f32. B is
always given transposed, (n, k), so that both operands run along k.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import product

import numba
import numpy as np


class Kind(IntEnum):
    """A floating-point format of tensor-core operands or accumulators."""

    F16 = 0
    BF16 = 1
    TF32 = 2
    E4M3 = 3
    E5M2 = 4
    F32 = 5
    E2M3 = 6
    E3M2 = 7
    E2M1 = 8


FP8 = (Kind.E4M3, Kind.E5M2)
NARROW = (*FP8, Kind.E2M3, Kind.E3M2, Kind.E2M1)

# Per kind: exponent bits, fraction bits, and low bits of the pattern that the hardware ignores.
FORMATS = np.array([(5, 10, 0), (8, 7, 0), (8, 10, 13), (4, 3, 0), (5, 2, 0), (8, 23, 0), (2, 3, 0),
                    (3, 2, 0), (2, 1, 0)], np.int64)  # fmt: skip
BITS = {Kind.F16: np.uint16, Kind.BF16: np.uint16, Kind.TF32: np.uint32, Kind.E4M3: np.uint8, Kind.E5M2: np.uint8,
        Kind.F32: np.uint32, Kind.E2M3: np.uint8, Kind.E3M2: np.uint8, Kind.E2M1: np.uint8}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """How one instruction sums."""

    architecture: str
    instruction: str
    """"mma" (mma.sync), "wgmma" (wgmma.mma_async) or "tcgen05" (tcgen05.mma)."""
    a: Kind
    b: Kind
    accumulator: Kind
    """The type of C and D, F32 or F16. F32 results are rounded toward zero, F16 results to the nearest even."""
    block: int
    """Products added in one step. A longer K takes several steps, each rounded to the accumulator's type."""
    fraction_bits: int
    """Bits kept below the binary point of the block's largest exponent; what lies lower is cut off, toward zero."""
    result_bits: int
    """Fraction bits of the result, at most those of the accumulator's type."""
    through_half: bool = False
    """The compiler turns fp8 operands into f16: see `_rules`."""


def _rules() -> tuple[Rule, ...]:
    """The table.

    sm_90 is measured: on an H200 (driver 580, CUDA 13.0), 100,000 tiles of each type of mma and of wgmma in eight
    families of operands, without one difference (benchmarks/results/tensor_tiles.json). sm_80, sm_89, sm_100 and
    sm_120 are as published, not measured by us: Xie et al., MMA-Sim (arXiv:2511.10909); Khattak and Mikaitis, Accurate
    Models of NVIDIA Tensor Cores (arXiv:2512.07004).

    sm_90 has no fp8 mma.sync of its own: ptxas converts both operands to f16, multiplies the lower two of every four
    products and then the upper two by f16 instructions, starting from zero, and adds C last by an IEEE addition.
    """
    rows = []

    def add(
        architecture: str, instruction: str, kinds: str, block: int, fraction: int, through_half: bool = False
    ) -> None:
        half, single = Kind.F16, Kind.F32
        pairs = {
            "16": [(Kind.F16, Kind.F16, single), (Kind.F16, Kind.F16, half), (Kind.BF16, Kind.BF16, single)],
            "tf32": [(Kind.TF32, Kind.TF32, single)],
            "fp8": [(a, b, accumulator) for a, b in product(FP8, FP8) for accumulator in (single, half)],
            "mixed": [(Kind.F16, Kind.BF16, single), (Kind.BF16, Kind.F16, single)],
            "narrow": [(a, b, accumulator) for a, b in product(NARROW, NARROW) for accumulator in (single, half)],
        }
        for a, b, accumulator in pairs[kinds]:
            result = min(10 if accumulator == half else 23, fraction)
            rows.append(Rule(architecture, instruction, a, b, accumulator, block, fraction, result, through_half))

    add("sm_80", "mma", "16", block=8, fraction=24)
    add("sm_80", "mma", "tf32", block=4, fraction=24)
    add("sm_89", "mma", "16", block=8, fraction=24)
    add("sm_89", "mma", "tf32", block=4, fraction=24)
    add("sm_89", "mma", "fp8", block=16, fraction=13)
    for instruction in ("mma", "wgmma"):
        add("sm_90", instruction, "16", block=16, fraction=25)
        add("sm_90", instruction, "tf32", block=8, fraction=25)
    add("sm_90", "mma", "fp8", block=16, fraction=25, through_half=True)
    add("sm_90", "wgmma", "fp8", block=32, fraction=13)
    add("sm_100", "mma", "16", block=16, fraction=25)
    add("sm_100", "mma", "tf32", block=8, fraction=25)
    add("sm_100", "mma", "fp8", block=32, fraction=25)
    add("sm_120", "mma", "16", block=16, fraction=25)
    add("sm_120", "mma", "tf32", block=8, fraction=25)
    add("sm_120", "mma", "narrow", block=32, fraction=25)
    add("sm_100", "tcgen05", "16", block=16, fraction=25)
    add("sm_100", "tcgen05", "mixed", block=16, fraction=25)
    add("sm_100", "tcgen05", "tf32", block=8, fraction=25)
    add("sm_100", "tcgen05", "narrow", block=32, fraction=25)
    return tuple(rows)


RULES = _rules()
_TABLE = np.array(
    [(r.a, r.b, r.accumulator, r.block, r.fraction_bits, r.result_bits, r.through_half) for r in RULES], np.int64
)
_NUMBERS = {(r.architecture, r.instruction, r.a, r.b, r.accumulator): number for number, r in enumerate(RULES)}


def rule_number(architecture: str, instruction: str, a: Kind, b: Kind, accumulator: Kind) -> int:
    """The index in `RULES` of the rule for `instruction` (as in `Rule`) on `architecture` ("sm_90a").

    sm_86 and sm_87 follow sm_80, sm_103 follows sm_100, and sm_121 follows sm_120. Raises ValueError where the hardware
    has no such instruction or nothing is known about it.
    """
    base = {"sm_86": "sm_80", "sm_87": "sm_80", "sm_103": "sm_100", "sm_121": "sm_120"}
    plain = architecture.rstrip("af")
    number = _NUMBERS.get((base.get(plain, plain), instruction, a, b, accumulator))
    if number is None:
        names = f"{a.name.lower()} x {b.name.lower()} with {accumulator.name.lower()} accumulators"
        known = ", ".join(dict.fromkeys(rule.architecture for rule in RULES))
        raise ValueError(
            f"{instruction} of {names} is not modelled for {architecture}: use a type that it has, or one of {known}."
        )
    return number


# A zero's exponent is so low that it never decides the alignment, and infinity's and NaN's so high that they always do.
# NaN has significand 0, like zero: a product with a special exponent and significand 0 (NaN times anything, infinity
# times zero) is NaN.
_ZERO = -100_000
_SPECIAL = 1_000_000
_SPECIAL_FROM = 500_000


@numba.njit(nogil=True, error_model="numpy")
def decode(bits, kind):
    """A bit pattern of `kind` as (significand, exponent): the value is significand * 2**(exponent - fraction bits).

    Subnormal numbers keep the smallest normal exponent: the hardware does not normalise them.
    """
    exponent_bits, fraction_bits, ignored = FORMATS[kind, 0], FORMATS[kind, 1], FORMATS[kind, 2]
    bits = np.int64(bits) >> ignored
    top = (np.int64(1) << exponent_bits) - 1
    fraction = bits & ((np.int64(1) << fraction_bits) - 1)
    biased = (bits >> fraction_bits) & top
    sign = 1 - 2 * ((bits >> (exponent_bits + fraction_bits)) & 1)
    if kind == Kind.E4M3:
        if biased == top and fraction == 7:
            return np.int64(0), np.int64(_SPECIAL)
    elif biased == top and kind < Kind.E2M3:
        return sign * np.int64(fraction == 0), np.int64(_SPECIAL)
    if biased == 0:
        return sign * fraction, np.int64(_ZERO) if fraction == 0 else 2 - (top + 1) // 2
    return sign * (fraction | (np.int64(1) << fraction_bits)), biased + 1 - (top + 1) // 2


@numba.njit(nogil=True, error_model="numpy")
def decode_as_half(bits, kind):
    """An fp8 pattern as f16 holds it: like `decode`, with 10 fraction bits and e4m3's subnormals normalised."""
    significand, exponent = decode(bits, kind)
    if significand == 0 or exponent == _SPECIAL:
        return significand, exponent
    significand <<= 10 - FORMATS[kind, 1]
    while abs(significand) < 1024 and exponent > -14:
        significand <<= 1
        exponent -= 1
    return significand, exponent


@numba.njit(nogil=True, error_model="numpy")
def encode(total, scale, accumulator, result_bits):
    """`total` * 2**`scale` as bits of F32 (toward zero) or F16 (to the nearest even). Zero is always positive."""
    fraction_bits, top = FORMATS[accumulator, 1], (np.int64(1) << FORMATS[accumulator, 0]) - 1
    lowest = 1 - top // 2
    magnitude = abs(total)
    # Float64 holds the magnitude exactly, so its exponent field tells the place of the leading one.
    leading = (np.float64(magnitude).view(np.int64) >> 52) - 1023
    exponent = max(leading + scale, lowest)
    shift = exponent - result_bits - scale
    if shift <= 0:
        kept = magnitude << -shift
    else:
        shift = min(shift, np.int64(62))
        kept = magnitude >> shift
        if accumulator == Kind.F16:
            remainder, tie = magnitude - (kept << shift), np.int64(1) << (shift - 1)
            kept += np.int64(remainder > tie or (remainder == tie and kept & 1))
    if kept == 0:
        return np.int64(0)
    # The leading one of a normal number carries into the exponent, and so does rounding up to the next power of two.
    bits = ((exponent - lowest) << fraction_bits) + (kept << (fraction_bits - result_bits))
    bits = min(bits, top << fraction_bits)
    return bits | (np.int64(total < 0) << (FORMATS[accumulator, 0] + fraction_bits))


@numba.njit(nogil=True, error_model="numpy")
def _special(sig_a, exp_a, sig_b, exp_b, c, accumulator):
    """The result of a block that has an infinity or NaN: NaN is canonical, every bit but the sign set."""
    exponent_bits, fraction_bits = FORMATS[accumulator, 0], FORMATS[accumulator, 1]
    sign_bit = np.int64(1) << (exponent_bits + fraction_bits)
    nan = plus = minus = False
    sig_c, exp_c = decode(c, accumulator)
    if exp_c >= _SPECIAL_FROM:
        nan, plus, minus = sig_c == 0, sig_c > 0, sig_c < 0
    for k in range(sig_a.shape[0]):
        if exp_a[k] + exp_b[k] >= _SPECIAL_FROM:
            value = np.int64(sig_a[k]) * sig_b[k]
            nan |= value == 0
            plus |= value > 0
            minus |= value < 0
    if nan or (plus and minus):
        return sign_bit - 1
    infinity = ((np.int64(1) << exponent_bits) - 1) << fraction_bits
    return infinity if plus else infinity | sign_bit


@numba.njit(nogil=True, error_model="numpy")
def add_block(sig_a, exp_a, sig_b, exp_b, lift, rule, largest, total, row):
    """Add one block of products to a row of D, bits in `row`: A's decoded row (block,) times B's part (block, n).

    `lift` is how far a product of the largest exponent moves left to have the rule's fraction bits; `largest` (int32)
    and `total` (int64) are scratch of n elements. The inner loops run over columns in 32 bits, so that the compiler
    makes vector code of them; an aligned product is below 2**(fraction_bits + 2).
    """
    accumulator, fraction_bits, result_bits = _TABLE[rule, 2], _TABLE[rule, 4], _TABLE[rule, 5]
    block, n = sig_b.shape
    largest[:] = _ZERO
    for k in range(block):
        exponent, exponents = exp_a[k], exp_b[k]
        for j in range(n):
            largest[j] = max(largest[j], np.int32(exponent + exponents[j]))
    lift_c = max(fraction_bits - FORMATS[accumulator, 1], 0)
    drop_c = max(FORMATS[accumulator, 1] - fraction_bits, 0)
    for j in range(n):
        sig_c, exp_c = decode(row[j], accumulator)
        largest[j] = max(largest[j], exp_c)
        kept = (abs(sig_c) << lift_c) >> min(largest[j] - exp_c + drop_c, 63)
        total[j] = kept if sig_c >= 0 else -kept
    lift = np.int32(lift)
    for k in range(block):
        exponent, exponents, factor, factors = exp_a[k], exp_b[k], sig_a[k], sig_b[k]
        for j in range(n):
            drop = min(np.int32(largest[j] - np.int32(exponent + exponents[j])), np.int32(31))
            value = np.int32(factor * factors[j])
            sign = np.int32(value >> np.int32(31))
            kept = np.int32(np.int32(np.int32(np.int32(value ^ sign) - sign) << lift) >> drop)
            total[j] += np.int32(np.int32(kept ^ sign) - sign)
    for j in range(n):
        if largest[j] >= _SPECIAL_FROM:
            row[j] = _special(sig_a, exp_a, sig_b[:, j], exp_b[:, j], row[j], accumulator)
        else:
            row[j] = encode(total[j], largest[j] - fraction_bits, accumulator, result_bits)


@numba.njit(nogil=True, error_model="numpy")
def ieee_add(a, b, kind):
    """FADD (F32) or HADD (F16) on bit patterns: to the nearest even, subnormals kept, NaN canonical."""
    if kind == Kind.F32:
        single = np.uint32(a).view(np.float32) + np.uint32(b).view(np.float32)
        return np.int64(0x7FFFFFFF) if single != single else np.int64(np.float32(single).view(np.uint32))
    sig_a, exp_a = decode(a, kind)
    sig_b, exp_b = decode(b, kind)
    # Float64 holds every such sum exactly; special exponents overflow to infinity, and zero times that is NaN.
    total = sig_a * 2.0 ** np.float64(exp_a - 10) + sig_b * 2.0 ** np.float64(exp_b - 10)
    if total != total:
        return np.int64(0x7FFF)
    if abs(total) == np.inf:
        return np.int64(0x7C00) if total > 0 else np.int64(0xFC00)
    return encode(np.int64(total * 2.0**24), np.int64(-24), kind, np.int64(10))


@numba.njit(nogil=True, error_model="numpy")
def decode_row(bits, kind, rule, significands, exponents):
    """Decode one row of A or B along k into int32 arrays, in the order in which the hardware takes the products."""
    k_total = bits.shape[0]
    for k in range(k_total):
        if _TABLE[rule, 6]:
            significand, exponent = decode_as_half(bits[k], kind)
            place = k // 4 * 2 + k % 2 + (k_total // 2 if k % 4 >= 2 else 0)
        else:
            significand, exponent = decode(bits[k], kind)
            place = k
        significands[place] = significand
        exponents[place] = exponent


_HALF_BITS = int(FORMATS[Kind.F16, 1])


@numba.njit(nogil=True, error_model="numpy")
def multiply_accumulate(a, b, c, d, rule):
    """D = A B + C for one instruction's operands, as bit patterns in unsigned integer arrays.

    `a` is (m, k), `b` is B transposed, (n, k), `c` and `d` are (m, n) and may be the same array; `rule` indexes
    `RULES`. k is the instruction's, since it decides in what steps the sum is made.
    """
    m, k_total = a.shape
    n = b.shape[0]
    block, fraction_bits, through_half = _TABLE[rule, 3], _TABLE[rule, 4], _TABLE[rule, 6]
    lift = fraction_bits - FORMATS[_TABLE[rule, 0], 1] - FORMATS[_TABLE[rule, 1], 1]
    if through_half:
        lift, block = fraction_bits - 2 * _HALF_BITS, min(block, k_total // 2)
    sig_a, exp_a = np.empty(k_total, np.int32), np.empty(k_total, np.int32)
    sig_b, exp_b = np.empty((k_total, n), np.int32), np.empty((k_total, n), np.int32)
    for j in range(n):
        decode_row(b[j], _TABLE[rule, 1], rule, sig_b[:, j], exp_b[:, j])
    largest, total, row = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(m):
        decode_row(a[i], _TABLE[rule, 0], rule, sig_a, exp_a)
        for j in range(n):
            row[j] = 0 if through_half else np.int64(c[i, j])
        for first in range(0, k_total, block):
            part = slice(first, min(first + block, k_total))
            add_block(sig_a[part], exp_a[part], sig_b[part], exp_b[part], lift, rule, largest, total, row)
        for j in range(n):
            d[i, j] = ieee_add(row[j], np.int64(c[i, j]), _TABLE[rule, 2]) if through_half else row[j]
