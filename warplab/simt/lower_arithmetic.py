"""Handlers for arithmetic, logic, comparisons, selections and moves."""

from __future__ import annotations

from warplab.simt.layout import CARRY_SLOT, OP_SPECIAL
from warplab.simt.lower import Lowering, Unsupported, handles
from warplab.simt.program import make_record
from warplab.simt.ptx import TYPE_BITS, Group, Immediate, Instruction, Operand, Pair, Sink, Special

FLOATS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
SMALL = ("f16", "bf16", "f16x2", "bf16x2")
ROUNDINGS = ("rn", "rz", "rm", "rp")
SIGNED_COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def integer_key(operation: str, kind: str, signed_matters: bool) -> str:
    """The table's key of an integer operation."""
    width = TYPE_BITS[kind]
    letter = kind[0] if signed_matters and kind[0] == "s" else "u" if signed_matters else "i"
    return f"{operation}.{letter}{width}"


def key_of(operation: str, modifiers: list[str], order: tuple[str, ...], kind: str) -> str:
    """operation.modifiers.type with the modifiers in the table's order; one that the table lacks is unsupported."""
    if any(m not in order for m in modifiers):
        raise Unsupported
    return ".".join([operation, *(m for m in order if m in modifiers), kind])


def three(lowering: Lowering, instruction: Instruction, key: str, kind: str) -> None:
    """A plain operation: a destination and up to three sources of one type."""
    operands = instruction.operands
    sources = [lowering.source(o, kind) for o in operands[1:]]
    lowering.vector(key, lowering.target(operands[0], kind), *sources)


def _with_rounding(modifiers: list[str]) -> list[str]:
    return modifiers if any(m in ROUNDINGS for m in modifiers) else ["rn", *modifiers]


def _float(lowering: Lowering, instruction: Instruction, operation: str, modifiers: list[str], kind: str) -> None:
    order = (*ROUNDINGS, "ftz", "sat", "relu")
    three(lowering, instruction, key_of(operation, _with_rounding(modifiers), order, kind), kind)


@handles("add", "sub")
def add(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operation, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if kind in FLOATS:
        _float(lowering, instruction, operation, modifiers, kind)
    elif modifiers == ["cc"]:
        carry(lowering, instruction, parts)
    elif kind in ("u16x2", "s16x2"):
        three(lowering, instruction, f"{operation}.{kind}", kind)
    elif modifiers == ["sat"]:
        three(lowering, instruction, f"{operation}.sat.{kind}", kind)
    elif modifiers:
        raise Unsupported
    else:
        three(lowering, instruction, integer_key(operation, kind, False), kind)


@handles("addc", "subc")
def carry(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    width = TYPE_BITS[parts[-1]]
    operands = instruction.operands
    sources = [lowering.source(o, parts[-1]) for o in operands[1:]]
    key = ".".join(parts[:-1]) + f".i{width}"
    lowering.vector(key, lowering.target(operands[0], parts[-1]), *sources, extra=(CARRY_SLOT, CARRY_SLOT))


@handles("mul")
def mul(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    modifiers, kind = parts[1:-1], parts[-1]
    if kind in FLOATS:
        _float(lowering, instruction, "mul", modifiers, kind)
    elif modifiers == ["wide"]:
        _wide(lowering, instruction, "mul.wide", kind)
    elif modifiers == ["lo"]:
        three(lowering, instruction, integer_key("mul.lo", kind, False), kind)
    elif modifiers == ["hi"]:
        three(lowering, instruction, integer_key("mul.hi", kind, True), kind)
    else:
        raise Unsupported


def _wide(lowering: Lowering, instruction: Instruction, operation: str, kind: str) -> None:
    double = f"{kind[0]}{2 * TYPE_BITS[kind]}"
    operands = instruction.operands
    sources = [lowering.source(o, kind) for o in operands[1:3]]
    sources += [lowering.source(o, double) for o in operands[3:]]
    key = f"{operation}.{'s' if kind[0] == 's' else 'u'}{TYPE_BITS[kind]}"
    lowering.vector(key, lowering.target(operands[0], double), *sources)


@handles("mad", "madc")
def mad(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    modifiers, kind = parts[1:-1], parts[-1]
    if kind in FLOATS:
        _float(lowering, instruction, "fma", modifiers, kind)
    elif modifiers == ["wide"]:
        _wide(lowering, instruction, "mad.wide", kind)
    elif modifiers == ["lo"] and parts[0] == "mad":
        three(lowering, instruction, integer_key("mad.lo", kind, False), kind)
    else:
        # The other forms are a multiplication and an addition, with the carry flag where asked for.
        half = modifiers[0]
        operands = instruction.operands
        a, b, c = (lowering.source(o, kind) for o in operands[1:4])
        product = lowering.temporary(TYPE_BITS[kind])
        lowering.vector(integer_key(f"mul.{half}", kind, half == "hi"), product, a, b)
        name = "addc" if parts[0] == "madc" else "add"
        if "cc" in modifiers:
            name += ".cc"
        elif len(modifiers) > 1:
            raise Unsupported
        key = f"{name}.i{TYPE_BITS[kind]}"
        lowering.vector(key, lowering.target(operands[0], kind), product, c, extra=(CARRY_SLOT, CARRY_SLOT))


@handles("fma")
def fma(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    _float(lowering, instruction, "fma", parts[1:-1], parts[-1])


@handles("mul24", "mad24")
def mul24(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    three(lowering, instruction, ".".join(parts), parts[-1])


@handles("div")
def div(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    modifiers, kind = parts[1:-1], parts[-1]
    if kind in FLOATS:
        # The approximate forms are computed exactly rounded: well inside their 2 ulp.
        exact = [m for m in modifiers if m not in ("approx", "full")]
        _float(lowering, instruction, "div", exact, kind)
    else:
        three(lowering, instruction, integer_key("div", kind, True), kind)


@handles("rem", "sad")
def signed_operation(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    three(lowering, instruction, integer_key(parts[0], parts[-1], True), parts[-1])


@handles("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def function(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operation, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if kind in SMALL:
        modifiers = [m for m in modifiers if m != "ftz"] if kind.startswith("bf16") else modifiers
    three(lowering, instruction, key_of(operation, modifiers, (*ROUNDINGS, "approx", "ftz"), kind), kind)


@handles("min", "max")
def choose(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operation, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if len(instruction.operands) != 3:
        raise Unsupported
    if kind in FLOATS:
        if "abs" in modifiers:
            modifiers = [m for m in modifiers if m != "abs"]
        three(lowering, instruction, key_of(operation, modifiers, ("ftz", "NaN", "xorsign"), kind), kind)
    elif modifiers:
        raise Unsupported
    elif kind in ("u16x2", "s16x2"):
        three(lowering, instruction, f"{operation}.{kind}", kind)
    else:
        three(lowering, instruction, integer_key(operation, kind, True), kind)


@handles("neg", "abs")
def sign(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operation, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if kind in FLOATS:
        three(lowering, instruction, key_of(operation, modifiers, ("ftz",), kind), kind)
    else:
        three(lowering, instruction, integer_key(operation, kind, False), kind)


@handles("and", "or", "xor", "not", "cnot")
def logic(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind = parts[-1]
    if kind == "pred":
        three(lowering, instruction, f"{parts[0]}.pred", kind)
    else:
        three(lowering, instruction, integer_key(parts[0], kind, False), kind)


@handles("shl", "shr")
def shift(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind, operands = parts[-1], instruction.operands
    key = integer_key(parts[0], kind, parts[0] == "shr")
    value, amount = lowering.source(operands[1], kind), lowering.source(operands[2], "u32")
    lowering.vector(key, lowering.target(operands[0], kind), value, amount)


@handles("popc", "clz", "bfind")
def count_bits(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind, operands = parts[-1], instruction.operands
    lowering.vector(".".join(parts), lowering.target(operands[0], "u32"), lowering.source(operands[1], kind))


@handles("brev", "testp", "copysign", "dp4a", "dp2a", "prmt", "shf", "bmsk")
def by_name(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands, root = instruction.operands, parts[0]
    if root == "testp":
        lowering.vector(".".join(parts), lowering.target(operands[0], "pred"), lowering.source(operands[1], parts[-1]))
        return
    key = ".".join(parts)
    kind = "b32" if root in ("prmt", "shf", "dp4a", "dp2a", "bmsk") else parts[-1]
    three(lowering, instruction, key, kind)


@handles("bfe", "bfi")
def bit_field(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind, operands = parts[-1], instruction.operands
    if parts[0] == "bfe":
        sources = [lowering.source(o, k) for o, k in zip(operands[1:], (kind, "u32", "u32"), strict=True)]
        lowering.vector(".".join(parts), lowering.target(operands[0], kind), *sources)
    else:
        a, b, c, d = (lowering.source(o, k) for o, k in zip(operands[1:], (kind, kind, "u32", "u32"), strict=True))
        lowering.vector(".".join(parts), lowering.target(operands[0], kind), a, b, c, extra=(d,))


@handles("lop3")
def lookup(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands = instruction.operands
    if parts != ["lop3", "b32"] or not isinstance(operands[4], Immediate):
        raise Unsupported
    sources = [lowering.source(o, "b32") for o in operands[1:4]]
    lowering.vector("lop3.b32", lowering.target(operands[0], "b32"), *sources, imm=operands[4].value)


# Comparisons and selections


def _comparison(lowering: Lowering, parts: list[str], a: Operand, b: Operand, result: int) -> None:
    """Emit the plain comparison of a setp or set into predicate `result`."""
    condition, kind = parts[0], parts[-1]
    sources = lowering.source(a, kind), lowering.source(b, kind)
    if kind in FLOATS:
        if kind.endswith("x2"):
            raise Unsupported
        ftz = ["ftz"] if "ftz" in parts and kind == "f32" else []
        key = ".".join(["setp", condition, *ftz, kind])
    elif condition in ("eq", "ne"):
        key = f"setp.{condition}.i{TYPE_BITS[kind]}"
    else:
        letter = "s" if kind[0] == "s" and condition in ("lt", "le", "gt", "ge") else "u"
        key = f"setp.{SIGNED_COMPARE[condition]}.{letter}{TYPE_BITS[kind]}"
    lowering.vector(key, result, *sources)


def _combined(lowering: Lowering, parts: list[str], operands: tuple[Operand, ...]) -> tuple[int, str]:
    """Emit a comparison, and its combination with a predicate; returns the plain result and the combining key."""
    plain = lowering.temporary(1)
    _comparison(lowering, parts, operands[1], operands[2], plain)
    combine = next((m for m in parts[1:-1] if m in ("and", "or", "xor")), "")
    return plain, combine


@handles("setp")
def set_predicate(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands = instruction.operands
    if parts[-1] in ("f16x2", "bf16x2"):
        _set_two(lowering, instruction, parts)
        return
    first = operands[0].first if isinstance(operands[0], Pair) else operands[0]
    if len(operands) == 3 and not isinstance(operands[0], Pair):
        _comparison(lowering, parts[1:], operands[1], operands[2], lowering.target(first, "pred"))
        return
    plain, combine = _combined(lowering, parts[1:], operands)
    other = lowering.source(operands[3], "pred") if combine else 0
    results = [(first, plain)]
    if isinstance(operands[0], Pair):
        inverted = lowering.temporary(1)
        lowering.vector("not.pred", inverted, plain)
        results.append((operands[0].second, inverted))
    values = []
    for destination, value in results:
        if combine:
            # Both results are made before either destination is written: one of them may be the source predicate.
            combined = lowering.temporary(1)
            lowering.vector(f"{combine}.pred", combined, value, other)
            value = combined
        values.append((destination, value))
    for destination, value in values:
        lowering.vector("mov.pred", lowering.target(destination, "pred"), value)


def _set_two(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """setp on a packed pair: p for the low half, q for the high half."""
    operands, kind = instruction.operands, parts[-1]
    if len(operands) != 3 or not isinstance(operands[0], Pair):
        raise Unsupported
    sources = [lowering.source(o, kind) for o in operands[1:]]
    second = lowering.target(operands[0].second, "pred")
    lowering.vector(f"setp.{parts[1]}.{kind}", lowering.target(operands[0].first, "pred"), *sources, extra=(second,))


@handles("set")
def set_register(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """set.cond{.bool}.dtype.stype: all ones or 1.0 where the comparison holds, else zero."""
    operands, result_kind, kind = instruction.operands, parts[-2], parts[-1]
    pairs = kind in ("f16x2", "bf16x2")
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C003C00, "bf16x2": 0x3F803F80}
    if pairs:
        low, high = lowering.temporary(1), lowering.temporary(1)
        sources = [lowering.source(o, kind) for o in operands[1:3]]
        condition = next(m for m in parts[1:-2] if m != "ftz")
        lowering.vector(f"setp.{condition}.{kind}", low, *sources, extra=(high,))
        one = (ones.get(result_kind, 0xFFFF)) & 0xFFFF
        halves = []
        for predicate in (low, high):
            half = lowering.temporary(16)
            yes, no = lowering.constant(16, one), lowering.constant(16, 0)
            lowering.vector("selp.i16", half, yes, no, extra=(predicate,))
            halves.append(half)
        lowering.vector("pack.i16", lowering.target(operands[0], result_kind), *halves)
        return
    plain, combine = _combined(lowering, [*parts[1:-2], kind], operands)
    if combine:
        lowering.vector(f"{combine}.pred", plain, plain, lowering.source(operands[3], "pred"))
    width = TYPE_BITS[result_kind]
    yes = lowering.constant(width, ones.get(result_kind, -1))
    no = lowering.constant(width, 0)
    lowering.vector(f"selp.i{width}", lowering.target(operands[0], result_kind), yes, no, extra=(plain,))


@handles("selp")
def select(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands, kind = instruction.operands, parts[-1]
    a, b = (lowering.source(o, kind) for o in operands[1:3])
    predicate = lowering.source(operands[3], "pred")
    lowering.vector(f"selp.i{TYPE_BITS[kind]}", lowering.target(operands[0], kind), a, b, extra=(predicate,))


@handles("slct")
def select_by_sign(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands, kind, sign_kind = instruction.operands, parts[-2], parts[-1]
    positive = lowering.temporary(1)
    flags = ["ftz"] if "ftz" in parts else []
    _comparison(lowering, ["ge", *flags, sign_kind], operands[3], Immediate(0), positive)
    a, b = (lowering.source(o, kind) for o in operands[1:3])
    lowering.vector(f"selp.i{TYPE_BITS[kind]}", lowering.target(operands[0], kind), a, b, extra=(positive,))


# Moves

CLOCKS = {"clock": 32, "clock64": 64, "clock_hi": 32, "globaltimer": 64, "globaltimer_lo": 32, "globaltimer_hi": 32}


@handles("mov")
def mov(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind = parts[-1]
    destination, value = instruction.operands
    if kind == "pred":
        lowering.vector("mov.pred", lowering.target(destination, "pred"), lowering.source(value, "pred"))
    elif isinstance(value, Group) and isinstance(destination, Group):
        raise Unsupported
    elif isinstance(value, Group):
        pack(lowering, value.items, lowering.target(destination, kind), TYPE_BITS[kind])
    elif isinstance(destination, Group):
        unpack(lowering, destination.items, lowering.source(value, kind), TYPE_BITS[kind])
    elif isinstance(value, Special) and value.name in CLOCKS:
        width = CLOCKS[value.name]
        which = 1 if value.name.endswith("_hi") else 0
        place = lowering.target(destination, f"b{width}")
        lowering.emit(make_record(OP_SPECIAL, place, extra=(which, width)))
    else:
        place = lowering.target(destination, kind)
        lowering.vector(f"mov.i{TYPE_BITS[kind]}", place, lowering.source(value, kind))


def pack(lowering: Lowering, items: tuple[Operand, ...], place: int, width: int) -> None:
    """Join equal parts, lowest first, into one register of `width` bits."""
    part = width // len(items)
    if part < 16:
        raise Unsupported
    rows = [lowering.source(i, f"b{part}") for i in items]
    while len(rows) > 1:
        joined = []
        for low, high in zip(rows[::2], rows[1::2], strict=True):
            row = place if len(rows) == 2 else lowering.temporary(2 * part)
            lowering.vector(f"pack.i{part}", row, low, high)
            joined.append(row)
        rows, part = joined, 2 * part


def unpack(lowering: Lowering, items: tuple[Operand, ...], value: int, width: int) -> None:
    """Take a register of `width` bits apart, lowest part first."""
    rows, part = [value], width
    while len(rows) < len(items):
        part //= 2
        last = 2 * len(rows) == len(items)
        if part < 16:
            raise Unsupported
        halves = []
        for row in rows:
            for name in ("low", "high"):
                position = len(halves)
                if last and isinstance(items[position], Sink):
                    halves.append(-1)
                    continue
                place = lowering.temporary(part)
                lowering.vector(f"{name}.i{part}", place, row)
                halves.append(place)
        rows = halves
    for item, row in zip(items, rows, strict=True):
        if not isinstance(item, Sink):
            # Through temporaries: the value may be one of the destinations.
            lowering.vector(f"mov.i{part}", lowering.target(item, f"b{part}"), row)


