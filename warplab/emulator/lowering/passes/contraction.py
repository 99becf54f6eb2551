"""Fuses multiplications with the additions that follow them, as ptxas does.

PTX lets the assembler contract a `mul` and an `add` or `sub` into one `fma` where neither names a rounding mode (PTX
ISA, add.f32, rounding modifiers); with its default flags ptxas does so, and the result is rounded once, not twice.
NVRTC leaves some such pairs apart, for example `x - y * z`. Seen on an H200: without this pass a fifth of such
results differ from the hardware's in the last place.

Which of several pairs ptxas 13.0 fuses was found from the machine code of random programs
(tests/emulator/test_contract.py): a product that several additions take is computed in each of them, if nothing else
needs it and they are of its basic block, or a factor is constant. Instructions of which ptxas makes branches or a
call, such as a rounded division, end a block, too. Not followed: equal products that
are one to ptxas, additions under a guard, and pairs of floats (f32x2) that name `.rn`: ptxas 13.0 fuses those too for
sm_100, against the ISA.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from warplab.isa.syntax import (
    TYPE_BITS,
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Label,
    Operand,
    Pair,
    Register,
    registers_of,
)

_KINDS = {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2", "f32x2"}
_SIGNS = Immediate(0x8000_0000_8000_0000)
_ENDS = {"bra", "brx", "call", "ret", "exit"}
_PARTED = re.compile(  # of which ptxas makes several blocks before it fuses: rounded floats, integers, fences
    r"(?:div|rcp|sqrt)\.r[nzmp]\.|rsqrt\.approx\.f64|(?:div|rem)\.(?:s32|[su]16|[su]64)|membar\.|fence\.(?!proxy)"
)
_GUARDED = {"ld", "st", "red", "atom", "bar", "barrier"}  # what a guard makes a branch of


@dataclass(eq=False)
class _Product:
    """A `mul`, and the additions that take its result."""

    place: int  # in the function's body
    mul: Instruction
    additions: list[int] = field(default_factory=list)  # their places
    fused: int = 0  # with how many of them
    kept: bool = False  # something needs the result itself
    stale: bool = False  # a factor was overwritten since
    lasting: bool = False  # it can be computed in any block that takes it


def contract(function: Function) -> None:
    """Fuse the pairs of a function in place: products that only additions take.

    First those that one addition takes. Then, in the order of the additions, those that several take: an addition of
    two takes that which fewer take, else its left one. What an addition does not take of its two, something needs.

    Compilers name every value anew; where a person wrote the addition's result over the product, its uses end there.
    """
    body: list[Instruction | Label | None] = list(function.body)
    of = _products(function)
    fused: dict[int, list[Instruction]] = {}
    for several in (False, True):
        for place, operands in of.items():
            possible = {r: p for r, p in operands.items() if not p.kept and (len(p.additions) > 1) == several}
            if place in fused or not possible:
                continue
            addition = function.body[place]
            assert isinstance(addition, Instruction)
            left = addition.operands[1]
            register = min(possible, key=lambda r: (len(possible[r].additions), left != Register(r)))
            product = possible[register]
            product.fused += 1
            for other in operands.values():
                other.kept |= other is not product
            fused[place] = _fused(function, addition, product.mul, register)
            if product.fused == len(product.additions):
                body[product.place] = None
                first = fused[product.additions[0]]
                first[-1] = replace(first[-1], places=first[-1].places + product.mul.places)
    function.body = [part for place, item in enumerate(body) for part in fused.get(place, [item]) if part is not None]


def _products(function: Function) -> dict[int, dict[int, _Product]]:
    """For the places of additions: the products that each may be fused with, by their registers."""
    reads = [_reads(item) if isinstance(item, Instruction) else [] for item in function.body]
    writes = [_writes(item) if isinstance(item, Instruction) else set() for item in function.body]
    uses = Counter(itertools.chain.from_iterable(reads))
    writers: defaultdict[int, list[Instruction]] = defaultdict(list)
    for item, registers in zip(function.body, writes, strict=True):
        for register in registers:
            assert isinstance(item, Instruction)
            writers[register].append(item)
    of: defaultdict[int, dict[int, _Product]] = defaultdict(dict)
    current: dict[int, _Product] = {}  # by register
    factors: defaultdict[int, list[_Product]] = defaultdict(list)  # by register: the products that it is a factor of
    for place, item in enumerate(function.body):
        if isinstance(item, Label):
            _close(current, uses)
            continue
        for register in current.keys() & set(reads[place]):
            product = current[register]
            if _takes(item, product.mul, register) and not product.stale:
                product.additions.append(place)
                product.kept |= len(product.additions) > 1 and Register(register) in product.mul.operands[1:]
                of[place][register] = product
            else:
                product.kept = True
        if item.opcode.split(".")[0] in _ENDS:
            _close(current, uses)
            continue
        if _parts_its_block(item):
            _close(current, uses)
        for register in writes[place]:
            if register in current and item.guard >= 0:
                current[register].kept = True
            current.pop(register, None)
            for product in factors.pop(register, ()):
                product.stale = True
        if _contractible(item, "mul"):
            target = item.operands[0]
            assert isinstance(target, Register)
            current[target.index] = product = _Product(place, item, lasting=_lasts(item, writers, function.entry))
            for operand in item.operands[1:]:
                if isinstance(operand, Register):
                    factors[operand.index].append(product)
    for product in current.values():
        product.lasting = False
    _close(current, uses)
    return of


def _parts_its_block(item: Instruction) -> bool:
    """Is what follows in another block to ptxas, though the PTX has no branch?"""
    return bool(_PARTED.match(item.opcode)) or (item.guard >= 0 and item.opcode.split(".")[0] in _GUARDED)


def _close(current: dict[int, _Product], uses: Counter[int]) -> None:
    """At a block's end: what else reads the registers of products needs them. Those that last may be taken still."""
    for register, product in list(current.items()):
        if not product.lasting:
            product.kept |= uses[register] > len(product.additions)
            del current[register]


def _lasts(mul: Instruction, writers: Mapping[int, Sequence[Instruction]], entry: bool) -> bool:
    """Does ptxas compute a product in other blocks, too? It does if a factor is constant for the whole launch."""
    registers = [operand.index for operand in mul.operands if isinstance(operand, Register)]
    if any(len(writers[register]) != 1 for register in registers):
        return False
    return len(registers) < 3 or any(_is_constant(writers[register][0], entry) for register in registers[1:])


def _is_constant(item: Instruction, entry: bool) -> bool:
    """Does it make an immediate, a kernel's parameter, or what lies at a fixed place of constant memory?"""
    if item.guard >= 0 or len(item.operands) != 2:
        return False
    source, name = item.operands[1], item.opcode
    fixed = isinstance(source, Address) and not isinstance(source.base, Register)
    return (
        (name.startswith("mov.") and isinstance(source, Immediate))
        or (name.startswith("ld.param") and fixed and entry)
        or (name.startswith("ld.const") and fixed)
    )


def _contractible(item: Instruction, *operations: str) -> bool:
    operation, *modifiers = item.opcode.split(".")
    plain = bool(modifiers) and modifiers[-1] in _KINDS and all(m == "ftz" for m in modifiers[:-1])
    whole = len(item.operands) == 3 and isinstance(item.operands[0], Register)
    return operation in operations and plain and whole and item.guard < 0


def _takes(item: Instruction, mul: Instruction, register: int) -> bool:
    """Can an instruction that reads a product be fused with it?"""
    once = list(item.operands[1:]).count(Register(register)) == 1
    return _contractible(item, "add", "sub") and once and mul.opcode.split(".")[1:] == item.opcode.split(".")[1:]


def _fused(function: Function, addition: Instruction, mul: Instruction, product: int) -> list[Instruction]:
    """What stands for the two: an fma, behind the negation that a subtraction needs."""
    operation, *modifiers = addition.opcode.split(".")
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
    opposite: tuple[Operand, ...] = (negated, term if product_is_left else other_factor)
    negation = replace(addition, opcode=f"neg.{kind}", operands=opposite, places=())
    if kind == "f32x2":  # no instruction changes its signs
        negation = replace(negation, opcode="xor.b64", operands=(*opposite, _SIGNS))
    operands = (target, factor, other_factor, negated) if product_is_left else (target, factor, negated, term)
    return [negation, replace(addition, opcode=opcode, operands=operands)]


def _reads(item: Instruction) -> list[int]:
    """Registers that an instruction may read; those of its first operand only where that is an address."""
    return [r for n, operand in enumerate(item.operands) for r in _registers(operand, written=n == 0)]


def _registers(operand: Operand, written: bool) -> list[int]:
    """Registers of an operand; of one that is `written`, only those that an address is made of."""
    if isinstance(operand, Register):  # most are
        return [] if written else [operand.index]
    return [] if written and isinstance(operand, (Group, Pair)) else list(registers_of(operand))


def _writes(item: Instruction) -> set[int]:
    """Registers that an instruction may write: those of its first operand."""
    return set(_registers(item.operands[0], written=False)) if item.operands else set()
