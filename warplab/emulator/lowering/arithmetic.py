"""Emitters of arithmetic and logic."""

from __future__ import annotations

from warplab.emulator.core.alu.floats import ROUNDING_CODES
from warplab.emulator.core.state.layout import CARRY_SLOT, IMM
from warplab.emulator.lowering.cluster import clears_peer_bit, leaders_address
from warplab.emulator.lowering.lowering import Lowering, Unsupported, bits_of
from warplab.emulator.lowering.rows import is_widening
from warplab.isa.syntax import Immediate, Instruction, Pair

FLOATS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
SMALL = ("f16", "bf16", "f16x2", "bf16x2")
_ONE_SOURCE = (
    "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "neg", "abs", "not", "cnot", "brev",
)  # fmt: skip
_OF_THREE = 4  # operands of a min or max of three
_THREE_SOURCES = ("fma", "mad", "mad24", "sad", "dp4a", "dp2a", "prmt", "shf")
ROUNDINGS = ("rn", "rz", "rm", "rp")


def integer_key(operation: str, kind: str, signed_matters: bool) -> str:
    """The table's key of an integer operation."""
    width = bits_of(kind)
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
    root = instruction.opcode.split(".")[0]
    if len(operands) - 1 != (1 if root in _ONE_SOURCE else 3 if root in _THREE_SOURCES else 2):
        raise Unsupported
    sources = [lowering.source(o, kind) for o in operands[1:]]
    lowering.vector(key, lowering.target(operands[0], kind), *sources)


def _with_rounding(modifiers: list[str]) -> list[str]:
    return modifiers if any(m in ROUNDINGS for m in modifiers) else ["rn", *modifiers]


def _float(lowering: Lowering, instruction: Instruction, operation: str, modifiers: list[str], kind: str) -> None:
    order = (*ROUNDINGS, "ftz", "sat", "relu")
    if kind == "f64" and modifiers in (["rz"], ["rm"], ["rp"]):
        three(lowering, instruction, f"{operation}.directed.f64", kind)
        lowering.records[-1].fields[IMM] = ROUNDING_CODES[modifiers[0]]
        return
    three(lowering, instruction, key_of(operation, _with_rounding(modifiers), order, kind), kind)


def add(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operation, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if modifiers == ["cc"]:
        carry(lowering, instruction, parts)
    elif kind in ("u16x2", "s16x2"):
        three(lowering, instruction, f"{operation}.{kind}", kind)
    elif modifiers == ["sat"]:
        three(lowering, instruction, f"{operation}.sat.{kind}", kind)
    elif modifiers:
        raise Unsupported
    else:
        three(lowering, instruction, integer_key(operation, kind, False), kind)


def carry(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    width = bits_of(parts[-1])
    operands = instruction.operands
    sources = [lowering.source(o, parts[-1]) for o in operands[1:]]
    key = ".".join(parts[:-1]) + f".i{width}"
    lowering.vector(key, lowering.target(operands[0], parts[-1]), *sources, extra=(CARRY_SLOT, CARRY_SLOT))


def multiply(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    modifiers, kind = parts[1:-1], parts[-1]
    if modifiers == ["wide"]:
        _wide(lowering, instruction, "mul.wide", kind)
    elif modifiers == ["lo"]:
        three(lowering, instruction, integer_key("mul.lo", kind, False), kind)
    elif modifiers == ["hi"]:
        three(lowering, instruction, integer_key("mul.hi", kind, True), kind)
    else:
        raise Unsupported


def _wide(lowering: Lowering, instruction: Instruction, operation: str, kind: str) -> None:
    double = f"{kind[0]}{2 * bits_of(kind)}"
    operands = instruction.operands
    sources = [lowering.source(o, kind) for o in operands[1:3]]
    sources += [lowering.source(o, double) for o in operands[3:]]
    key = f"{operation}.{'s' if kind[0] == 's' else 'u'}{bits_of(kind)}"
    lowering.vector(key, lowering.target(operands[0], double), *sources)


def multiply_add(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    modifiers, kind = parts[1:-1], parts[-1]
    if modifiers == ["wide"]:
        _wide(lowering, instruction, "mad.wide", kind)
    elif modifiers == ["lo"] and parts[0] == "mad":
        three(lowering, instruction, integer_key("mad.lo", kind, False), kind)
    else:
        # The other forms are a multiplication and an addition, with the carry flag where asked for.
        half = modifiers[0]
        operands = instruction.operands
        a, b, c = (lowering.source(o, kind) for o in operands[1:4])
        product = lowering.temporary(bits_of(kind))
        lowering.vector(integer_key(f"mul.{half}", kind, half == "hi"), product, a, b)
        if parts == ["mad", "hi", "sat", "s32"]:
            lowering.vector("add.sat.s32", lowering.target(operands[0], kind), product, c)
            return
        name = "addc" if parts[0] == "madc" else "add"
        if "cc" in modifiers:
            name += ".cc"
        elif len(modifiers) > 1:
            raise Unsupported
        key = f"{name}.i{bits_of(kind)}"
        lowering.vector(key, lowering.target(operands[0], kind), product, c, extra=(CARRY_SLOT, CARRY_SLOT))


def of_24_bits(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands = instruction.operands
    if parts != ["mad24", "hi", "sat", "s32"]:
        three(lowering, instruction, ".".join(parts), parts[-1])
        return
    a, b, c = (lowering.source(o, "s32") for o in operands[1:4])
    product = lowering.temporary(32)
    lowering.vector("mul24.hi.s32", product, a, b)
    lowering.vector("add.sat.s32", lowering.target(operands[0], "s32"), product, c)


def signed_operation(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    three(lowering, instruction, integer_key(parts[0], parts[-1], True), parts[-1])


def _widened(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """add, sub and fma of f32 whose sources but the last are f16 or bf16."""
    operation, modifiers, kind = parts[0], parts[1:-2], parts[-1]
    destination, *sources, last = instruction.operands
    if len(sources) != (2 if operation == "fma" else 1):
        raise Unsupported
    key = key_of(operation, _with_rounding(modifiers), (*ROUNDINGS, "sat"), "f32")
    rows = [lowering.temporary(32) for _ in sources]
    for row, source in zip(rows, sources, strict=True):
        lowering.vector(f"cvt.f32.{kind}", row, lowering.source(source, kind))
    lowering.vector(key, lowering.target(destination, "f32"), *rows, lowering.source(last, "f32"))


def rounded(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """A sum, a difference or a product of floats."""
    if is_widening(parts) and parts[0] != "mul":
        _widened(lowering, instruction, parts)
        return
    _float(lowering, instruction, parts[0], parts[1:-1], parts[-1])


def fused(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """fma, and mad of floats, which is the same."""
    if is_widening(parts) and parts[0] == "fma":
        _widened(lowering, instruction, parts)
        return
    _float(lowering, instruction, "fma", parts[1:-1], parts[-1])


def pairs_of_floats(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """add, sub, mul or fma of two float32 in a 64-bit register: each half as the instruction of float32 has it."""
    operation, modifiers = parts[0], parts[1:-1]
    destination, *operands = instruction.operands
    rounds = any(m in ROUNDINGS for m in modifiers)
    if len(operands) != (3 if operation == "fma" else 2) or operation == "fma" and not rounds:
        raise Unsupported
    key = key_of(operation, _with_rounding(modifiers), (*ROUNDINGS, "ftz"), "f32")
    sources = [lowering.source(o, "b64") for o in operands]
    halves = []
    for half in ("low", "high"):
        rows = [lowering.temporary(32) for _ in sources]
        for row, source in zip(rows, sources, strict=True):
            lowering.vector(f"{half}.i32", row, source)
        halves.append(lowering.temporary(32))
        lowering.vector(key, halves[-1], *rows)
    lowering.vector("pack.i32", lowering.target(destination, "b64"), *halves)


def divide(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    # The approximate forms are computed exactly rounded: well inside their 2 ulp.
    exact = [m for m in parts[1:-1] if m not in ("approx", "full")]
    _float(lowering, instruction, "div", exact, parts[-1])


def function(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operation, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if kind == "f64" and modifiers in (["rz"], ["rm"], ["rp"]):
        _float(lowering, instruction, operation, modifiers, kind)
        return
    if kind in SMALL:
        modifiers = [m for m in modifiers if m != "ftz"] if kind.startswith("bf16") else modifiers
    three(lowering, instruction, key_of(operation, modifiers, (*ROUNDINGS, "approx", "ftz"), kind), kind)


def choose(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operation, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if len(instruction.operands) != 3:
        raise Unsupported
    if modifiers == ["relu"] and kind in ("s32", "s16x2"):
        chosen, zero = lowering.temporary(32), lowering.constant(32, 0)
        lowering.vector(f"{operation}.{kind}", chosen, *(lowering.source(o, kind) for o in instruction.operands[1:]))
        lowering.vector(f"max.{kind}", lowering.target(instruction.operands[0], kind), chosen, zero)
    elif modifiers:
        raise Unsupported
    elif kind in ("u16x2", "s16x2"):
        three(lowering, instruction, f"{operation}.{kind}", kind)
    else:
        three(lowering, instruction, integer_key(operation, kind, True), kind)


def choose_float(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    modifiers, kind, operands = [m for m in parts[1:-1] if m != "abs"], parts[-1], instruction.operands
    if len(operands) != _OF_THREE:
        if "abs" in parts and "xorsign" not in parts:
            raise Unsupported
        three(lowering, instruction, key_of(parts[0], modifiers, ("ftz", "NaN", "xorsign"), kind), kind)
        return
    key = key_of(parts[0], modifiers, ("ftz", "NaN"), kind)
    sources = [lowering.source(o, kind) for o in operands[1:]]
    if kind != "f32":
        raise Unsupported
    if "abs" in parts:
        sizes = [lowering.temporary(32) for _ in sources]
        for size, source in zip(sizes, sources, strict=True):
            lowering.vector("abs.f32", size, source)
        sources = sizes
    first = lowering.temporary(32)
    lowering.vector(key, first, *sources[:2])
    lowering.vector(key, lowering.target(operands[0], kind), first, sources[2])


def sign(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    three(lowering, instruction, integer_key(parts[0], parts[-1], False), parts[-1])


def sign_of_float(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    three(lowering, instruction, key_of(parts[0], parts[1:-1], ("ftz",), parts[-1]), parts[-1])


def logic(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind = parts[-1]
    if kind == "pred":
        three(lowering, instruction, f"{parts[0]}.pred", kind)
    elif parts == ["and", "b32"] and clears_peer_bit(lowering, instruction):
        leaders_address(lowering, instruction)
    else:
        three(lowering, instruction, integer_key(parts[0], kind, False), kind)


def shift(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind, operands = parts[-1], instruction.operands
    key = integer_key(parts[0], kind, parts[0] == "shr")
    value, amount = lowering.source(operands[1], kind), lowering.source(operands[2], "u32")
    lowering.vector(key, lowering.target(operands[0], kind), value, amount)


def count_bits(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind, operands = parts[-1], instruction.operands
    lowering.vector(".".join(parts), lowering.target(operands[0], "u32"), lowering.source(operands[1], kind))


def nth_bit(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, *sources = instruction.operands
    rows = [lowering.source(o, "b32") for o in sources]
    lowering.vector(".".join(parts), lowering.target(destination, "b32"), *rows)


def by_name(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """An instruction that the table of operations has under its own opcode."""
    three(lowering, instruction, ".".join(parts), parts[-1])


def of_words(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """The same where all operands are words, whatever the types in the opcode."""
    three(lowering, instruction, ".".join(parts), "b32")


def has_property(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, value = instruction.operands
    lowering.vector(".".join(parts), lowering.target(destination, "pred"), lowering.source(value, parts[-1]))


def bit_field(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    kind, operands = parts[-1], instruction.operands
    if parts[0] == "bfe":
        sources = [lowering.source(o, k) for o, k in zip(operands[1:], (kind, "u32", "u32"), strict=True)]
        lowering.vector(".".join(parts), lowering.target(operands[0], kind), *sources)
    else:
        a, b, c, d = (lowering.source(o, k) for o, k in zip(operands[1:], (kind, kind, "u32", "u32"), strict=True))
        lowering.vector(".".join(parts), lowering.target(operands[0], kind), a, b, c, extra=(d,))


def lookup(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """The form with .and or .or also combines whether the result is not zero with a predicate."""
    operands, combine = instruction.operands, parts[1:-1]
    if combine not in ([], ["and"], ["or"]) or parts[-1] != "b32" or not isinstance(operands[4], Immediate):
        raise Unsupported
    sources = [lowering.source(o, "b32") for o in operands[1:4]]
    if not combine:
        lowering.vector("lop3.b32", lowering.target(operands[0], "b32"), *sources, imm=operands[4].value)
        return
    if not isinstance(operands[0], Pair):
        raise Unsupported
    value, holds = lowering.temporary(32), lowering.temporary(1)
    lowering.vector("lop3.b32", value, *sources, imm=operands[4].value)
    lowering.vector("setp.ne.i32", holds, value, lowering.constant(32, 0))
    lowering.vector(
        f"{combine[0]}.pred", lowering.target(operands[0].second, "pred"), holds, lowering.source(operands[5], "pred")
    )
    lowering.vector("mov.i32", lowering.target(operands[0].first, "b32"), value)
