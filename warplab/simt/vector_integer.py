"""Integer, logic, predicate and move instructions as vector functions. Formulas follow the PTX ISA.

Keys are "operation.type" as the decoder builds them; `i` stands for either signedness. Sources are SRC_A, SRC_B,
SRC_C of the record.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from warplab.simt.lanes import I1, I8, I16, I32, I64, INT, LANES, Emitter, Lanes, Table, Vector
from warplab.simt.layout import IMM, SRC_A, SRC_B, SRC_C, X0, X1
from warplab.simt.rounding import splat_like

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


def build() -> Table:
    """Every integer, logic, predicate and move operation."""
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
        table[f"popc.b{width}"] = _bit_count("llvm.ctpop", width)
        table[f"clz.b{width}"] = _bit_count("llvm.ctlz", width)
        table[f"brev.b{width}"] = _unary(width, lambda a: a.call("llvm.bitreverse"))
        table[f"bfi.b{width}"] = _insert(width)
        for letter in "su":
            table[f"bfe.{letter}{width}"] = _extract(width, letter == "s")
            table[f"bfind.{letter}{width}"] = _find_bit(width, letter == "s", False)
            table[f"bfind.shiftamt.{letter}{width}"] = _find_bit(width, letter == "s", True)
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
        for other in "su":
            table[f"dp4a.{letter}32.{other}32"] = _dot(1, letter == "s", other == "s", False)
            table[f"dp2a.lo.{letter}32.{other}32"] = _dot(2, letter == "s", other == "s", False)
            table[f"dp2a.hi.{letter}32.{other}32"] = _dot(2, letter == "s", other == "s", True)
        signed = letter == "s"
        table[f"add.{letter}16x2"] = _per_half(lambda a, b: a + b)
        table[f"min.{letter}16x2"] = _per_half(lambda a, b, s=signed: minimum(a, b, s))
        table[f"max.{letter}16x2"] = _per_half(lambda a, b, s=signed: maximum(a, b, s))
    table["add.sat.s32"], table["sub.sat.s32"] = _saturating("sadd"), _saturating("ssub")
    table["lop3.b32"] = _lookup
    for mode in ("", *PERMUTE_MODES):
        table[f"prmt.b32.{mode}".rstrip(".")] = _permute(mode)
    for mode in ("clamp", "wrap"):
        table[f"shf.l.{mode}.b32"] = _funnel(True, mode == "clamp")
        table[f"shf.r.{mode}.b32"] = _funnel(False, mode == "clamp")
        table[f"bmsk.{mode}.b32"] = _mask_range(mode == "wrap")
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
    table |= {
        "and.pred": _predicate(lambda b, x, y: b.and_(x, y)),
        "or.pred": _predicate(lambda b, x, y: b.or_(x, y)),
        "xor.pred": _predicate(lambda b, x, y: b.xor(x, y)),
        "not.pred": _predicate(lambda b, x, y: b.not_(x)),
        "mov.pred": _predicate(lambda b, x, y: x),
    }
    return table
