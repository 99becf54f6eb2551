"""The emitter of cvt."""

from __future__ import annotations

from warplab.emulator.lowering.lowering import Lowering, Unsupported, bits_of
from warplab.isa.syntax import Group, Immediate, Instruction, Operand, Register

FLOATS = ("f16", "bf16", "f32", "f64")
ROUNDINGS = ("rn", "rz", "rm", "rp")
NARROW_QUADS = ("e4m3x4", "e5m2x4", "e2m1x4", "e2m3x4", "e3m2x4")
NARROW_PAIRS = ("e4m3x2", "e5m2x2", "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2")
INTEGER_ROUNDINGS = ("rni", "rzi", "rmi", "rpi")


def convert(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    modifiers, target, source = parts[1:-2], parts[-2], parts[-1]
    operands = instruction.operands
    if "rs" in modifiers:
        _by_chance(lowering, instruction, modifiers, target, source)
    elif parts[1:3] == ["pack", "sat"]:
        _packed(lowering, instruction, parts)
    elif source in NARROW_PAIRS or target in NARROW_PAIRS:
        _narrow_pairs(lowering, operands, modifiers, target, source)
    elif target in ("f16x2", "bf16x2"):
        a, b = (lowering.source(o, "f32") for o in operands[1:])
        key = ".".join(["cvt", *_ordered(modifiers, (*ROUNDINGS, "relu", "satfinite")), target, source])
        lowering.vector(key, lowering.target(operands[0], target), a, b)
    elif target == "tf32":
        key = ".".join(["cvt", *_ordered(modifiers, ("rna", "rn", "rz", "relu", "satfinite")), target, source])
        lowering.vector(key, lowering.target(operands[0], "b32"), lowering.source(operands[1], source))
    elif source in FLOATS and target in FLOATS:
        _between_floats(lowering, operands, modifiers, target, source)
    elif source in FLOATS:
        _to_integer(lowering, operands, modifiers, target, source)
    elif target in FLOATS:
        _from_integer(lowering, operands, modifiers, target, source)
    else:
        _between_integers(lowering, operands, modifiers, target, source)


def _narrow_pairs(
    lowering: Lowering, operands: tuple[Operand, ...], modifiers: list[str], target: str, source: str
) -> None:
    """Pairs of floats of 8 bits and less, in registers of 16 bits, or of 8 for e2m1."""
    key = ".".join(["cvt", *_ordered(modifiers, ("rn", "rz", "rp", "satfinite", "relu")), target, source])
    if len(operands) != (3 if source == "f32" else 2):
        raise Unsupported
    sources = [lowering.source(o, f"b{bits_of(source)}") for o in operands[1:]]
    lowering.vector(key, lowering.target(operands[0], f"b{bits_of(target)}"), *sources)


def _by_chance(lowering: Lowering, instruction: Instruction, modifiers: list[str], target: str, source: str) -> None:
    """cvt.rs: two floats, or four narrow ones, are rounded by random bits, the last operand."""
    place, *values, random = instruction.operands
    key = ".".join(["cvt", *_ordered(modifiers, ("rs", "relu", "satfinite")), target, source])
    bits = lowering.source(random, "b32")
    if target in ("f16x2", "bf16x2"):
        a, b = (lowering.source(o, "f32") for o in values)
        lowering.vector(key, lowering.target(place, target), a, b, bits)
        return
    if target not in NARROW_QUADS or source != "f32" or len(values) != 1 or not isinstance(values[0], Group):
        raise Unsupported
    a, b, e, f = (lowering.source(o, "f32") for o in values[0].items)
    key = ".".join(["cvt.rs.satfinite", *(m for m in modifiers if m == "relu"), f"{target[:-1]}2", source])
    upper, lower = _halves_of_bits(lowering, bits, by_bytes=target == "e2m1x4")
    high, low = lowering.temporary(16), lowering.temporary(16)
    lowering.vector(key, high, a, b, upper)
    lowering.vector(key, low, e, f, lower)
    if bits_of(target) == 16:
        moved = lowering.temporary(16)
        lowering.vector("shl.i16", moved, high, lowering.constant(32, 8))
        lowering.vector("or.i16", lowering.target(place, "b16"), moved, low)
    else:
        lowering.vector("pack.i16", lowering.target(place, "b32"), low, high)


def _halves_of_bits(lowering: Lowering, bits: int, by_bytes: bool) -> tuple[int, int]:
    """The random bits of the first two and of the last two of four numbers, in the lower halves of words: those of
    e2m1x4 are the upper and the lower bytes of both halves."""
    if by_bytes:
        zero = lowering.constant(32, 0)
        rows = []
        for selector in (0x4431, 0x4420):
            rows.append(lowering.temporary(32))
            lowering.vector("prmt.b32", rows[-1], bits, zero, lowering.constant(32, selector))
        return rows[0], rows[1]
    upper = lowering.temporary(32)
    lowering.vector("shr.u32", upper, bits, lowering.constant(32, 16))
    return upper, bits


def _packed(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """cvt.pack.sat: two 32-bit integers saturated to 8 or 16 bits side by side, over the upper part of a third."""
    kind, operands = parts[3], instruction.operands
    bits = bits_of(kind)
    if parts[4] != "s32" or parts[5:] not in (["b32"], []) or (bits == 8) != (len(parts) == 6) or bits not in (8, 16):
        raise Unsupported
    result = lowering.temporary(32)
    if bits == 8:
        lowering.vector("shl.i32", result, lowering.source(operands[3], "b32"), lowering.constant(32, 16))
    else:
        lowering.vector("mov.i32", result, lowering.constant(32, 0))
    for operand, place in ((operands[1], bits), (operands[2], 0)):
        clamped = lowering.temporary(32)
        lowering.vector(f"sat.s32.{kind[0]}{bits}", clamped, lowering.source(operand, "s32"))
        where, length = lowering.constant(32, place), lowering.constant(32, bits)
        joined = lowering.temporary(32)
        lowering.vector("bfi.b32", joined, clamped, result, where, extra=(length,))
        result = joined
    lowering.vector("mov.i32", lowering.target(operands[0], "b32"), result)


def _ordered(modifiers: list[str], order: tuple[str, ...]) -> list[str]:
    if any(m not in order for m in modifiers):
        raise Unsupported
    return [m for m in order if m in modifiers]


def _float_source(lowering: Lowering, operand: Operand, kind: str) -> int:
    """A float source; the register may be wider than the type."""
    width = bits_of(kind)
    if isinstance(operand, Register) and lowering.width(operand) > width:
        narrow = lowering.temporary(width)
        place = lowering.instance.place(operand.index)
        lowering.vector(f"trunc.{lowering.width(operand)}.{width}", narrow, place)
        return narrow
    return lowering.source(operand, kind)


def _between_floats(
    lowering: Lowering, operands: tuple[Operand, ...], modifiers: list[str], target: str, source: str
) -> None:
    order = (*ROUNDINGS, *INTEGER_ROUNDINGS, "ftz", "sat", "relu", "satfinite")
    ordered = _ordered(modifiers, order)
    if target == source and any(m in ROUNDINGS for m in ordered):
        ordered = [m for m in ordered if m not in ROUNDINGS]
    key = ".".join(["cvt", *ordered, target, source])
    value = _float_source(lowering, operands[1], source)
    _write(lowering, operands[0], target, lambda place: lowering.vector(key, place, value), bits_of(target), False)


def _write(lowering: Lowering, operand: Operand, kind: str, produce, width: int, signed: bool) -> None:
    """Let `produce` make a value of `width` bits, then fit it to the destination register, which may be wider."""
    actual = lowering.width(operand) if isinstance(operand, Register) else bits_of(kind)
    actual = max(actual, 16)
    if actual == width:
        assert isinstance(operand, Register)
        produce(lowering.instance.place(operand.index))
        return
    value = lowering.temporary(width)
    produce(value)
    assert isinstance(operand, Register)
    verb = "trunc" if actual < width else "sext" if signed else "zext"
    lowering.vector(f"{verb}.{width}.{actual}", lowering.instance.place(operand.index), value)


def _to_integer(
    lowering: Lowering, operands: tuple[Operand, ...], modifiers: list[str], target: str, source: str
) -> None:
    # Out-of-range values saturate with and without .sat.
    ordered = _ordered(modifiers, (*INTEGER_ROUNDINGS, "ftz", "sat"))
    ordered = [m for m in ordered if m != "sat" and not (m == "ftz" and source != "f32")]
    key = ".".join(["cvt", *ordered, target, source])
    value = _float_source(lowering, operands[1], source)
    width = max(bits_of(target), 32)
    _write(lowering, operands[0], target, lambda place: lowering.vector(key, place, value), width, target[0] == "s")


def integer_source(lowering: Lowering, operand: Operand, kind: str, width: int) -> int:
    """An integer of type `kind`, from a register that may be wider, extended to lanes of `width` bits."""
    bits, signed = bits_of(kind), kind[0] == "s"
    if isinstance(operand, Immediate):
        value = operand.value & ((1 << bits) - 1)
        if signed and value >> (bits - 1):
            value -= 1 << bits
        return lowering.constant(width, value)
    if isinstance(operand, Register):
        place, actual = lowering.instance.place(operand.index), max(lowering.width(operand), 16)
    else:
        actual = max(bits, 16)
        place = lowering.source(operand, f"b{actual}")
    verb = "sext" if signed else "zext"
    if width < actual:
        smaller = lowering.temporary(width)
        lowering.vector(f"trunc.{actual}.{width}", smaller, place)
        place, actual = smaller, width
    if bits < actual:
        extended = lowering.temporary(actual)
        lowering.vector(f"{verb}_low.{bits}.{actual}", extended, place)
        place = extended
    if actual < width:
        wider = lowering.temporary(width)
        lowering.vector(f"{verb}.{actual}.{width}", wider, place)
        place = wider
    return place


def _from_integer(
    lowering: Lowering, operands: tuple[Operand, ...], modifiers: list[str], target: str, source: str
) -> None:
    width = max(bits_of(source), 32)
    value = integer_source(lowering, operands[1], source, width)
    ordered = _ordered(modifiers, (*ROUNDINGS, "sat"))
    rounding = next((m for m in ordered if m in ROUNDINGS), "rn")
    key = f"cvt.{rounding}.{target}.{source[0]}{width}"
    size = bits_of(target)
    _write(lowering, operands[0], target, lambda place: lowering.vector(key, place, value), size, False)
    if "sat" in ordered:
        place = lowering.target(operands[0], target)
        lowering.vector(f"cvt.sat.{target}.{target}", place, place)


def _between_integers(
    lowering: Lowering, operands: tuple[Operand, ...], modifiers: list[str], target: str, source: str
) -> None:
    if modifiers not in ([], ["sat"]):
        raise Unsupported
    destination, operand = operands
    if not isinstance(destination, Register):
        raise Unsupported
    bits_in, bits_out = bits_of(source), bits_of(target)
    actual = max(lowering.width(destination), 16)
    place = lowering.instance.place(destination.index)
    if modifiers:
        width = max(bits_in, bits_out, 32)
        value = integer_source(lowering, operand, source, width)
        clamped = lowering.temporary(width)
        lowering.vector(f"sat.{source[0]}{width}.{target[0]}{bits_out}", clamped, value)
    elif isinstance(operand, Register) and max(lowering.width(operand), 16) == bits_in and actual == bits_out:
        # The usual case in one step.
        if bits_in == bits_out:
            lowering.vector(f"mov.i{bits_out}", place, lowering.instance.place(operand.index))
        else:
            verb = "trunc" if bits_out < bits_in else "sext" if source[0] == "s" else "zext"
            lowering.vector(f"{verb}.{bits_in}.{bits_out}", place, lowering.instance.place(operand.index))
        return
    else:
        width = actual
        clamped = integer_source(lowering, operand, source, width)
    if bits_out < width:
        extended = lowering.temporary(width)
        lowering.vector(f"{'sext' if target[0] == 's' else 'zext'}_low.{bits_out}.{width}", extended, clamped)
        clamped = extended
    if actual == width:
        lowering.vector(f"mov.i{width}", place, clamped)
    else:
        verb = "trunc" if actual < width else "sext" if target[0] == "s" else "zext"
        lowering.vector(f"{verb}.{width}.{actual}", place, clamped)
