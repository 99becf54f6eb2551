"""Emitters of comparisons, selections and moves."""

from __future__ import annotations

from warplab.emulator.core.state.layout import OP_SPECIAL
from warplab.emulator.lowering.arithmetic import FLOATS
from warplab.emulator.lowering.lowering import Lowering, Unsupported, bits_of
from warplab.emulator.program import make_record
from warplab.isa.syntax import Group, Immediate, Instruction, Operand, Pair, Sink, Special

SIGNED_COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


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
        key = f"setp.{condition}.i{bits_of(kind)}"
    else:
        letter = "s" if kind[0] == "s" and condition in ("lt", "le", "gt", "ge") else "u"
        key = f"setp.{SIGNED_COMPARE[condition]}.{letter}{bits_of(kind)}"
    lowering.vector(key, result, *sources)


def _combined(lowering: Lowering, parts: list[str], operands: tuple[Operand, ...]) -> tuple[int, str]:
    """Emit a comparison, and its combination with a predicate; returns the plain result and the combining key."""
    plain = lowering.temporary(1)
    _comparison(lowering, parts, operands[1], operands[2], plain)
    combine = next((m for m in parts[1:-1] if m in ("and", "or", "xor")), "")
    return plain, combine


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
    width = bits_of(result_kind)
    yes = lowering.constant(width, ones.get(result_kind, -1))
    no = lowering.constant(width, 0)
    lowering.vector(f"selp.i{width}", lowering.target(operands[0], result_kind), yes, no, extra=(plain,))


def select(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands, kind = instruction.operands, parts[-1]
    a, b = (lowering.source(o, kind) for o in operands[1:3])
    predicate = lowering.source(operands[3], "pred")
    lowering.vector(f"selp.i{bits_of(kind)}", lowering.target(operands[0], kind), a, b, extra=(predicate,))


def select_by_sign(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands, kind, sign_kind = instruction.operands, parts[-2], parts[-1]
    positive = lowering.temporary(1)
    flags = ["ftz"] if "ftz" in parts else []
    _comparison(lowering, ["ge", *flags, sign_kind], operands[3], Immediate(0), positive)
    a, b = (lowering.source(o, kind) for o in operands[1:3])
    lowering.vector(f"selp.i{bits_of(kind)}", lowering.target(operands[0], kind), a, b, extra=(positive,))


CLOCKS = {"clock": 32, "clock64": 64, "clock_hi": 32, "globaltimer": 64, "globaltimer_lo": 32, "globaltimer_hi": 32}


def mov(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind = parts[-1]
    destination, value = instruction.operands
    if kind == "pred":
        lowering.vector("mov.pred", lowering.target(destination, "pred"), lowering.source(value, "pred"))
    elif isinstance(value, Group) and isinstance(destination, Group):
        raise Unsupported
    elif isinstance(value, Group):
        pack(lowering, value.items, lowering.target(destination, kind), bits_of(kind))
    elif isinstance(destination, Group):
        unpack(lowering, destination.items, lowering.source(value, kind), bits_of(kind))
    elif isinstance(value, Special) and value.name in CLOCKS:
        width = CLOCKS[value.name]
        which = 1 if value.name.endswith("_hi") else 0
        place = lowering.target(destination, f"b{width}")
        lowering.emit(make_record(OP_SPECIAL, place, extra=(which, width)))
    else:
        place = lowering.target(destination, kind)
        lowering.vector(f"mov.i{bits_of(kind)}", place, lowering.source(value, kind))


def pack(lowering: Lowering, items: tuple[Operand, ...], place: int, width: int) -> None:
    """Join equal parts, lowest first, into one register of `width` bits."""
    part = width // len(items)
    if part < 8:
        raise Unsupported
    rows = [lowering.source(i, f"b{part}") for i in items]
    if part == 8:
        rows, part = [_join_bytes(lowering, *pair) for pair in zip(rows[::2], rows[1::2], strict=True)], 16
        if len(rows) == 1:
            lowering.vector("mov.i16", place, rows[0])
    while len(rows) > 1:
        joined = []
        for low, high in zip(rows[::2], rows[1::2], strict=True):
            row = place if len(rows) == 2 else lowering.temporary(2 * part)
            lowering.vector(f"pack.i{part}", row, low, high)
            joined.append(row)
        rows, part = joined, 2 * part


def _join_bytes(lowering: Lowering, low: int, high: int) -> int:
    """Two bytes, each in a 16-bit row whose upper half is undefined, as one 16-bit value."""
    kept, moved, joined = (lowering.temporary(16) for _ in range(3))
    lowering.vector("zext_low.8.16", kept, low)
    lowering.vector("shl.i16", moved, high, lowering.constant(32, 8))
    lowering.vector("or.i16", joined, kept, moved)
    return joined


def unpack(lowering: Lowering, items: tuple[Operand, ...], value: int, width: int) -> None:
    """Take a register of `width` bits apart, lowest part first."""
    rows, part = [value], width
    while len(rows) < len(items):
        part //= 2
        last = 2 * len(rows) == len(items)
        if part < 8:
            raise Unsupported
        halves: list[int] = []
        for row in rows:
            for name in ("low", "high"):
                position = len(halves)
                if last and isinstance(items[position], Sink):
                    halves.append(-1)
                    continue
                place = lowering.temporary(max(part, 16))
                if part == 8 and name == "low":
                    lowering.vector("zext_low.8.16", place, row)
                elif part == 8:
                    lowering.vector("shr.u16", place, row, lowering.constant(32, 8))
                else:
                    lowering.vector(f"{name}.i{part}", place, row)
                halves.append(place)
        rows = halves
    for item, row in zip(items, rows, strict=True):
        if not isinstance(item, Sink):
            # Through temporaries: the value may be one of the destinations.
            lowering.vector(f"mov.i{max(part, 16)}", lowering.target(item, f"b{part}"), row)
