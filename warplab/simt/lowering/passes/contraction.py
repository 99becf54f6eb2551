"""Fuses multiplications with the additions that follow them, as ptxas does.

PTX lets the assembler contract a `mul` and an `add` or `sub` into one `fma` where neither names a rounding mode (PTX
ISA, add.f32, rounding modifiers); with its default flags ptxas does so, and the result is rounded once, not twice.
NVRTC leaves some such pairs apart, for example `x - y * z`. Seen on an H200: without this pass a fifth of such
results differ from the hardware's in the last place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from warplab.isa.syntax import (
    TYPE_BITS,
    Function,
    Group,
    Instruction,
    Label,
    Operand,
    Pair,
    Register,
    registers_of,
)

_KINDS = {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"}
_ENDS = {"bra", "brx", "call", "ret", "exit", "bar", "barrier"}


def contract(function: Function) -> None:
    """Fuse the pairs of a function in place: a product that only one addition, in the same basic block, uses.

    Compilers name every value anew; where a person wrote the addition's result over the product, its uses end there.
    """
    uses = Counter(register for item in function.body if isinstance(item, Instruction) for register in _reads(item))
    body: list[Instruction | Label | None] = []
    products: dict[int, tuple[int, Instruction]] = {}  # by register: where in `body` the mul that made it stands
    unread: set[int] = set()  # those that nothing has read since
    made_of: defaultdict[int, set[int]] = defaultdict(set)  # by register: the products that it is, or is a factor of
    for item in function.body:
        if isinstance(item, Label) or item.opcode.split(".")[0] in _ENDS:
            products.clear()
            made_of.clear()
            body.append(item)
            continue
        pair = _pair(item, products, uses, unread)
        if pair is not None:
            place, mul = products.pop(pair)
            body[place] = None
            body += _fused(function, item, mul, pair)
        else:
            body.append(item)
        unread -= set(_reads(item))
        for written in set(_registers(item.operands[0], written=False)) if item.operands else ():
            for register in made_of.pop(written, ()):
                products.pop(register, None)
        if _contractible(item, "mul"):
            target = item.operands[0]
            assert isinstance(target, Register)
            products[target.index] = (len(body) - 1, item)
            unread.add(target.index)
            for operand in item.operands:
                if isinstance(operand, Register):
                    made_of[operand.index].add(target.index)
    function.body = [item for item in body if item is not None]


def _contractible(item: Instruction, *operations: str) -> bool:
    operation, *modifiers = item.opcode.split(".")
    plain = bool(modifiers) and modifiers[-1] in _KINDS and all(m == "ftz" for m in modifiers[:-1])
    whole = len(item.operands) == 3 and isinstance(item.operands[0], Register)
    return operation in operations and plain and whole and item.guard < 0


def _pair(
    item: Instruction, products: dict[int, tuple[int, Instruction]], uses: Counter[int], unread: set[int]
) -> int | None:
    """The register of the product that an addition can be fused with."""
    if not _contractible(item, "add", "sub"):
        return None
    for operand in item.operands[1:]:
        if isinstance(operand, Register) and operand.index in products:
            overwritten = operand == item.operands[0] and item.operands[1:].count(operand) == 1
            if uses[operand.index] != 1 and not (overwritten and operand.index in unread):
                continue
            mul = products[operand.index][1]
            if mul.opcode.split(".")[1:] == item.opcode.split(".")[1:]:
                return operand.index
    return None


def _fused(function: Function, addition: Instruction, mul: Instruction, product: int) -> list[Instruction]:
    """What stands for the two: an fma, behind the negation that a subtraction needs."""
    operation, *modifiers = addition.opcode.split(".")
    addition = replace(addition, places=addition.places + mul.places)
    target, left, right = addition.operands
    factor, other_factor = mul.operands[1:]
    product_is_left = isinstance(left, Register) and left.index == product
    term = right if product_is_left else left
    opcode = ".".join(["fma", "rn", *modifiers])
    if operation == "add":
        return [replace(addition, opcode=opcode, operands=(target, factor, other_factor, term))]
    kind = modifiers[-1]
    negated = Register(len(function.registers))
    function.registers.append(f"b{TYPE_BITS[kind]}")
    negation = replace(
        addition, opcode=f"neg.{kind}", operands=(negated, term if product_is_left else other_factor), places=()
    )
    operands = (target, factor, other_factor, negated) if product_is_left else (target, factor, negated, term)
    return [negation, replace(addition, opcode=opcode, operands=operands)]


def _reads(item: Instruction) -> list[int]:
    """Registers that an instruction may read; those of its first operand only where that is an address."""
    return [r for n, operand in enumerate(item.operands) for r in _registers(operand, written=n == 0)]


def _registers(operand: Operand, written: bool) -> list[int]:
    """Registers of an operand; of one that is `written`, only those that an address is made of."""
    return [] if written and isinstance(operand, (Register, Group, Pair)) else list(registers_of(operand))
