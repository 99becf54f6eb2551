"""Instructions on bits and bytes as vector functions: counts, fields, permutations, lookup tables, dot products.

Keys and operands are as in `integers.py`. Formulas follow the PTX ISA.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from warplab.emulator.core.alu.integers import maximum, minimum
from warplab.emulator.core.alu.lanes import I1, I8, I32, I64, INT, LANES, Emitter, Lanes, Table, Vector
from warplab.emulator.core.alu.rounding import splat_like
from warplab.emulator.core.state.layout import IMM, SRC_A, SRC_B, SRC_C, X0


def _bit_count(name: str, width: int) -> Emitter:
    def emit(o: Lanes) -> None:
        value = o.read(SRC_A, INT[width])
        flag = None if name == "llvm.ctpop" else False
        o.write(value.call(name, flag=flag).resize(I32))

    return emit


def _find_bit(width: int, signed: bool, shift_amount: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        value = o.read(SRC_A, INT[width])
        if signed:
            value = value.compare("<", 0, signed=True).where(~value, value)
        zeros = value.call("llvm.ctlz", flag=False).resize(I32)
        found = zeros if shift_amount else (zeros * -1) + (width - 1)
        o.write(value.compare("==", 0).where(splat_like(found, -1), found))

    return emit


def _ones(count: Vector, element: ir.Type, width: int) -> Vector:
    """(1 << count) - 1, also for count >= width; `count` is i32."""
    inside = count.compare("<", width)
    safe = inside.where(count, 0).resize(element)
    return inside.where((splat_like(safe, 1) << safe) - 1, -1)


def _extend(signed: bool, clamp: bool) -> Emitter:
    """szext: the low SRC_B bits of SRC_A, sign- or zero-extended."""

    def emit(o: Lanes) -> None:
        value, count = o.read(SRC_A, I32), o.read(SRC_B, I32)
        count = minimum(count, splat_like(count, 32), False) if clamp else count & 31
        if not signed:
            o.write(value & _ones(count, I32, 32))
            return
        none = count.compare("==", 0)
        amount = none.where(0, (count * -1) + 32)
        o.write(none.where(0, (value << amount).ashr(amount)))

    return emit


def _extract(width: int, signed: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        value, element = o.read(SRC_A, INT[width]), INT[width]
        position, length = o.read(SRC_B, I32) & 255, o.read(SRC_C, I32) & 255
        inside = position.compare("<", width)
        shifted = inside.where(value.lshr(inside.where(position, 0).resize(element)), 0)
        available = inside.where((position * -1) + width, 0)
        result = shifted & _ones(length, element, width)
        if signed:
            last = position + length - 1
            last = minimum(last, splat_like(last, width - 1), signed=True)
            last = maximum(last, splat_like(last, 0), signed=True)
            negative = (value.lshr(last.resize(element)) & 1).compare("!=", 0) & length.compare("!=", 0)
            fill = ~_ones(minimum(length, available, signed=False), element, width)
            result = result | negative.where(fill, 0)
        o.write(result)

    return emit


def _insert(width: int) -> Emitter:
    def emit(o: Lanes) -> None:
        element = INT[width]
        value, base = o.read(SRC_A, element), o.read(SRC_B, element)
        position, length = o.read(SRC_C, I32) & 255, o.read(X0, I32) & 255
        inside = position.compare("<", width)
        amount = inside.where(position, 0).resize(element)
        mask = inside.where(_ones(length, element, width) << amount, 0)
        o.write((base & ~mask) | ((value << amount) & mask))

    return emit


def _lookup(o: Lanes) -> None:
    """lop3: the table in IMM, indexed by the bits of a (weight 4), b (2) and c (1), resolved as a tree of choices."""
    a, b, c = (o.read(slot, I32) for slot in (SRC_A, SRC_B, SRC_C))
    table = o.field(IMM)
    builder = o.builder
    leaves = []
    for bit in range(8):
        one = builder.trunc(builder.lshr(table, ir.Constant(I32, bit)), I1)
        word = builder.sext(one, I32)
        vector = builder.insert_element(ir.Constant(ir.VectorType(I32, LANES), ir.Undefined), word, ir.Constant(I32, 0))
        shuffle = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
        leaves.append(Vector(o, builder.shuffle_vector(vector, vector, shuffle)))

    def choose(selector: Vector, yes: Vector, no: Vector) -> Vector:
        return no ^ (selector & (yes ^ no))

    level = [choose(c, leaves[i + 1], leaves[i]) for i in range(0, 8, 2)]
    level = [choose(b, level[i + 1], level[i]) for i in range(0, 4, 2)]
    o.write(choose(a, level[1], level[0]))


# Selector nibbles for the special modes of prmt, one row for each value of the control's low two bits.
PERMUTE_MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def _permute(mode: str) -> Emitter:
    def emit(o: Lanes) -> None:
        a, b, selector = o.read(SRC_A, I32), o.read(SRC_B, I32), o.read(SRC_C, I32)
        if mode:
            choice = selector & 3
            selector = splat_like(choice, PERMUTE_MODES[mode][0])
            for value in (1, 2, 3):
                selector = choice.compare("==", value).where(PERMUTE_MODES[mode][value], selector)
        source = (b.zext(I64) << 32) | a.zext(I64)
        result = splat_like(a, 0)
        for byte in range(4):
            nibble = selector.lshr(4 * byte)
            picked = source.lshr(((nibble & 7) << 3).zext(I64)).trunc(I32) & 0xFF
            if not mode:
                sign = (picked & 0x80).compare("!=", 0).where(splat_like(picked, 0xFF), 0)
                picked = (nibble & 8).compare("!=", 0).where(sign, picked)
            result = result | (picked << (8 * byte))
        o.write(result)

    return emit


def _funnel(left: bool, clamp: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        low, high, amount = o.read(SRC_A, I32), o.read(SRC_B, I32), o.read(SRC_C, I32)
        amount = minimum(amount, splat_like(amount, 32), False) if clamp else amount & 31
        value = (high.zext(I64) << 32) | low.zext(I64)
        amount = amount.zext(I64)
        o.write(((value << amount).lshr(32) if left else value.lshr(amount)).trunc(I32))

    return emit


def _dot(bytes_a: int, signed_a: bool, signed_b: bool, high: bool) -> Emitter:
    """dp4a (`bytes_a` 1) and dp2a (`bytes_a` 2: 16-bit elements of a with 8-bit elements of half of b)."""

    def emit(o: Lanes) -> None:
        a, b, total = o.read(SRC_A, I32), o.read(SRC_B, I32), o.read(SRC_C, I32)
        count = 4 // bytes_a
        for i in range(count):
            x = a.lshr(8 * bytes_a * i).trunc(INT[8 * bytes_a]).resize(I32, signed_a)
            y = b.lshr(8 * (i + (count if high else 0))).trunc(I8).resize(I32, signed_b)
            total = total + x * y
        o.write(total)

    return emit


def _mask_range(wrap: bool) -> Emitter:
    """bmsk: a run of SRC_B ones starting at bit SRC_A."""

    def emit(o: Lanes) -> None:
        position, length = o.read(SRC_A, I32), o.read(SRC_B, I32)
        if wrap:
            position, length = position & 31, length & 31
        inside = position.compare("<", 32)
        ones = _ones(length, I32, 32)
        o.write(inside.where(ones << inside.where(position, 0), 0))

    return emit


def _reverse(o: Lanes, width: int) -> None:
    o.write(o.read(SRC_A, INT[width]).call("llvm.bitreverse"))


def _nth_bit(o: Lanes) -> None:
    """fns: the place of the n-th set bit from a place on, backwards for a negative n; -1: there is none."""
    mask, base, offset = o.read(SRC_A, I32), o.read(SRC_B, I32) & 31, o.read(SRC_C, I32)
    back = offset.compare("<", 0, signed=True)
    mask = back.where(mask.call("llvm.bitreverse"), mask)
    base = back.where((base * -1) + 31, base)
    count = back.where(offset * -1, offset)
    first = splat_like(base, 1) << base
    mask = count.compare("==", 0).where(mask & first, mask & (first * -1))
    for passed in range(1, 32):
        mask = count.compare(">", passed).where(mask & (mask + -1), mask)
    mask = count.compare(">", 32).where(0, mask)
    place = ((mask & (mask * -1)).call("llvm.ctlz", flag=False) * -1) + 31
    place = back.where((place * -1) + 31, place)
    o.write(mask.compare("==", 0).where(splat_like(place, -1), place))


def build() -> Table:
    """Every operation on bits and bytes."""
    table: Table = {"lop3.b32": _lookup, "fns.b32": _nth_bit}
    for width in (32, 64):
        table[f"popc.b{width}"] = _bit_count("llvm.ctpop", width)
        table[f"clz.b{width}"] = _bit_count("llvm.ctlz", width)
        table[f"brev.b{width}"] = partial(_reverse, width=width)
        table[f"bfi.b{width}"] = _insert(width)
        for letter in "su":
            table[f"bfe.{letter}{width}"] = _extract(width, letter == "s")
            table[f"bfind.{letter}{width}"] = _find_bit(width, letter == "s", False)
            table[f"bfind.shiftamt.{letter}{width}"] = _find_bit(width, letter == "s", True)
    for a in "su":
        for b in "su":
            table[f"dp4a.{a}32.{b}32"] = _dot(1, a == "s", b == "s", False)
            table[f"dp2a.lo.{a}32.{b}32"] = _dot(2, a == "s", b == "s", False)
            table[f"dp2a.hi.{a}32.{b}32"] = _dot(2, a == "s", b == "s", True)
    for mode in ("", *PERMUTE_MODES):
        table[f"prmt.b32.{mode}".rstrip(".")] = _permute(mode)
    for mode in ("clamp", "wrap"):
        table[f"shf.l.{mode}.b32"] = _funnel(True, mode == "clamp")
        table[f"shf.r.{mode}.b32"] = _funnel(False, mode == "clamp")
        table[f"bmsk.{mode}.b32"] = _mask_range(mode == "wrap")
        for letter in "su":
            table[f"szext.{mode}.{letter}32"] = _extend(letter == "s", mode == "clamp")
    return table
