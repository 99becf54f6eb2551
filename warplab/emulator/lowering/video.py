"""Emitters of the video instructions: arithmetic on bytes and halves, composed of plain 32- and 64-bit operations.

Scalar ones (vadd, vsub, vabsdiff, vmin, vmax, vset) take a byte, a half or a word of each source; the results of SIMD
ones (vadd4, vabsdiff2 and so on) are made element by element. GPUs of today have no such units either: ptxas composes
them as well.
"""

from __future__ import annotations

from warplab.emulator.lowering.lowering import Lowering, Unsupported
from warplab.isa.syntax import Instruction

OPERATIONS = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vavrg")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _part(lowering: Lowering, row: int, start: int, bits: int, signed: bool) -> int:
    """Bits [start, start + bits) of 32-bit lanes, extended to 64."""
    wide = lowering.temporary(64)
    place = row
    if bits < 32:
        place = lowering.temporary(32)
        amounts = lowering.constant(32, start), lowering.constant(32, bits)
        lowering.vector(f"bfe.{'s' if signed else 'u'}32", place, row, *amounts)
    lowering.vector(f"{'sext' if signed else 'zext'}.32.64", wide, place)
    return wide


def _binary(lowering: Lowering, key: str, a: int, b: int) -> int:
    row = lowering.temporary(64)
    lowering.vector(key, row, a, b)
    return row


def _combine(lowering: Lowering, operation: str, condition: str, a: int, b: int) -> int:
    """The exact result of one element, as a 64-bit integer."""
    if operation in ("vadd", "vsub"):
        return _binary(lowering, f"{operation[1:]}.i64", a, b)
    if operation in ("vmin", "vmax"):
        return _binary(lowering, f"{operation[1:]}.s64", a, b)
    if operation == "vabsdiff":
        difference = _binary(lowering, "sub.i64", a, b)
        lowering.vector("abs.i64", difference, difference)
        return difference
    if operation == "vavrg":
        # Half of the sum, rounded up for a half; of a negative sum too (the shift rounds down).
        total = _binary(lowering, "add.i64", a, b)
        total = _binary(lowering, "add.i64", total, lowering.constant(64, 1))
        return _binary(lowering, "shr.s64", total, lowering.constant(32, 1))
    holds, row = lowering.temporary(1), lowering.temporary(64)
    key = f"setp.{condition}.{'i' if condition in ('eq', 'ne') else 's'}64"
    lowering.vector(key, holds, a, b)
    lowering.vector("selp.i64", row, lowering.constant(64, 1), lowering.constant(64, 0), extra=(holds,))
    return row


def _saturate(lowering: Lowering, row: int, kind: str, bits: int) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    row = _binary(lowering, "max.s64", row, lowering.constant(64, low))
    return _binary(lowering, "min.s64", row, lowering.constant(64, high))


def _narrow(lowering: Lowering, row: int) -> int:
    narrow = lowering.temporary(32)
    lowering.vector("trunc.64.32", narrow, row)
    return narrow


def _types(parts: list[str]) -> tuple[list[str], list[str]]:
    """Modifiers and the types of an instruction, which must be 32-bit integers."""
    types = [p for p in parts if p in ("u32", "s32")]
    return [p for p in parts if p not in types], types


def packed(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """vop{2,4}.dtype.atype.btype{.sat} d, a, b, c and the forms with .add, which sum all elements onto c."""
    operation, count = parts[0][:-1], int(parts[0][-1])
    modifiers, types = _types(parts[1:])
    conditions = [m for m in modifiers if m in _COMPARISONS]
    if operation == "vset" and len(conditions) == 1 and len(types) == 2:
        types = ["u32", *types]
    if len(types) != 3 or any(m not in ("sat", "add", *conditions) for m in modifiers):
        raise Unsupported
    if (operation == "vset") != bool(conditions) or "sat" in modifiers and "add" in modifiers:
        raise Unsupported
    operands = instruction.operands
    if len(operands) not in (3, 4):
        raise Unsupported
    a, b = (lowering.source(o, "b32") for o in operands[1:3])
    c = lowering.source(operands[3], "b32") if len(operands) == 4 else lowering.constant(32, 0)
    bits = 32 // count
    result = c if "add" in modifiers else lowering.constant(32, 0)
    for element in range(count):
        x = _part(lowering, a, bits * element, bits, types[1] == "s32")
        y = _part(lowering, b, bits * element, bits, types[2] == "s32")
        value = _combine(lowering, operation, conditions[0] if conditions else "", x, y)
        if "sat" in modifiers:
            value = _saturate(lowering, value, types[0], bits)
        joined = lowering.temporary(32)
        if "add" in modifiers:
            lowering.vector("add.i32", joined, _narrow(lowering, value), result)
        else:
            place = lowering.constant(32, bits * element)
            lowering.vector(
                "bfi.b32", joined, _narrow(lowering, value), result, place, extra=(lowering.constant(32, bits),)
            )
        result = joined
    lowering.vector("mov.i32", lowering.target(operands[0], "b32"), result)


def scalar(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """vop.dtype.atype.btype{.sat}{.op2} d, a, b{, c}: whole words, with an optional second operation on c."""
    operation = parts[0]
    modifiers, types = _types(parts[1:])
    conditions = [m for m in modifiers if m in _COMPARISONS]
    seconds = [m for m in modifiers if m in ("add", "min", "max")]
    if operation == "vset" and len(conditions) == 1 and len(types) == 2:
        types = ["u32", *types]
    if len(types) != 3 or len(seconds) > 1 or any(m not in ("sat", *conditions, *seconds) for m in modifiers):
        raise Unsupported
    operands = instruction.operands
    if (operation == "vset") != bool(conditions) or len(operands) != 3 + len(seconds):
        raise Unsupported
    a, b = (
        _part(lowering, lowering.source(o, "b32"), 0, 32, kind == "s32")
        for o, kind in zip(operands[1:3], types[1:], strict=True)
    )
    value = _combine(lowering, operation, conditions[0] if conditions else "", a, b)
    if "sat" in modifiers:
        value = _saturate(lowering, value, types[0], 32)
    result = _narrow(lowering, value)
    if seconds:
        letter = "i" if seconds[0] == "add" else types[0][0]
        total = lowering.temporary(32)
        lowering.vector(f"{seconds[0]}.{letter}32", total, result, lowering.source(operands[3], "b32"))
        result = total
    lowering.vector("mov.i32", lowering.target(operands[0], "b32"), result)
