"""Conversions to and from floats of 4 and 6 bits and powers of two, and redux of floats: against their definitions."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest

from tests.emulator.alu import floats, run

# Bits of exponent and of significand (OCP Microscaling Formats); they have neither infinity nor NaN.
FORMATS = {"e2m1": (2, 1), "e2m3": (2, 3), "e3m2": (3, 2)}


def value_of(code: int, name: str) -> Fraction:
    """The number that the bits of a format below the sign stand for."""
    exponent_bits, significand = FORMATS[name]
    bias = (1 << (exponent_bits - 1)) - 1
    exponent, fraction = code >> significand, code & (1 << significand) - 1
    if exponent == 0:
        return Fraction(fraction, 1 << significand) * Fraction(2) ** (1 - bias)
    return (1 + Fraction(fraction, 1 << significand)) * Fraction(2) ** (exponent - bias)


def nearest(value: float, name: str, relu: bool) -> int:
    """The code of the nearest number, of the even code at a tie; what is too large and NaN as the largest."""
    top = 1 << sum(FORMATS[name])
    if math.isnan(value):
        return top - 1
    negative = math.copysign(1, value) < 0
    if relu and negative:
        return 0
    grid = [value_of(code, name) for code in range(top)]
    size = abs(value)
    if size >= grid[-1]:
        code = top - 1
    else:
        code = bisect_left(grid, Fraction(size))
        if grid[code] != size:
            below, above = Fraction(size) - grid[code - 1], grid[code] - Fraction(size)
            code -= below < above or below == above and code % 2 == 1
    return code | top if negative else code


def packed(high: np.ndarray, low: np.ndarray, name: str) -> np.ndarray:
    return (high << np.uint16(4 if name == "e2m1" else 8)) | low


def body(opcode: str, operands: str, name: str, widens: bool = False) -> tuple[str, str]:
    """One cvt, and declarations: two numbers of four bits are in a register of eight, which a mov reaches."""
    if name != "e2m1":
        return f"{opcode} {operands};", ""
    byte = ".reg .b8 %c<2>;"
    if widens:
        return f"mov.b16 {{%c0, %c1}}, %a0; {opcode} {operands.replace('%a0', '%c0')};", byte
    operands = operands.replace("%d", "%c0")
    return f"mov.b16 %h0, 0; mov.b16 {{%c0, %c1}}, %h0; {opcode} {operands}; mov.b16 %d, {{%c0, %c1}};", byte


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("source", ["f32", "f16x2"])
@pytest.mark.parametrize("name", FORMATS)
def test_to_nearest_and_saturating(name: str, source: str, relu: str) -> None:
    a = floats(32 if source == "f32" else 16, 600, 5)
    some = np.linspace(-9 if name != "e3m2" else -30, 9 if name != "e3m2" else 30, 289)
    a[:289] = some.astype(np.float32 if source == "f32" else np.float16).view(a.dtype)
    b = a[::-1].copy()
    opcode = f"cvt.rn.satfinite{relu}.{name}x2.{source}"
    if source == "f32":
        text, declared = body(opcode, "%d, %a0, %a1", name)
        got = run(text, 16, [a, b], declared, "sm_100a")
        with np.errstate(invalid="ignore"):
            values = a.view(np.float32).astype(np.float64)
    else:
        text, declared = body(opcode, "%d, %a0", name)
        got = run(text, 16, [(a.astype(np.uint32) << np.uint32(16)) | b], declared, "sm_100a")
        values = a.view(np.float16).astype(np.float64)
    wanted = np.array([nearest(float(v), name, bool(relu)) for v in values], np.uint16)
    assert np.array_equal(got, packed(wanted, wanted[::-1], name))


@pytest.mark.parametrize("name", FORMATS)
def test_widened_exactly(name: str) -> None:
    top = 1 << sum(FORMATS[name])
    codes = np.arange(2 * top, dtype=np.uint16)
    text, declared = body(f"cvt.rn.f16x2.{name}x2", "%d, %a0", name, widens=True)
    got = run(text, 32, [packed(codes[::-1], codes, name)], declared, "sm_100a")
    wanted = np.array([float(value_of(c % top, name)) * (-1.0 if c >= top else 1.0) for c in codes.tolist()])
    for half, order in ((got & np.uint32(0xFFFF), wanted), (got >> np.uint32(16), wanted[::-1])):
        values = half.astype(np.uint16).view(np.float16)
        assert np.array_equal(values, order) and np.array_equal(np.signbit(values), np.signbit(order))


# Stochastic rounding: the carry of the discarded bits and the random bits rounds away from zero.
WIDE = {"f16": (5, 10, 13), "bf16": (8, 7, 16), **{name: (*form, 16) for name, form in FORMATS.items()}}
WIDE |= {"e4m3": (4, 3, 16), "e5m2": (5, 2, 16)}


def by_chance(value: float, random: int, name: str) -> Fraction:
    """|value| rounded by so many random bits, which lie at the top of what is dropped; NaN and infinity aside."""
    exponent_bits, significand, width = WIDE[name]
    bias = (1 << (exponent_bits - 1)) - 1
    size = abs(Fraction(value))
    exponent = max(math.frexp(float(size))[1] - 1 if size else -bias, 1 - bias)
    unit = Fraction(2) ** (exponent - significand)
    kept, dropped = divmod(size / unit, 1)
    return (kept + (dropped + Fraction(random, 1 << width) >= 1)) * unit


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_two_numbers_are_rounded_by_chance(name: str) -> None:
    rng = np.random.default_rng(3)
    a = np.concatenate([rng.normal(size=400), rng.normal(size=200) * 2.0**-14, rng.normal(size=100) * 1000])
    a, random = a.astype(np.float32), rng.integers(0, 1 << 32, 700, dtype=np.uint32)
    b = -a[::-1]
    got = run(
        f"cvt.rs.{name}x2.f32 %d, %a0, %a1, %a2;", 32, [a.view(np.uint32), b.view(np.uint32), random], "", "sm_100a"
    )
    mask = (1 << WIDE[name][2]) - 1
    for half, values, bits in (
        (got >> np.uint32(16), a, random >> np.uint32(16)),
        (got & np.uint32(0xFFFF), b, random),
    ):
        codes = half.astype(np.uint16)
        numbers = codes.view(np.float16) if name == "f16" else (half << np.uint32(16)).view(np.float32)
        wanted = [by_chance(float(v), int(r) & mask, name) for v, r in zip(values, bits, strict=True)]
        assert [Fraction(float(abs(n))) for n in numbers] == wanted
        assert np.array_equal(np.signbit(numbers), np.signbit(values))


@pytest.mark.parametrize("name", ["e4m3", "e5m2", *FORMATS])
def test_four_numbers_are_rounded_by_chance(name: str) -> None:
    """The first two by the upper half of the random bits, or by the upper bytes of both; the first lies highest."""
    rng = np.random.default_rng(4)
    top = {"e4m3": 448, "e5m2": 57344, "e2m1": 6, "e2m3": 7.5, "e3m2": 28}[name]
    values = [(rng.uniform(-1.2, 1.2, 300) * min(top, 30)).astype(np.float32) for _ in range(4)]
    random = rng.integers(0, 1 << 32, 300, dtype=np.uint32)
    four_bits = name == "e2m1"
    if four_bits:
        high = random >> np.uint32(24) << np.uint32(8) | random >> np.uint32(8) & np.uint32(255)
        low = (random >> np.uint32(16) & np.uint32(255)) << np.uint32(8) | random & np.uint32(255)
    else:
        high, low = random >> np.uint32(16), random & np.uint32(0xFFFF)
    place, width = ("%h0", 16) if four_bits else ("%d", 32)
    text = f"cvt.rs.satfinite.{name}x4.f32 {place}, {{%a0, %a1, %a2, %a3}}, %a4;"
    text += " mov.b16 %d, %h0;" if four_bits else ""
    got = run(text, width, [*(v.view(np.uint32) for v in values), random], "", "sm_100a").astype(np.uint32)
    exponent_bits, significand, _ = WIDE[name]
    bits = 1 + exponent_bits + significand
    step = 4 if four_bits else 8
    for index, (value, chances) in enumerate(zip(values, (high, high, low, low), strict=True)):
        codes = got >> np.uint32(step * (3 - index)) & np.uint32((1 << bits) - 1)
        bias = (1 << (exponent_bits - 1)) - 1
        for code, number, chance in zip(codes.tolist(), value.tolist(), chances.tolist(), strict=True):
            size, fraction = code & (1 << bits - 1) - 1, code & (1 << significand) - 1
            exponent = size >> significand
            exact = Fraction(fraction + (1 << significand if exponent else 0)) * Fraction(2) ** (
                max(exponent, 1) - bias - significand
            )
            assert exact == min(by_chance(number, chance, name), Fraction(top)), (number, chance)
            assert code >> bits - 1 == (number < 0)


def test_what_stochastic_rounding_leaves_alone() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, 3.0, -3.0], np.float32).view(np.uint32)
    random = np.full(8, 0xFFFFFFFF, np.uint32)
    got = {}
    for form in ("", ".satfinite", ".relu"):
        opcode = f"cvt.rs{form}.f16x2.f32 %d, %a0, %a0, %a1;"
        got[form] = (run(opcode, 32, [values, random], "", "sm_100a") & np.uint32(0xFFFF)).tolist()
    assert got[""] == [0x7C00, 0xFC00, 0x7FFF, 0, 0x8000, 0x7C00, 0x4200, 0xC200]
    assert got[".satfinite"] == [0x7BFF, 0xFBFF, 0x7FFF, 0, 0x8000, 0x7BFF, 0x4200, 0xC200]
    assert got[".relu"] == [0x7C00, 0, 0x7FFF, 0, 0, 0x7C00, 0x4200, 0]


def power(value: float, mode: str, satfinite: bool) -> int:
    """The ue8m0 code: the exponent of the next power of two downwards or upwards, from 2**-127 on."""
    size = abs(value)
    if math.isnan(size):
        return 255
    if math.isinf(size):
        return 254 if satfinite else 255
    if size <= 2.0**-127:
        return 0
    mantissa, exponent = math.frexp(size)  # size = mantissa 2**exponent, mantissa from 0.5 to 1
    code = exponent - 1 + 127 + (mode == "rp" and mantissa != 0.5)
    code = max(code, 0)
    return min(code, 254) if satfinite else code


@pytest.mark.parametrize("satfinite", ["", ".satfinite"])
@pytest.mark.parametrize("mode", ["rz", "rp"])
@pytest.mark.parametrize("source", ["f32", "bf16x2"])
def test_powers_of_two(source: str, mode: str, satfinite: str) -> None:
    a = floats(32, 800, 8)
    if source == "bf16x2":
        a &= np.uint32(0xFFFF0000)
    corners = [
        0x00400000,
        0x00400001,
        0x003FFFFF,
        0x007FFFFF,
        0x00800000,
        0x7F7FFFFF,
        0x7F000000,
        0x7F000001,
        0x80400000,
    ]
    a[: len(corners)] = [c & 0xFFFF0000 if source == "bf16x2" else c for c in corners]
    b = a[::-1].copy()
    opcode = f"cvt.{mode}{satfinite}.ue8m0x2.{source}"
    operands = [a, b] if source == "f32" else [a | b >> np.uint32(16)]
    got = run(f"{opcode} %d, {', '.join(f'%a{i}' for i in range(len(operands)))};", 16, operands, target="sm_100a")
    wanted = np.array([power(float(v), mode, bool(satfinite)) for v in a.view(np.float32)], np.uint16)
    assert np.array_equal(got, wanted << np.uint16(8) | wanted[::-1])


def test_powers_of_two_as_bfloats() -> None:
    codes = np.arange(256, dtype=np.uint16)
    got = run("cvt.rn.bf16x2.ue8m0x2 %d, %a0;", 32, [codes << np.uint16(8) | codes[::-1]], target="sm_100a")
    values = (got & np.uint32(0xFFFF0000)).view(np.float32), (got << np.uint32(16)).view(np.float32)[::-1]
    for numbers in values:
        assert np.array_equal(numbers[:255], 2.0 ** (np.arange(255) - 127)) and np.isnan(numbers[255])


@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize("magnitude", ["", ".abs"])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_redux_of_floats(operation: str, magnitude: str, nan: str) -> None:
    a = floats(32, 32 * 12, 3)
    a[:32] = np.where(np.arange(32) % 2, 0x80000000, 0).astype(np.uint32)
    a[32:64] = 0x7FC00000
    a[64:] = np.where(np.isnan(a[64:].view(np.float32)), np.float32(3).view(np.uint32), a[64:])
    a[70] = 0x7FC12345
    got = run(f"redux.sync.{operation}{magnitude}{nan}.f32 %d, %a0, 0xffffffff;", 32, [a], target="sm_100a")
    for warp, row in enumerate(a.reshape(-1, 32)):
        bits = row & np.uint32(0x7FFFFFFF) if magnitude else row
        numbers = [b for b in bits if not np.isnan(b.view(np.float32))]
        if not numbers or nan and len(numbers) < 32:
            wanted = 0x7FFFFFFF
        else:
            choose = min if operation == "min" else max
            wanted = int(choose(numbers, key=lambda b: (float(b.view(np.float32)), -int(b >> np.uint32(31)))))
        assert set(got[32 * warp : 32 * warp + 32].tolist()) == {wanted}, (warp, hex(wanted))
