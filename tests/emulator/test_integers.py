"""Integer, logic, bit and comparison instructions against Python's exact integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulator.alu import integers, run

COUNT = 256


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


def check(opcode: str, operands: list[np.ndarray], result: int, expected: Callable[..., int]) -> None:
    """One instruction `opcode %d, %a0, ...` against a Python function of the raw operands."""
    names = ", ".join(f"%a{i}" for i in range(len(operands)))
    got = run(f"{opcode} %d, {names};", result, operands)
    mask = (1 << result) - 1
    wanted = [expected(*(int(o[i]) for o in operands)) & mask for i in range(operands[0].size)]
    bad = [(i, [hex(int(o[i])) for o in operands]) for i in range(len(wanted)) if int(got[i]) != wanted[i]]
    assert not bad, f"{opcode}: {bad[0][1]} gave {got[bad[0][0]]:#x}, not {wanted[bad[0][0]]:#x}"


def trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def binary(width: int) -> dict[str, Callable[[int, int], int]]:
    def s(x: int) -> int:
        return signed(x, width)

    return {
        f"add.s{width}": lambda a, b: a + b,
        f"sub.u{width}": lambda a, b: a - b,
        f"mul.lo.s{width}": lambda a, b: a * b,
        f"mul.hi.s{width}": lambda a, b: s(a) * s(b) >> width,
        f"mul.hi.u{width}": lambda a, b: a * b >> width,
        f"div.s{width}": lambda a, b: trunc_div(s(a), s(b)) if b else -1,
        f"div.u{width}": lambda a, b: a // b if b else -1,
        f"rem.s{width}": lambda a, b: s(a) - s(b) * trunc_div(s(a), s(b)) if b else a,
        f"rem.u{width}": lambda a, b: a % b if b else a,
        f"min.s{width}": lambda a, b: min(s(a), s(b)),
        f"min.u{width}": min,
        f"max.s{width}": lambda a, b: max(s(a), s(b)),
        f"max.u{width}": max,
        f"and.b{width}": lambda a, b: a & b,
        f"or.b{width}": lambda a, b: a | b,
        f"xor.b{width}": lambda a, b: a ^ b,
    }


@pytest.mark.parametrize("width", [16, 32, 64])
def test_binary(width: int) -> None:
    a, b = integers(width, COUNT, 1), integers(width, COUNT, 2)
    for opcode, expected in binary(width).items():
        check(opcode, [a, b], width, expected)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_unary_and_shifts(width: int) -> None:
    a = integers(width, COUNT, 3)
    check(f"not.b{width}", [a], width, lambda a: ~a)
    check(f"neg.s{width}", [a], width, lambda a: -a)
    check(f"abs.s{width}", [a], width, lambda a: abs(signed(a, width)))
    amounts = (integers(32, COUNT, 4) % np.uint32(2 * width + 3)).astype(np.uint32)
    amounts[:3] = [2**32 - 1, 2**31, width]
    check(f"shl.b{width}", [a, amounts], width, lambda a, n: a << n if n < width else 0)
    check(f"shr.u{width}", [a, amounts], width, lambda a, n: a >> min(n, width))
    check(f"shr.s{width}", [a, amounts], width, lambda a, n: signed(a, width) >> min(n, width))


@pytest.mark.parametrize("width", [16, 32])
def test_wide_products(width: int) -> None:
    a, b = integers(width, COUNT, 5), integers(width, COUNT, 6)
    c = integers(2 * width, COUNT, 7)
    check(f"mul.wide.s{width}", [a, b], 2 * width, lambda a, b: signed(a, width) * signed(b, width))
    check(f"mul.wide.u{width}", [a, b], 2 * width, lambda a, b: a * b)
    check(f"mad.wide.s{width}", [a, b, c], 2 * width, lambda a, b, c: signed(a, width) * signed(b, width) + c)


@pytest.mark.parametrize("width", [32, 64])
def test_bits(width: int) -> None:
    a = integers(width, COUNT, 8)
    check(f"popc.b{width}", [a], 32, lambda a: a.bit_count())
    check(f"clz.b{width}", [a], 32, lambda a: width - a.bit_length())
    check(f"brev.b{width}", [a], width, lambda a: int(f"{a:0{width}b}"[::-1], 2))
    check(f"bfind.u{width}", [a], 32, lambda a: a.bit_length() - 1)
    check(f"bfind.s{width}", [a], 32, lambda a: (~a & (1 << width) - 1 if a >> width - 1 else a).bit_length() - 1)
    check(f"bfind.shiftamt.u{width}", [a], 32, lambda a: width - a.bit_length() if a else -1)


def extract(a: int, position: int, length: int, width: int, is_signed: bool) -> int:
    """bfe by the ISA's own pseudocode, bit by bit."""
    position, length, top = position & 255, length & 255, width - 1
    sign = 0 if not is_signed or length == 0 else a >> min(position + length - 1, top) & 1
    result = 0
    for i in range(width):
        bit = a >> (position + i) & 1 if i < length and position + i <= top else sign
        result |= bit << i
    return result


def insert(a: int, b: int, position: int, length: int, width: int) -> int:
    position, length = position & 255, length & 255
    for i in range(length):
        if position + i >= width:
            break
        b = b & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
    return b


@pytest.mark.parametrize("width", [32, 64])
def test_bit_fields(width: int) -> None:
    a, b = integers(width, COUNT, 9), integers(width, COUNT, 10)
    rng = np.random.default_rng(11)
    position = rng.integers(0, width + 8, COUNT).astype(np.uint32)
    length = rng.integers(0, width + 8, COUNT).astype(np.uint32)
    length[:4] = [0, 255, 256, width]
    for letter in "su":
        check(
            f"bfe.{letter}{width}",
            [a, position, length],
            width,
            lambda a, p, n, s=letter == "s": extract(a, p, n, width, s),
        )
    check(f"bfi.b{width}", [a, b, position, length], width, lambda a, b, p, n: insert(a, b, p, n, width))


def permute(a: int, b: int, selector: int) -> int:
    source, result = b << 32 | a, 0
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = source >> 8 * (nibble & 7) & 255
        if nibble & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * i
    return result


def test_three_operands() -> None:
    a, b, c = (integers(32, COUNT, seed) for seed in (12, 13, 14))
    check("mad.lo.s32", [a, b, c], 32, lambda a, b, c: a * b + c)
    check("mad.hi.u32", [a, b, c], 32, lambda a, b, c: (a * b >> 32) + c)
    check("prmt.b32", [a, b, c], 32, permute)
    check("sad.u32", [a, b, c], 32, lambda a, b, c: c + abs(a - b))
    check("sad.s32", [a, b, c], 32, lambda a, b, c: c + abs(signed(a, 32) - signed(b, 32)))
    check("shf.l.wrap.b32", [a, b, c], 32, lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32)
    check("shf.r.wrap.b32", [a, b, c], 32, lambda a, b, c: (b << 32 | a) >> (c & 31))
    check("shf.l.clamp.b32", [a, b, c], 32, lambda a, b, c: ((b << 32 | a) << min(c, 32)) >> 32)
    check("shf.r.clamp.b32", [a, b, c], 32, lambda a, b, c: (b << 32 | a) >> min(c, 32))
    check(
        "dp4a.u32.u32", [a, b, c], 32, lambda a, b, c: c + sum((a >> i & 255) * (b >> i & 255) for i in (0, 8, 16, 24))
    )
    check(
        "dp4a.s32.s32",
        [a, b, c],
        32,
        lambda a, b, c: c + sum(signed(a >> i & 255, 8) * signed(b >> i & 255, 8) for i in (0, 8, 16, 24)),
    )
    check("add.sat.s32", [a, b], 32, lambda a, b: max(-(2**31), min(2**31 - 1, signed(a, 32) + signed(b, 32))))


def clamped(value: int) -> int:
    return max(-(2**31), min(2**31 - 1, value))


def test_sums_of_upper_halves_saturate() -> None:
    a, b, c = (integers(32, COUNT, seed) for seed in (60, 61, 62))
    a[:8], b[:8] = 0x7FFFFFFF, [0x7FFFFFFF, 0x80000000] * 4
    c[:8] = [0x7FFFFFFF, 0x80000000, 0x60000000, 0xA0000000, 0, 1, 0xFFFFFFFF, 0x40000000]

    def s24(value: int) -> int:
        return signed(value & 0xFFFFFF, 24)

    check(
        "mad.hi.sat.s32", [a, b, c], 32, lambda a, b, c: clamped((signed(a, 32) * signed(b, 32) >> 32) + signed(c, 32))
    )
    check("mad24.hi.sat.s32", [a, b, c], 32, lambda a, b, c: clamped((s24(a) * s24(b) >> 16) + signed(c, 32)))


@pytest.mark.parametrize(("name", "pick"), [("min", min), ("max", max)])
def test_extremes_that_are_not_negative(name: str, pick: Callable[..., int]) -> None:
    a, b = integers(32, COUNT, 63), integers(32, COUNT, 64)
    check(f"{name}.relu.s32", [a, b], 32, lambda a, b: max(0, pick(signed(a, 32), signed(b, 32))))

    def pair(a: int, b: int) -> int:
        halves = [max(0, pick(signed(a >> at & 0xFFFF, 16), signed(b >> at & 0xFFFF, 16))) for at in (0, 16)]
        return halves[1] << 16 | halves[0]

    check(f"{name}.relu.s16x2", [a, b], 32, pair)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_extension_of_a_number_of_bits(mode: str) -> None:
    a, bits = integers(32, COUNT, 65), integers(32, COUNT, 66)
    bits[:80] = np.arange(80)  # every number of bits, and beyond the register's

    def extended(a: int, bits: int, negative: bool) -> int:
        count = min(bits, 32) if mode == "clamp" else bits % 32
        low = a % (1 << count)
        return low - (1 << count) if negative and count and low >> count - 1 else low

    check(f"szext.{mode}.u32", [a, bits], 32, lambda a, n: extended(a, n, False))
    check(f"szext.{mode}.s32", [a, bits], 32, lambda a, n: extended(a, n, True))


@pytest.mark.parametrize("table", [0x00, 0x96, 0xE8, 0xC0, 0x1D, 0xFF])
def test_lop3(table: int) -> None:
    a, b, c = (integers(32, 64, seed) for seed in (15, 16, 17))
    got = run(f"lop3.b32 %d, %a0, %a1, %a2, {table};", 32, [a, b, c])
    for x, y, z, r in zip(a, b, c, got, strict=True):
        for bit in range(32):
            index = (int(x) >> bit & 1) * 4 + (int(y) >> bit & 1) * 2 + (int(z) >> bit & 1)
            assert int(r) >> bit & 1 == table >> index & 1


def test_carry_chain_adds_and_subtracts_128_bits() -> None:
    low_a, high_a, low_b, high_b = (integers(64, COUNT, seed) for seed in (18, 19, 20, 21))
    low_b[:8] = low_a[:8]
    for first, second, sign in (("add.cc", "addc", 1), ("sub.cc", "subc", -1)):
        body = f"{first}.u64 %rd8, %a0, %a2; {second}.u64 %d, %a1, %a3;"
        got = run(body, 64, [low_a, high_a, low_b, high_b])
        for i in range(COUNT):
            a, b = int(high_a[i]) << 64 | int(low_a[i]), int(high_b[i]) << 64 | int(low_b[i])
            assert int(got[i]) == (a + sign * b) >> 64 & 2**64 - 1


def test_mad_carry_gives_the_full_product() -> None:
    a, b = integers(32, COUNT, 22), integers(32, COUNT, 23)
    c, d = integers(32, COUNT, 24), integers(32, COUNT, 25)
    got = run("mad.lo.cc.u32 %r8, %a0, %a1, %a2; madc.hi.u32 %d, %a0, %a1, %a3;", 32, [a, b, c, d])
    for i in range(COUNT):
        exact = int(a[i]) * int(b[i]) + int(c[i]) + (int(d[i]) << 32)
        assert int(got[i]) == exact >> 32 & 2**32 - 1


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("width", [16, 32, 64])
def test_comparisons(width: int) -> None:
    a, b = integers(width, COUNT, 26), integers(width, COUNT, 27)
    b[::5] = a[::5]
    for name, expected in COMPARE.items():
        for letter in "su":
            got = run(f"setp.{name}.{letter}{width} %p1, %a0, %a1; selp.b32 %d, 7, 9, %p1;", 32, [a, b])
            for x, y, r in zip(a, b, got, strict=True):
                x, y = (signed(int(v), width) if letter == "s" else int(v) for v in (x, y))
                assert r == (7 if expected(x, y) else 9)


def test_setp_combines_and_gives_both_results() -> None:
    a, b = integers(32, COUNT, 28), integers(32, COUNT, 29)
    body = """setp.gt.u32 %p3, %a1, 1000; setp.lt.and.s32 %p1|%p2, %a0, %a1, !%p3;
              selp.b32 %r8, 1, 0, %p1; selp.b32 %r9, 2, 0, %p2; or.b32 %d, %r8, %r9;"""
    got = run(body, 32, [a, b])
    for x, y, r in zip(a, b, got, strict=True):
        less, other = signed(int(x), 32) < signed(int(y), 32), not int(y) > 1000
        assert r == (less and other) * 1 + (not less and other) * 2


@pytest.mark.parametrize(("target", "source"), [
    ("s64", "s32"), ("u64", "u32"), ("s32", "s64"), ("u16", "u32"), ("s16", "s32"), ("u32", "u16"), ("s32", "s16"),
    ("s32", "s8"), ("u32", "u8"), ("s64", "s8"), ("s8", "s32"), ("u8", "u64"), ("s16", "s8"),
])  # fmt: skip
def test_integer_conversions(target: str, source: str) -> None:
    widths = {name: max(int(name[1:]), 16) for name in (target, source)}
    a = integers(widths[source], COUNT, 30)
    for flag in ("", ".sat"):
        got = run(f"cvt{flag}.{target}.{source} %d, %a0;", widths[target], [a])
        bits = int(source[1:])
        for x, r in zip(a, got, strict=True):
            value = int(x) & (1 << bits) - 1
            value = signed(value, bits) if source[0] == "s" else value
            size = int(target[1:])
            if flag:
                low, high = (-(1 << size - 1), (1 << size - 1) - 1) if target[0] == "s" else (0, (1 << size) - 1)
                value = max(low, min(high, value))
            value &= (1 << size) - 1
            value = signed(value, size) if target[0] == "s" else value
            assert int(r) == value & (1 << widths[target]) - 1, (hex(int(x)), hex(int(r)))


def test_pack_and_unpack() -> None:
    a, b = integers(32, 64, 31), integers(32, 64, 32)
    body = "mov.b64 %rd8, {%a0, %a1}; mov.b64 {%h1, %h2, %h3, %h4}, %rd8; mov.b64 %d, {%h4, %h3, %h2, %h1};"
    got = run(body, 64, [a, b])
    for x, y, r in zip(a, b, got, strict=True):
        halves = [int(v) >> s & 0xFFFF for v in (x, y) for s in (0, 16)]
        assert int(r) == sum(h << 16 * i for i, h in enumerate(reversed(halves)))
    got = run("mov.b64 {_, %d}, %a0;", 32, [integers(64, 64, 33)])
    assert np.array_equal(got, (integers(64, 64, 33) >> np.uint64(32)).astype(np.uint32))


def test_predicates_guard_writes() -> None:
    a = integers(32, COUNT, 34)
    got = run("setp.lt.u32 %p1, %a0, 1000000; mov.u32 %d, 1; @%p1 mov.u32 %d, 2; @!%p1 add.u32 %d, %d, 10;", 32, [a])
    assert np.array_equal(got, np.where(a < 1000000, 2, 11))


def nth_bit(mask: int, base: int, offset: int) -> int:
    """fns step by step: the bit at `base` for 0, else the |offset|-th set bit from there on, up or down."""
    base, offset = base & 31, signed(offset, 32)
    places = [base] if offset == 0 else range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    number = max(abs(offset), 1)
    return found[number - 1] if len(found) >= number else -1


def test_fns() -> None:
    masks = integers(32, 32, COUNT)
    for mask in (masks, np.full_like(masks, 0xFFFFFFFF), np.zeros_like(masks)):
        bases = np.arange(mask.size, dtype=mask.dtype) % 32
        for offsets in (range(-4, 5), (32, -32, 33, -33, -(2**31), 2**31 - 1)):
            wanted = np.resize(np.array(offsets, np.int64), mask.size).astype(np.uint32).astype(mask.dtype)
            check("fns.b32", [mask, bases, wanted], 32, nth_bit)
