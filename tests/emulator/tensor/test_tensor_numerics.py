"""Tensor-core sums against outputs of an H200, against the rules written in rationals, and by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from autograder.spec.lab import CHECKOUT
from corpus.tensor import probe
from tests.emulator import exact, products
from warplab.emulator.core.tensor.numerics import (
    BITS,
    RULES,
    Kind,
    Rule,
    ieee_add,
    rule_number,
)

DATA = CHECKOUT / "corpus" / "tensor"
SAMPLES = {**np.load(DATA / "tensor_mma.npz"), **np.load(DATA / "tensor_wgmma.npz")}
SAMPLED = sorted({name.rpartition("_")[0] for name in SAMPLES})
FORMATS = {Kind.F16: exact.F16, Kind.BF16: exact.BF16, Kind.F32: exact.F32, Kind.E5M2: exact.Format(5, 2),
           Kind.E4M3: exact.Format(4, 3), Kind.TF32: exact.Format(8, 10), Kind.E2M3: exact.Format(2, 3),
           Kind.E3M2: exact.Format(3, 2), Kind.E2M1: exact.Format(2, 1)}  # fmt: skip


def rule_of(sample: str, architecture: str = "sm_90a") -> int:
    instruction, kind, accumulator = sample.split("_")
    operand = Kind[kind.upper()]
    return rule_number(architecture, instruction, operand, operand, Kind[accumulator.upper()])


def compute(a, b, c, rule):
    return np.array([products.product(*operands, rule) for operands in zip(a, b, c, strict=True)])


def bits_of(values, kind: Kind) -> np.ndarray:
    """Finite numbers, exactly representable, as bit patterns."""
    shift = 13 if kind == Kind.TF32 else 0
    encoded = [exact.encode(Fraction(v), FORMATS[kind]) << shift if v else 0 for v in np.ravel(values).tolist()]
    return np.array(encoded, BITS[kind]).reshape(np.shape(values))


def dot(a, b, c, instruction="mma", kind=Kind.F16, accumulator=Kind.F32, architecture="sm_90a") -> float:
    """One element of D for numbers, padded with zeros to the instruction's k."""
    k = 32 // np.dtype(BITS[kind]).itemsize
    a, b = (np.pad(np.asarray(x, float), (0, k - len(x))) for x in (a, b))
    rule = rule_number(architecture, instruction, kind, kind, accumulator)
    bits = products.dot(bits_of(a, kind), bits_of(b, kind), int(bits_of([c], accumulator)[0]), rule)
    return float(exact.decode(int(bits), FORMATS[accumulator]))


@pytest.mark.parametrize("sample", SAMPLED)
def test_equals_the_hardware_bit_for_bit(sample):
    a, b, c, d = (SAMPLES[f"{sample}_{part}"] for part in "abcd")
    np.testing.assert_array_equal(compute(a, b, c, rule_of(sample)), d)


@pytest.mark.parametrize("sample", [name for name in SAMPLED if name.startswith("mma") and "_f16_f16" not in name])
def test_the_samples_tell_architectures_apart(sample):
    """Otherwise their agreement would prove little."""
    a, b, c, d = (SAMPLES[f"{sample}_{part}"] for part in "abcd")
    other = compute(a, b, c, rule_of(sample, "sm_89"))
    assert np.mean(other != d) > 0.02


def test_the_samples_cover_what_they_should():
    assert len(SAMPLED) == 13
    for sample in SAMPLED:
        d = SAMPLES[f"{sample}_d"]
        nan, infinity = (0x7FFF, 0x7C00) if d.dtype == np.uint16 else (0x7FFFFFFF, 0x7F800000)
        assert len(d) >= 7 and np.any(d == nan) and np.any(d == 0), sample
        if "e4m3" not in sample:  # the format has no infinities
            assert np.any(d == infinity), sample


def value_of(bits: int, kind: Kind) -> tuple[Fraction, int]:
    """A finite pattern's value and its exponent, which subnormals have at the smallest normal one."""
    form = FORMATS[kind]
    bits = int(bits) >> (13 if kind == Kind.TF32 else 0)
    biased = bits >> form.significand & ((1 << form.exponent) - 1)
    fraction = bits & ((1 << form.significand) - 1)
    magnitude = Fraction(fraction + (bool(biased) << form.significand), 1 << form.significand)
    exponent = max(biased, 1) - form.bias
    return (-1) ** (bits >> (form.width - 1)) * magnitude * Fraction(2) ** exponent, exponent


def stated(a, b, c: int, rule: Rule) -> int:
    """The rule as docs/tensor-numerics.md states it, one element, in rationals."""
    for first in range(0, len(a), rule.block):
        factors = list(zip(a[first : first + rule.block], b[first : first + rule.block], strict=True))
        pairs = [(value_of(x, rule.a), value_of(y, rule.b)) for x, y in factors]
        terms = [(x * y, i + j) for (x, i), (y, j) in pairs] + [value_of(c, rule.accumulator)]
        unit = Fraction(2) ** (max((e for v, e in terms if v), default=0) - rule.fraction_bits)
        total = sum(math.trunc(v / unit) for v, _ in terms) * unit
        form = FORMATS[rule.accumulator]
        if rule.accumulator == Kind.F32 and rule.result_bits < 23:
            low = 23 - rule.result_bits
            c = (exact.encode(total, form, "rz") >> low << low) if total else 0
        else:
            c = exact.encode(total, form, "rn" if rule.accumulator == Kind.F16 else "rz") if total else 0
        c = 0 if c == 1 << (form.width - 1) else c
    return c


@pytest.mark.parametrize("number", [n for n, rule in enumerate(RULES) if not rule.through_half])
def test_equals_the_stated_rule_on_every_architecture(number):
    rule = RULES[number]
    generator = np.random.default_rng(number)
    k = 32 // np.dtype(BITS[rule.a]).itemsize
    for _ in range(25):

        def draw(kind, count):
            form = FORMATS[kind]
            if form.width < 8:  # every pattern is a number
                return generator.integers(0, 1 << form.width, count).astype(BITS[kind])
            span = min(form.bias - 1, 9)
            exponent = generator.integers(form.bias - span, form.bias + span // 2, count)
            exponent[generator.random(count) < 0.2] = 0 if kind in (Kind.E4M3, Kind.E5M2, Kind.F16) else form.bias
            bits = exponent << form.significand | generator.integers(0, 1 << form.significand, count)
            bits |= generator.integers(0, 2, count) << (form.width - 1)
            return (bits << (13 if kind == Kind.TF32 else 0)).astype(BITS[kind])

        a, b, c = draw(rule.a, k), draw(rule.b, k), int(draw(rule.accumulator, 1)[0])
        assert products.dot(a, b, c, number) == stated(a, b, c, rule)


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.TF32, Kind.E4M3, Kind.E5M2])
@pytest.mark.parametrize("instruction", ["mma", "wgmma"])
def test_small_integers_are_exact(instruction, kind):
    generator = np.random.default_rng(3)
    k = 32 // np.dtype(BITS[kind]).itemsize
    a, b = (generator.integers(-3, 4, (rows, k)) for rows in (16, 8))
    c = generator.integers(-40, 41, (16, 8))
    rule = rule_number("sm_90a", instruction, kind, kind, Kind.F32)
    d = products.product(bits_of(a, kind), bits_of(b, kind), bits_of(c, Kind.F32), rule)
    np.testing.assert_array_equal(d.view(np.float32), a @ b.T + c)


def test_what_lies_below_the_last_fraction_bit_is_cut_off():
    # Hopper keeps 25 fraction bits below the largest exponent, here that of 1: 2**-25 counts and 2**-26 does not,
    # however many terms of it there are. 1 + 8 * 2**-25 = 1 + 2**-22 is a float32.
    small = 2.0**-13
    assert dot([1] + [small] * 8, [1] + [2.0**-12] * 8, 0) == 1 + 2.0**-22
    assert dot([1] + [small] * 15, [1] + [2.0**-13] * 15, 0) == 1
    # Ampere keeps 24 and adds eight products at a time.
    assert dot([1] + [small] * 15, [1] + [2.0**-12] * 15, 0, architecture="sm_80") == 1
    # The same with the accumulator as the largest term, and the other way round.
    assert dot([small] * 16, [2.0**-13] * 16, 1) == 1
    assert dot([1], [1], 2.0**-26) == 1


def test_truncation_is_toward_zero():
    # 1 - 2**-25 keeps its 25th bit and loses it in the result, which is rounded toward zero as well.
    assert dot([1, 2.0**-13], [1, -(2.0**-12)], 0) == 1 - 2.0**-24
    assert dot([-1, 2.0**-13], [1, 2.0**-12], 0) == -(1 - 2.0**-24)
    # A term that is cut off whole does not pull the result down, as flooring would.
    assert dot([1, 2.0**-13], [1, -(2.0**-13)], 0) == 1


def test_a_cancelled_large_term_takes_small_ones_with_it():
    big = 2.0**15
    assert dot([big, 1, -big], [big, 1, big], 0, kind=Kind.F16) == 0
    assert dot([big, 64, -big], [big, 1, big], 0, kind=Kind.F16) == 64


def test_half_accumulators_round_to_nearest_even():
    assert dot([1, 2.0**-11], [1, 1], 0, accumulator=Kind.F16) == 1
    assert dot([1, 2.0**-10, 2.0**-11], [1, 1, 1], 0, accumulator=Kind.F16) == 1 + 2.0**-9
    assert dot([1, 2.0**-11, 2.0**-11], [1, 1, 2.0**-10], 0, accumulator=Kind.F16) == 1 + 2.0**-10
    assert dot([65504, 16], [1, 1], 0, accumulator=Kind.F16) == math.inf
    assert dot([65504, 15], [1, 1], 0, accumulator=Kind.F16) == 65504


def test_subnormal_inputs_and_results_are_kept():
    least = 2.0**-24
    assert dot([least], [1], 0) == least
    assert dot([least], [1], 0, accumulator=Kind.F16) == least
    assert dot([2.0**-100], [2.0**-45], 0, kind=Kind.BF16) == 2.0**-145


def test_zero_is_positive_and_nan_canonical():
    rule = rule_number("sm_90a", "mma", Kind.F16, Kind.F16, Kind.F32)
    a, b = np.zeros(16, np.uint16), np.zeros(16, np.uint16)
    a[0], b[0] = 0x7C00, 0x3C00
    assert products.dot(a, b, 0, rule) == 0x7F800000
    assert products.dot(a, b, 0xFF800000, rule) == 0x7FFFFFFF
    assert products.dot(a, np.zeros(16, np.uint16), 0, rule) == 0x7FFFFFFF
    a[0] = 0xFE01
    assert products.dot(a, b, 0, rule) == 0x7FFFFFFF
    negative = np.full(16, 0x8001, np.uint16)
    half = rule_number("sm_90a", "mma", Kind.F16, Kind.F16, Kind.F16)
    assert products.dot(negative, np.full(16, 1, np.uint16), 0x8000, half) == 0


def test_fp8_sums_of_wgmma_stop_growing():
    """8,192 products of about one: 13 bits lose a tenth of the sum, and adding partial sums in float32 repairs it."""
    generator = np.random.default_rng(8)
    k_total = 8192
    a, b = (generator.integers(0x30, 0x41, (rows, k_total), np.uint8) for rows in (16, 8))  # 0.5 to 2
    as_float = np.array([float(exact.decode(bits, FORMATS[Kind.E4M3])) for bits in range(0x41)])
    truth = as_float[a] @ as_float[b].T
    native = rule_number("sm_90a", "wgmma", Kind.E4M3, Kind.E4M3, Kind.F32)
    zero = np.zeros((16, 8), np.uint32)

    def relative_error(total):
        return np.max(np.abs(total - truth) / truth)

    d = products.in_steps(a, b, zero, native, 32)
    promoted = np.zeros((16, 8), np.float32)
    for first in range(0, k_total, 128):
        step = slice(first, first + 128)
        promoted += products.in_steps(a[:, step], b[:, step], zero, native, 32).view(np.float32)
    through_half = rule_number("sm_90a", "mma", Kind.E4M3, Kind.E4M3, Kind.F32)
    exact_f16 = products.in_steps(a, b, zero, through_half, 32)
    alone = relative_error(d.view(np.float32))
    assert alone > 0.1
    assert relative_error(promoted) < alone / 20
    assert relative_error(exact_f16.view(np.float32)) < 1e-6
    assert not np.any(d & 0x3FF)  # ten of float32's 23 fraction bits are never set


def test_ieee_addition_matches_float32_and_float16():
    generator = np.random.default_rng(5)
    for kind, kept, wide in ((Kind.F16, np.float16, np.uint16), (Kind.F32, np.float32, np.uint32)):
        bits = generator.integers(0, np.iinfo(wide).max, (2, 4000), dtype=wide, endpoint=True)
        bits[:, :400] &= wide(np.iinfo(wide).max >> 4)
        bits[0, :40] = np.array([np.inf, -np.inf, 0, 1], kept).view(wide).repeat(10)
        bits[1, :40] = np.tile(np.array([np.inf, -np.inf, np.nan, 0, 2], kept).view(wide), 8)
        with np.errstate(all="ignore"):
            total = bits[0].view(kept) + bits[1].view(kept)
        nan = np.iinfo(wide).max >> 1
        expected = np.where(np.isnan(total), nan, total.view(wide))
        got = [ieee_add(int(x), int(y), kind) for x, y in bits.T]
        np.testing.assert_array_equal(got, expected)


def test_rules_are_found_and_refused():
    assert RULES[rule_number("sm_90a", "wgmma", Kind.E4M3, Kind.E5M2, Kind.F32)].fraction_bits == 13
    assert RULES[rule_number("sm_86", "mma", Kind.F16, Kind.F16, Kind.F32)].architecture == "sm_80"
    with pytest.raises(ValueError, match="wgmma of f16 x f16 with f32 accumulators is not modelled for sm_80"):
        rule_number("sm_80", "wgmma", Kind.F16, Kind.F16, Kind.F32)
    with pytest.raises(ValueError, match="not modelled for sm_80"):
        rule_number("sm_80", "mma", Kind.E4M3, Kind.E4M3, Kind.F32)


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["any", "near", "edges", "zeros", "tiny", "huge"])
@pytest.mark.parametrize("instruction", probe.instructions(), ids=str)
def test_equals_the_gpu_at_hand(instruction, family):
    """Hopper only, all variants: more tiles than the samples hold, and the corners they leave out."""
    import cupy

    if cupy.cuda.Device().compute_capability != "90":
        pytest.skip("the probe holds Hopper's instructions")
    generator = np.random.default_rng(11)
    tiles, rows, columns = 200, instruction.rows, probe.COLUMNS
    a = probe.patterns(instruction.a, (tiles, rows, instruction.k), family, generator)
    b = probe.patterns(instruction.b, (tiles, columns, instruction.k), family, generator)
    c = probe.patterns(instruction.accumulator, (tiles, rows, columns), family, generator)
    if family in ("any", "tiny", "huge"):  # else every sum would have a NaN or be C alone
        c[::2] = probe.patterns(instruction.accumulator, c[::2].shape, "near", generator)
    rule = rule_number("sm_90a", instruction.name, instruction.a, instruction.b, instruction.accumulator)
    np.testing.assert_array_equal(compute(a, b, c, rule), probe.run(instruction, a, b, c))
