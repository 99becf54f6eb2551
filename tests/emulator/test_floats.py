"""Floating-point instructions against exact rational arithmetic and float64."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.emulator.alu import floats, integers, run
from tests.emulator.exact import BF16, F16, F32, F64, Format, decode, encode
from tests.emulator.exact_operations import (
    NAN,
    OPERATIONS,
    SIGN,
    compare,
    exact_fma,
    exact_singles,
    finish,
    flushed,
    with_zero_rule,
)

COUNT = 320


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_single_precision(name: str, mode: str) -> None:
    count, _ = OPERATIONS[name]
    operands = [floats(32, COUNT, seed) for seed in range(count)]
    if count > 1:
        # Near cancellations, and the exact ones that give a zero.
        operands[-1][:60] = operands[0][:60] ^ np.uint32(0x80000000)
        operands[-1][:20] += np.uint32(1)
        if count == 3:
            operands[1][:60] = 0x3F800000
    for ftz in ("", ".ftz"):
        got = run(f"{name}.{mode}{ftz}.f32 %d, {', '.join(f'%a{i}' for i in range(count))};", 32, operands)
        compare(got, exact_singles(name, mode, ftz, operands), operands, f"{name}.{mode}{ftz}.f32")


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma", "div", "rcp"])
def test_double_precision(name: str, mode: str) -> None:
    count, formula = OPERATIONS[name]
    operands = [floats(64, 160, seed) for seed in range(10, 10 + count)]
    if count > 1:
        operands[-1][:20] = operands[0][:20] ^ np.uint64(1 << 63)
        operands[1][20:40] &= np.uint64(0x000FFFFFFFFFFFFF)  # subnormal results and operands
    got = run(f"{name}.{mode}.f64 %d, {', '.join(f'%a{i}' for i in range(count))};", 64, operands)
    for row, r in zip(zip(*operands, strict=True), got, strict=True):
        value = with_zero_rule(formula, name, [decode(int(b), F64) for b in row], mode)
        if not isinstance(value, Fraction) and math.isnan(value):
            assert math.isnan(np.array(r, dtype=np.uint64).view(np.float64))
        else:
            assert int(r) == finish(value, F64, mode, True), (name, mode, [hex(int(b)) for b in row])


def test_directed_modes_do_not_stay_behind() -> None:
    a = floats(64, 64, 3)
    got = run("{ .reg .f64 t; add.rp.f64 t, %a0, %a0; add.f64 %d, %a0, 0d3FB999999999999A; }", 64, [a])
    with np.errstate(invalid="ignore"):
        wanted = (a.view(np.float64) + 0.1).view(np.uint64)
    number = ~np.isnan(a.view(np.float64))
    assert np.array_equal(got[number], wanted[number])


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", ["u64", "s64"])
def test_long_integer_to_double(kind: str, mode: str) -> None:
    a = integers(64, COUNT, 50)
    for bits, r in zip(a, run(f"cvt.{mode}.f64.{kind} %d, %a0;", 64, [a]), strict=True):
        value = int(bits) - (1 << 64 if kind == "s64" and int(bits) >> 63 else 0)
        assert int(r) == (encode(Fraction(value), F64, mode) if value else 0), (value, mode)


EIGHT_BITS = {"e4m3": (4, 3, 448.0), "e5m2": (5, 2, 57344.0)}


def eight_bit_value(code: int, name: str) -> float:
    """The value of an 8-bit float, from the definition of the formats (OCP 8-bit Floating Point Specification)."""
    exponent_bits, significand, _ = EIGHT_BITS[name]
    bias = (1 << (exponent_bits - 1)) - 1
    exponent, fraction = code >> significand & (1 << exponent_bits) - 1, code & (1 << significand) - 1
    sign = -1.0 if code & 0x80 else 1.0
    if name == "e5m2" and exponent == 31:
        return math.nan if fraction else sign * math.inf
    if name == "e4m3" and code & 0x7F == 0x7F:
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - significand)
    return sign * (1 + fraction / 2**significand) * 2.0 ** (exponent - bias)


@pytest.mark.parametrize("name", list(EIGHT_BITS))
def test_eight_bit_floats_widen_exactly(name: str) -> None:
    codes = np.arange(256, dtype=np.uint16)
    got = run(f"cvt.rn.f16x2.{name}x2 %d, %a0;", 32, [codes | (codes[::-1] << np.uint16(8))])
    for half, order in ((got & np.uint32(0xFFFF), codes), (got >> np.uint32(16), codes[::-1])):
        values = half.astype(np.uint16).view(np.float16).astype(np.float64)
        wanted = np.array([eight_bit_value(int(c), name) for c in order])
        assert np.array_equal(values, wanted, equal_nan=True)
        assert np.array_equal(np.signbit(values[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("source", ["f32", "f16x2"])
@pytest.mark.parametrize("name", list(EIGHT_BITS))
def test_eight_bit_floats_round_to_even_and_saturate(name: str, source: str) -> None:
    width = 32 if source == "f32" else 16
    a = floats(width, 600, 5)
    if source == "f32":
        a[:300] = np.linspace(-500, 500, 300).astype(np.float32).view(np.uint32)
        got = run(f"cvt.rn.satfinite.{name}x2.f32 %d, %a0, %a1;", 16, [a, a[::-1].copy()])
        with np.errstate(invalid="ignore"):
            values = a.view(np.float32).astype(np.float64)
    else:
        got = run(f"cvt.rn.satfinite.{name}x2.f16x2 %d, %a0;", 16,
                  [(a.astype(np.uint32) << np.uint32(16)) | a[::-1].astype(np.uint32)])  # fmt: skip
        values = a.view(np.float16).astype(np.float64)
    codes = [c for c in range(0x7F) if math.isfinite(eight_bit_value(c, name))]
    grid = np.array([eight_bit_value(c, name) for c in codes])
    for high, low, value in zip(got >> np.uint16(8), (got & np.uint16(0xFF))[::-1], values, strict=True):
        assert high == low
        if math.isnan(value):
            assert high == 0x7F
            continue
        magnitude = min(abs(value), EIGHT_BITS[name][2])
        distances = np.abs(grid - magnitude)
        nearest = [c for c, d in zip(codes, distances, strict=True) if d == distances.min()]
        code = nearest[0] if len(nearest) == 1 else next(c for c in nearest if c % 2 == 0)
        assert high == code | (0x80 if math.copysign(1, value) < 0 else 0), value


def test_square_roots() -> None:
    a = floats(32, COUNT, 20)
    for mode in ("rn", "rz", "rm", "rp"):
        got = run(f"sqrt.{mode}.f32 %d, %a0;", 32, [a])
        for bits, r in zip(a, got, strict=True):
            value = decode(int(bits), F32)
            if not isinstance(value, Fraction):
                wanted = NAN[F32] if math.isnan(value) or value < 0 else int(bits)
            elif value < 0:
                wanted = NAN[F32]
            else:
                # 80 bits of the root, with the last bit set when inexact, round like the root itself.
                shifted = value * 4**160
                root = math.isqrt(shifted.numerator // shifted.denominator)
                inexact = Fraction(root) ** 2 != shifted
                wanted = encode(Fraction(2 * root + inexact, 2) / 2**160, F32, mode)
            assert int(r) == wanted, (hex(int(bits)), mode)


@pytest.mark.parametrize(("kind", "form"), [("f16", F16), ("bf16", BF16)])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_small_formats(name: str, kind: str, form: Format) -> None:
    count, formula = OPERATIONS[name]
    operands = [floats(16, 1200, seed) for seed in range(30, 30 + count)]
    if name == "fma":
        # Products near a tie with a tiny addend: where a second rounding would go wrong.
        operands[2][:150] &= 0x80FF
    names = [f"%a{i}" for i in range(count)]
    got = run(f"{name}.rn.{kind} %d, {', '.join(names)};", 16, operands)
    wanted = []
    for row in zip(*operands, strict=True):
        values = [decode(int(b), form) for b in row]
        wanted.append(finish(with_zero_rule(formula, name, values, "rn"), form, "rn", True))
    compare(got, wanted, operands, f"{name}.{kind}")
    # The packed form does the same to both halves.
    pairs = [(o.astype(np.uint32) | (np.roll(o, 1).astype(np.uint32) << np.uint32(16))) for o in operands]
    packed = run(f"{name}.rn.{kind}x2 %d, {', '.join(names)};", 32, pairs)
    assert np.array_equal(packed & 0xFFFF, got)
    assert np.array_equal(packed >> 16, np.roll(got, 1))


@pytest.mark.parametrize("width", [32, 64])
def test_minimum_and_maximum(width: int) -> None:
    a, b = floats(width, COUNT, 40), floats(width, COUNT, 41)
    b[::7] = a[::7] ^ a.dtype.type(1 << (width - 1))
    view = np.float32 if width == 32 else np.float64
    for name, pick in (("min", min), ("max", max)):
        got = run(f"{name}.f{width} %d, %a0, %a1;", width, [a, b])
        for x, y, r in zip(a, b, got, strict=True):
            fx, fy, fr = (np.array(v, dtype=a.dtype).view(view)[()] for v in (x, y, r))
            if np.isnan(fx) and np.isnan(fy):
                assert np.isnan(fr)
            elif np.isnan(fx) or np.isnan(fy):
                assert r == (y if np.isnan(fx) else x)
            elif fx == 0 and fy == 0:
                assert r == (x | y if name == "min" else x & y)
            else:
                assert fr == pick(fx, fy)


def halves_too(opcode: str, kind: str, operands: list[np.ndarray]) -> np.ndarray:
    """An operation of a 16-bit format; its packed form does the same to both halves."""
    names = ", ".join(f"%a{i}" for i in range(len(operands)))
    got = run(f"{opcode}.{kind} %d, {names};", 16, operands)
    pairs = [o.astype(np.uint32) | np.roll(o, 1).astype(np.uint32) << np.uint32(16) for o in operands]
    packed = run(f"{opcode}.{kind}x2 %d, {names};", 32, pairs)
    assert np.array_equal(packed, got.astype(np.uint32) | np.roll(got, 1).astype(np.uint32) << np.uint32(16))
    return got


def test_products_and_sums_that_are_flushed_and_not_negative() -> None:
    operands = [floats(16, 600, seed) for seed in (90, 91, 92)]
    got = halves_too("fma.rn.ftz.relu", "f16", operands)
    wanted = []
    for row in zip(*operands, strict=True):
        values = [decode(flushed(int(b), F16), F16) for b in row]
        bits = flushed(finish(exact_fma(*values), F16, "rn", True), F16)
        wanted.append(0 if bits & SIGN[F16] else bits)
    compare(got, wanted, operands, "fma.rn.ftz.relu.f16")


@pytest.mark.parametrize(("kind", "form", "ftz"), [("f16", F16, ""), ("f16", F16, ".ftz"), ("bf16", BF16, "")])
@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize(("name", "pick"), [("min", min), ("max", max)])
def test_extremes_of_sizes_with_the_product_of_signs(name: str, pick, nan: str, kind: str, form: Format, ftz: str):
    operands = [floats(16, COUNT, 93), floats(16, COUNT, 94)]
    got = halves_too(f"{name}{ftz}{nan}.xorsign.abs", kind, operands)
    wanted = []
    for row in zip(*operands, strict=True):
        a, b = (flushed(int(v), form) if ftz else int(v) for v in row)
        sizes = [v & 0x7FFF for v in (a, b)]  # of numbers of one sign, the bits are in the numbers' order
        numbers = [v for v in sizes if v <= form.infinity]
        if not numbers or nan and len(numbers) < 2:
            wanted.append(0x7FFF)
        else:
            wanted.append(pick(numbers) | (a ^ b) & 0x8000)
    compare(got, wanted, operands, f"{name}{ftz}{nan}.xorsign.abs.{kind}")


RELATIONS: dict[str, Callable] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "width", "form"), [("f32", 32, F32), ("f64", 64, F64), ("f16", 16, F16)])
def test_comparisons(kind: str, width: int, form: Format) -> None:
    a, b = floats(width, 96, 42), floats(width, 96, 43)
    b[::4] = a[::4]
    values = [(decode(int(x), form), decode(int(y), form)) for x, y in zip(a, b, strict=True)]
    cases = dict(RELATIONS) | {f"{n}u": f for n, f in RELATIONS.items()} | {"num": None, "nan": None}
    for name, relation in cases.items():
        got = run(f"setp.{name}.{kind} %p1, %a0, %a1; selp.b32 %d, 1, 0, %p1;", 32, [a, b])
        for (x, y), r in zip(values, got, strict=True):
            unordered = any(not isinstance(v, Fraction) and math.isnan(v) for v in (x, y))
            if name in ("num", "nan"):
                wanted = unordered == (name == "nan")
            elif unordered:
                wanted = name.endswith("u")
            else:
                wanted = relation(x, y)
            assert r == wanted, (name, x, y)


NARROWINGS = [("f16", F16, "f32", F32), ("bf16", BF16, "f32", F32), ("f32", F32, "f64", F64), ("f16", F16, "f64", F64)]


def _kept_nan(bits: int, to: Format) -> int:
    """What an H200 makes of a float64 NaN: sign and upper payload stay, and it is quiet. 0 for what is none."""
    if bits & (1 << 63) - 1 <= F64.infinity:
        return 0
    payload = bits >> F64.significand - to.significand & (1 << to.significand) - 1
    return bits >> 63 << to.width - 1 | to.infinity | 1 << to.significand - 1 | payload


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("target", "to", "source", "form"), NARROWINGS)
def test_narrowing(target: str, to: Format, source: str, form: Format, mode: str) -> None:
    a = floats(form.width, 240, 50)
    rng = np.random.default_rng(51)
    # Exact ties, and values one step beside them, over the target's whole range.
    exponents = rng.integers(form.bias - to.bias - to.significand, form.bias + to.bias, 120).astype(np.uint64)
    tie = 1 << (form.significand - to.significand - 1)
    patterns = rng.integers(0, 1 << to.significand, 120, dtype=np.uint64) << np.uint64(
        form.significand - to.significand
    )
    near = (exponents << np.uint64(form.significand)) | patterns | np.uint64(tie)
    near = near + rng.integers(-1, 2, 120).astype(np.int64).view(np.uint64)
    a[:120] = near.astype(a.dtype)
    got = run(f"cvt.{mode}.{target}.{source} %d, %a0;", to.width, [a])
    kept = _kept_nan if form is F64 else lambda bits, to: 0
    wanted = [kept(int(b), to) or finish(decode(int(b), form), to, mode, False) for b in a]
    compare(got, wanted, [a], f"cvt.{mode}.{target}.{source}")


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize(("kind", "form"), [("f16", F16), ("bf16", BF16)])
def test_narrowing_to_what_is_finite_and_not_negative(kind: str, form: Format, mode: str) -> None:
    a = floats(32, COUNT, 95)
    a[:4] = [0x477FF000, 0x7F7FFFFF, 0xFF7FFFFF, 0x477FEFFF]  # about the largest numbers
    got = run(f"cvt.{mode}.relu.satfinite.{kind}.f32 %d, %a0;", 16, [a])
    wanted = []
    for bits in map(int, a):
        result = finish(decode(bits, F32), form, mode, False)
        result = 0 if result & 0x8000 else result
        wanted.append(form.infinity - 1 if result == form.infinity else result)
    compare(got, wanted, [a], f"cvt.{mode}.relu.satfinite.{kind}.f32")
    b = np.roll(a, 1)
    packed = run(f"cvt.{mode}.relu.satfinite.{kind}x2.f32 %d, %a0, %a1;", 32, [a, b])
    assert np.array_equal(packed, got.astype(np.uint32) << np.uint32(16) | np.roll(got, 1))


TF32 = Format(8, 10)


@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_tensor_floats_that_are_not_negative(mode: str) -> None:
    a = floats(32, COUNT, 96)
    got = run(f"cvt.{mode}.relu.tf32.f32 %d, %a0;", 32, [a])
    for bits, r in zip(map(int, a), map(int, got), strict=True):
        value = decode(bits, F32)
        if not isinstance(value, Fraction) and math.isnan(value):
            assert r == 0x7FFFE000
        else:
            positive = isinstance(value, Fraction) and value > 0
            wanted = encode(value, TF32, mode) if positive else TF32.infinity if value == math.inf else 0
            assert r == wanted << 13, hex(bits)


def test_tensor_floats_that_are_finite() -> None:
    a = floats(32, COUNT, 97)
    a[:6] = [0x7F7FEFFF, 0x7F7FF000, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x00000FFF]
    got = run("cvt.rna.satfinite.tf32.f32 %d, %a0;", 32, [a])
    plain = run("cvt.rna.tf32.f32 %d, %a0;", 32, [a])
    assert [hex(v) for v in got[:6]] == ["0x7f7fe000", "0x7f7fe000", "0xff7fe000", "0x7f7fe000", "0xff7fe000", "0x0"]
    number = a & 0x7FFFFFFF <= 0x7F800000
    infinite = number & (plain & 0x7FFFFFFF == 0x7F800000)
    assert np.array_equal(got[number & ~infinite], plain[number & ~infinite])
    assert np.array_equal(got[~number], (a[~number] & 0xFFFFE000) - 0x2000)
    assert (got[infinite] & 0x7FFFFFFF == 0x7F7FE000).all()


def test_a_nan_of_single_precision_widens_to_the_hardwares_own_where_it_is_flushed() -> None:
    # As an H200 does, whose .ftz is an addition before; test_machine_modifiers.py has what it does without.
    values = np.array([0x7FC00000, 0x3FC00000], np.uint32)
    got = run("cvt.ftz.f64.f32 %d, %a0;", 64, [values])
    assert [int(v) for v in got] == [0x7FFFFFFFE0000000, 0x3FF8000000000000]


def test_widening_is_exact() -> None:
    halves = np.arange(65536, dtype=np.uint16)
    got = run("cvt.f32.f16 %d, %a0;", 32, [halves]).view(np.float32)
    wanted = halves.view(np.float16).astype(np.float32)
    assert np.array_equal(got, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(wanted)[~np.isnan(got)])
    brain = run("cvt.f32.bf16 %d, %a0;", 32, [halves])
    numbers = (halves & 0x7FFF) <= 0x7F80
    assert np.array_equal(brain[numbers], halves[numbers].astype(np.uint32) << np.uint32(16))
    back = run("cvt.rn.f16.f32 %d, %a0;", 16, [wanted.view(np.uint32)])
    assert np.array_equal(back[~np.isnan(wanted)], halves[~np.isnan(wanted)])


ROUND = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize(("source", "form"), [("f16", F16), ("f32", F32), ("f64", F64)])
@pytest.mark.parametrize("target", ["s32", "u32", "s64", "u64", "s16", "u8"])
def test_float_to_integer(target: str, source: str, form: Format) -> None:
    a = floats(form.width, 120, 60)
    size, width = int(target[1:]), max(int(target[1:]), 32)
    low, high = (-(1 << size - 1), (1 << size - 1) - 1) if target[0] == "s" else (0, (1 << size) - 1)
    for mode, rounding in ROUND.items():
        got = run(f"cvt.{mode}.{target}.{source} %d, %a0;", width, [a])
        for bits, r in zip(a, got, strict=True):
            value = decode(int(bits), form)
            if not isinstance(value, Fraction) and math.isnan(value):
                wanted = -(1 << size - 1) if target[0] == "s" else 1 << size - 1
                wanted = wanted if source == "f64" or size == 64 else 0
            elif not isinstance(value, Fraction) and math.isinf(value):
                wanted = high if value > 0 else low
            else:
                wanted = min(max(rounding(value), low), high)
            assert int(r) == wanted & (1 << width) - 1, (mode, hex(int(bits)))


@pytest.mark.parametrize(("target", "form"), [("f16", F16), ("f32", F32), ("bf16", BF16)])
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
def test_integer_to_float(target: str, source: str, form: Format) -> None:
    width = int(source[1:])
    a = integers(width, 160, 61)
    a[:60] >>= a.dtype.type(width - 26)
    for mode in ("rn", "rz", "rm", "rp"):
        got = run(f"cvt.{mode}.{target}.{source} %d, %a0;", form.width, [a])
        wanted = []
        for x in a:
            value = int(x)
            value = value - (1 << width) if source[0] == "s" and value >> (width - 1) else value
            wanted.append(encode(Fraction(value), form, mode) if value else 0)
        compare(got, wanted, [a], f"cvt.{mode}.{target}.{source}")


APPROXIMATE: dict[str, tuple[Callable, float]] = {
    "ex2": (np.exp2, 2), "lg2": (np.log2, 2), "sin": (np.sin, 2), "cos": (np.cos, 2), "tanh": (np.tanh, 2),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2), "rcp": (lambda x: 1 / x, 1), "sqrt": (np.sqrt, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", list(APPROXIMATE))
def test_approximate_functions_stay_within_their_bounds(name: str) -> None:
    formula, ulps = APPROXIMATE[name]
    a = np.random.default_rng(70).uniform(0.01, 20, 500).astype(np.float32)
    got = run(f"{name}.approx.f32 %d, %a0;", 32, [a.view(np.uint32)]).view(np.float32)
    exact = formula(a.astype(np.float64))
    assert np.all(np.abs(got - exact) <= ulps * np.spacing(np.abs(exact).astype(np.float32)))


def test_multiplication_and_addition_are_not_contracted() -> None:
    """mul then add rounds twice, also when the host could fuse them."""
    rng = np.random.default_rng(71)
    a, b, c = (rng.standard_normal(500).astype(np.float32) for _ in range(3))
    bits = [v.view(np.uint32) for v in (a, b, c)]
    got = run("mul.rn.f32 %r8, %a0, %a1; add.rn.f32 %d, %r8, %a2;", 32, bits).view(np.float32)
    assert np.array_equal(got, (a * b + c).astype(np.float32))
    fused = run("fma.rn.f32 %d, %a0, %a1, %a2;", 32, bits).view(np.float32)
    assert not np.array_equal(got, fused)


def test_saturation_and_copysign() -> None:
    a, b = floats(32, COUNT, 72), floats(32, COUNT, 73)
    got = run("add.sat.f32 %d, %a0, %a1;", 32, [a, b]).view(np.float32)
    with np.errstate(all="ignore"):
        total = a.view(np.float32) + b.view(np.float32)
    assert np.array_equal(got, np.where(np.isnan(total), 0, np.clip(total, 0, 1)).astype(np.float32))
    got = run("copysign.f32 %d, %a0, %a1;", 32, [a, b])
    assert np.array_equal(got, (a & 0x80000000) | (b & 0x7FFFFFFF))


def test_packed_conversion_puts_the_first_operand_high() -> None:
    a = np.array([1.0, -2.5], dtype=np.float32).view(np.uint32)
    b = np.array([0.25, 65536.0], dtype=np.float32).view(np.uint32)
    got = run("cvt.rn.f16x2.f32 %d, %a0, %a1;", 32, [a, b]).view(np.float16).reshape(-1, 2)
    assert got.tolist() == [[0.25, 1.0], [float("inf"), -2.5]]
