"""Integer, logic, predicate and move instructions as vector functions. Formulas follow the PTX ISA.

Keys are "operation.type" as the decoder builds them; `i` stands for either signedness. Sources are SRC_A, SRC_B,
SRC_C of the record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from warplab.emulator.core.alu.lanes import I16, I32, I64, INT, LANES, Emitter, Lanes, Table, Vector
from warplab.emulator.core.alu.rounding import splat_like
from warplab.emulator.core.state.layout import SRC_A, SRC_B, SRC_C, X0, X1

WIDTHS = (16, 32, 64)


def _binary(width: int, formula: Callable[[Vector, Vector], Vector]) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write(formula(o.read(SRC_A, INT[width]), o.read(SRC_B, INT[width])))

    return emit


def _unary(width: int, formula: Callable[[Vector], Vector]) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write(formula(o.read(SRC_A, INT[width])))

    return emit


def _ternary(width: int, formula: Callable[[Vector, Vector, Vector], Vector]) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write(formula(o.read(SRC_A, INT[width]), o.read(SRC_B, INT[width]), o.read(SRC_C, INT[width])))

    return emit


def minimum(a: Vector, b: Vector, signed: bool) -> Vector:
    return a.compare("<", b, signed).where(a, b)


def maximum(a: Vector, b: Vector, signed: bool) -> Vector:
    return a.compare(">", b, signed).where(a, b)


def _high(a: Vector, b: Vector, width: int, signed: bool) -> Vector:
    wide = INT[2 * width]
    product = a.resize(wide, signed) * b.resize(wide, signed)
    return product.lshr(width).trunc(INT[width])


def _divide(a: Vector, b: Vector, width: int, signed: bool, remainder: bool) -> Vector:
    """Quotient or remainder. A zero divisor gives all ones and the dividend; INT_MIN / -1 gives INT_MIN and 0.

    Inactive lanes hold anything, so the two cases that would trap on the host are replaced in every lane.
    """
    zero = b.compare("==", 0)
    safe = zero.where(1, b)
    if not signed:
        return zero.where(a, a.urem(safe)) if remainder else zero.where(-1, a.udiv(safe))
    overflow = a.compare("==", 1 << (width - 1)) & b.compare("==", -1)
    safe = overflow.where(1, safe)
    if remainder:
        return zero.where(a, overflow.where(0, a.srem(safe)))
    return zero.where(-1, a.sdiv(safe))


def _shift(kind: str, width: int) -> Emitter:
    """Shifts take a 32-bit amount, and amounts beyond the width shift everything out."""

    def emit(o: Lanes) -> None:
        value, amount = o.read(SRC_A, INT[width]), o.read(SRC_B, I32)
        inside = amount.compare("<", width)
        safe = inside.where(amount, width - 1 if kind == "s" else 0).resize(INT[width])
        if kind == "l":
            o.write(inside.where(value << safe, 0))
        elif kind == "u":
            o.write(inside.where(value.lshr(safe), 0))
        else:
            o.write(value.ashr(safe))

    return emit


def _wide(width: int, signed: bool, add: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        wide = INT[2 * width]
        product = o.read(SRC_A, INT[width]).resize(wide, signed) * o.read(SRC_B, INT[width]).resize(wide, signed)
        o.write(product + o.read(SRC_C, wide) if add else product)

    return emit


def _saturating(kind: str) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write(o.read(SRC_A, I32).call(f"llvm.{kind}.sat", o.read(SRC_B, I32)))

    return emit


def _sad(width: int, signed: bool) -> Emitter:
    return _ternary(width, lambda a, b, c: c + a.compare("<", b, signed).where(b - a, a - b))


def _mul24(signed: bool, high: bool, add: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        def low24(v: Vector) -> Vector:
            v = v.resize(I64)
            return (v << 40).ashr(40) if signed else v & 0xFFFFFF

        product = low24(o.read(SRC_A, I32)) * low24(o.read(SRC_B, I32))
        result = (product.lshr(16) if high else product).trunc(I32)
        o.write(result + o.read(SRC_C, I32) if add else result)

    return emit


def _carry(subtract: bool, carry_in: bool, carry_out: bool, width: int) -> Emitter:
    """add/sub with the carry flag: X0 reads it, X1 writes it. Subtraction's flag is the borrow's complement."""

    def emit(o: Lanes) -> None:
        a, b = o.read(SRC_A, INT[width]), o.read(SRC_B, INT[width])
        if subtract:
            b = ~b
        result = a + b
        overflow = result.compare("<", a)
        if carry_in or subtract:
            carry = o.read_predicate(X0).zext(INT[width]) if carry_in else splat_like(a, 1)
            with_carry = result + carry
            overflow = overflow | with_carry.compare("<", result)
            result = with_carry
        o.write(result)
        if carry_out:
            o.write_predicate(overflow, X1)

    return emit


def _compare(width: int, condition: str, signed: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write_predicate(o.read(SRC_A, INT[width]).compare(condition, o.read(SRC_B, INT[width]), signed))

    return emit


def _select(width: int) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write(o.read_predicate(X0).where(o.read(SRC_A, INT[width]), o.read(SRC_B, INT[width])))

    return emit


def _move_wide(o: Lanes) -> None:
    low, high = o.read(SRC_A, I64), o.read(SRC_A, I64, half=1)
    o.write(low)
    o.write(high, half=1)


def _pack(width: int) -> Emitter:
    """Two registers into one of twice the width: SRC_A the low half."""

    def emit(o: Lanes) -> None:
        wide = INT[2 * width]
        o.write(o.read(SRC_A, INT[width]).zext(wide) | (o.read(SRC_B, INT[width]).zext(wide) << width))

    return emit


def _pack128(o: Lanes) -> None:
    low, high = o.read(SRC_A, I64), o.read(SRC_B, I64)
    o.write(low)
    o.write(high, half=1)


def _half_of(width: int, high: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        value = o.read(SRC_A, INT[2 * width])
        o.write((value.lshr(width) if high else value).trunc(INT[width]))

    return emit


def _half_of_128(high: int) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write(o.read(SRC_A, I64, half=high))

    return emit


def _resize(source: int, target: int, signed: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write(o.read(SRC_A, INT[source]).resize(INT[target], signed))

    return emit


def _extend_in_place(inner: int, width: int, signed: bool) -> Emitter:
    """Keep the low `inner` bits of a register and extend them over it."""

    def emit(o: Lanes) -> None:
        o.write(o.read(SRC_A, INT[width]).trunc(INT[inner]).resize(INT[width], signed))

    return emit


def _clamp(width: int, low: int, high: int, signed: bool) -> Emitter:
    """Saturate an integer register to [low, high] (cvt.sat)."""

    def emit(o: Lanes) -> None:
        value = o.read(SRC_A, INT[width])
        value = minimum(value, splat_like(value, high), signed)
        o.write(maximum(value, splat_like(value, low), True) if signed else value)

    return emit


def _predicate(formula: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write_mask(formula(o.builder, o.read_mask(SRC_A), o.read_mask(SRC_B)))

    return emit


def _per_half(operation: Callable[[Vector, Vector], Vector]) -> Emitter:
    """Two 16-bit integers in a 32-bit register (add.u16x2 and its kin)."""

    def emit(o: Lanes) -> None:
        o.write(operation(o.read(SRC_A, I16, count=2 * LANES), o.read(SRC_B, I16, count=2 * LANES)))

    return emit


def _simple(width: int) -> Table:
    i, s, u = f".i{width}", f".s{width}", f".u{width}"
    return {
        "mov" + i: _unary(width, lambda a: a),
        "add" + i: _binary(width, lambda a, b: a + b),
        "sub" + i: _binary(width, lambda a, b: a - b),
        "mul.lo" + i: _binary(width, lambda a, b: a * b),
        "mad.lo" + i: _ternary(width, lambda a, b, c: a * b + c),
        "and" + i: _binary(width, lambda a, b: a & b),
        "or" + i: _binary(width, lambda a, b: a | b),
        "xor" + i: _binary(width, lambda a, b: a ^ b),
        "not" + i: _unary(width, lambda a: ~a),
        "cnot" + i: _unary(width, lambda a: a.compare("==", 0).where(splat_like(a, 1), 0)),
        "neg" + i: _unary(width, lambda a: a * -1),
        "abs" + i: _unary(width, lambda a: a.compare("<", 0, signed=True).where(a * -1, a)),
        "min" + s: _binary(width, lambda a, b: minimum(a, b, True)),
        "min" + u: _binary(width, lambda a, b: minimum(a, b, False)),
        "max" + s: _binary(width, lambda a, b: maximum(a, b, True)),
        "max" + u: _binary(width, lambda a, b: maximum(a, b, False)),
        "mul.hi" + s: _binary(width, lambda a, b: _high(a, b, width, True)),
        "mul.hi" + u: _binary(width, lambda a, b: _high(a, b, width, False)),
        "div" + s: _binary(width, lambda a, b: _divide(a, b, width, True, False)),
        "div" + u: _binary(width, lambda a, b: _divide(a, b, width, False, False)),
        "rem" + s: _binary(width, lambda a, b: _divide(a, b, width, True, True)),
        "rem" + u: _binary(width, lambda a, b: _divide(a, b, width, False, True)),
        "sad" + s: _sad(width, True),
        "sad" + u: _sad(width, False),
        "shl" + i: _shift("l", width),
        "shr" + s: _shift("s", width),
        "shr" + u: _shift("u", width),
        "selp" + i: _select(width),
    }


COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _resizing() -> Table:
    """Changes of width, and saturation to narrower types, for cvt."""
    table: Table = {}
    for source in WIDTHS:
        for target in WIDTHS:
            if target < source:
                table[f"trunc.{source}.{target}"] = _resize(source, target, False)
            elif target > source:
                table[f"zext.{source}.{target}"] = _resize(source, target, False)
                table[f"sext.{source}.{target}"] = _resize(source, target, True)
        for inner in (8, 16, 32, 64):
            if inner < source:
                table[f"zext_low.{inner}.{source}"] = _extend_in_place(inner, source, False)
                table[f"sext_low.{inner}.{source}"] = _extend_in_place(inner, source, True)
            if inner <= source:
                # A signed source saturates to either kind of target, an unsigned one only has an upper end.
                table[f"sat.s{source}.s{inner}"] = _clamp(source, -(1 << (inner - 1)), (1 << (inner - 1)) - 1, True)
                table[f"sat.u{source}.s{inner}"] = _clamp(source, 0, (1 << (inner - 1)) - 1, False)
                high = (1 << inner) - 1 if inner < source else (1 << (source - 1)) - 1
                table[f"sat.s{source}.u{inner}"] = _clamp(source, 0, high, True)
                table[f"sat.u{source}.u{inner}"] = _clamp(source, 0, (1 << inner) - 1, False)
    return table


def build() -> Table:
    """Every integer, logic, predicate and move operation; those on single bits and bytes are in `bits.py`."""
    table: Table = {}
    for width in WIDTHS:
        table |= _simple(width)
        for name, condition in COMPARISONS.items():
            if name in ("eq", "ne"):
                table[f"setp.{name}.i{width}"] = _compare(width, condition, False)
            else:
                table[f"setp.{name}.s{width}"] = _compare(width, condition, True)
                table[f"setp.{name}.u{width}"] = _compare(width, condition, False)
    for width in (16, 32):
        for letter in "su":
            table[f"mul.wide.{letter}{width}"] = _wide(width, letter == "s", add=False)
            table[f"mad.wide.{letter}{width}"] = _wide(width, letter == "s", add=True)
        table[f"pack.i{width}"] = _pack(width)
        table[f"low.i{width}"] = _half_of(width, high=False)
        table[f"high.i{width}"] = _half_of(width, high=True)
    table |= {"mov.i128": _move_wide, "pack.i64": _pack128, "low.i64": _half_of_128(0), "high.i64": _half_of_128(1)}
    for width in (32, 64):
        for subtract in (False, True):
            for carry_in in (False, True):
                for carry_out in (False, True):
                    if carry_in or carry_out:
                        name = ("sub" if subtract else "add") + ("c" if carry_in else "") + (".cc" if carry_out else "")
                        table[f"{name}.i{width}"] = _carry(subtract, carry_in, carry_out, width)
    for letter in "su":
        for part in ("lo", "hi"):
            table[f"mul24.{part}.{letter}32"] = _mul24(letter == "s", part == "hi", False)
            table[f"mad24.{part}.{letter}32"] = _mul24(letter == "s", part == "hi", True)
        signed = letter == "s"
        table[f"add.{letter}16x2"] = _per_half(lambda a, b: a + b)
        table[f"min.{letter}16x2"] = _per_half(partial(minimum, signed=signed))
        table[f"max.{letter}16x2"] = _per_half(partial(maximum, signed=signed))
    table["add.sat.s32"], table["sub.sat.s32"] = _saturating("sadd"), _saturating("ssub")
    table |= _resizing()
    table |= {
        "and.pred": _predicate(lambda b, x, y: b.and_(x, y)),
        "or.pred": _predicate(lambda b, x, y: b.or_(x, y)),
        "xor.pred": _predicate(lambda b, x, y: b.xor(x, y)),
        "not.pred": _predicate(lambda b, x, y: b.not_(x)),
        "mov.pred": _predicate(lambda b, x, y: x),
    }
    return table
