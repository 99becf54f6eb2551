"""Which arrays a kernel may write, and by how many bytes at a time it accesses them.

Only arrays that are written can have races, and the search keeps nothing of others. It tells as many bytes apart as the
narrowest access touches.

A register may hold an address of all that its definitions are made from, wherever they stand in the function. What
memory holds is taken for an address of anything, if it is wide enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from warplab.emulator.lowering.rows import InstructionTable
from warplab.isa.syntax import (
    TYPE_BITS,
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    registers_of,
)

# Compilers' kernels need two or three rounds; what needs more may write to anything.
ROUNDS, PARAMETERS, INSTRUCTIONS = 16, 512, 100_000
_ANYTHING = ""  # among names: any array
_ELSEWHERE = ("shared", "shared::cta", "shared::cluster", "local", "param", "param::func")
_ACCESSES = ("ld", "ldu", "st", "atom", "red", "multimem", "wmma")
_WIDEST, _LEAST_COPY = 32, 4  # bytes that a thread accesses at a time
_BITS_OF_OTHERS = 32  # of fragments with several elements in a register
_WIDE = ("b64", "u64", "s64", "b128", "f64")


def written_names(module: Module, entry: str, table: InstructionTable) -> frozenset[str] | None:
    """Names of parameters and variables through which a kernel may write; None: it may write to anything.

    Names of scalars that take part in an address are among them.
    """
    holds = _origins(module.functions[entry])
    if holds is None:
        return None
    written: set[str] = set()
    for step in _instructions(module.functions[entry]):
        for names in _addressed(step, holds) if _writes(step.opcode, table) else ():
            if not names or _ANYTHING in names:
                return None
            written |= names
    return frozenset(written)


def access_widths(module: Module, entry: str) -> dict[frozenset[str], int]:
    """Bytes of the narrowest access of a thread to global memory, by the names that its address is made from.

    No names: the access may be to anything.
    """
    holds = _origins(module.functions[entry])
    if holds is None:
        bodies = [_instructions(function) for function in module.functions.values()]
        widths = [_width(step) for body in bodies for step in body if _may_be_global(step)]
        return {frozenset(): min(widths)} if widths else {}
    found: dict[frozenset[str], int] = {}
    for step in _instructions(module.functions[entry]):
        addressed = _addressed(step, holds) if _may_be_global(step) else []
        for names in addressed[1:] if step.opcode.startswith("cp.") else addressed:  # its first is in shared memory
            key = frozenset(names - {_ANYTHING})
            found[key] = min(_width(step), found.get(key, _WIDEST))
    return found


def _instructions(function: Function) -> list[Instruction]:
    return [step for step in function.body if isinstance(step, Instruction)]


def _origins(function: Function) -> list[set[str]] | None:
    """Of each register the names that it may have an address from; None: it takes too long, or a call hides it."""
    if len(function.parameters) > PARAMETERS or any(parameter.size > 8 for parameter in function.parameters):
        return None
    body = _instructions(function)
    if len(body) > INSTRUCTIONS or any(step.opcode.startswith("call") for step in body):
        return None
    flows = [_flow(step) for step in body]
    holds: list[set[str]] = [set() for _ in function.registers]
    for _ in range(ROUNDS):
        grown = False
        for targets, sources, names in flows:
            new = names.union(*(holds[source] for source in sources))
            for target in targets:
                if not new <= holds[target]:
                    holds[target] |= new
                    grown = True
        if not grown:
            return holds
    return None


def _addressed(step: Instruction, holds: list[set[str]]) -> list[set[str]]:
    """The names that each address of an instruction is made from."""
    addresses = [operand for operand in step.operands if isinstance(operand, Address)]
    return [set().union(*(_names(part, holds) for part in (a.base, *a.rest))) for a in addresses]


def _may_be_global(step: Instruction) -> bool:
    """Does an instruction access global memory, or memory of a space that is known only as it runs?"""
    words = step.opcode.split(".")
    if words[0] == "cp":
        return len(step.operands) > 2 and "async" in words and "bulk" not in words
    return words[0] in _ACCESSES and not any(word in (*_ELSEWHERE, "const") for word in words)


def _width(step: Instruction) -> int:
    """Bytes that a thread reads side by side, or of the elements that it writes, whose values are compared."""
    words = step.opcode.split(".")
    if words[0] == "cp":
        size = step.operands[2]
        return max(size.value, _LEAST_COPY) if isinstance(size, Immediate) else _LEAST_COPY
    elements = next((int(word[1:]) for word in words if word in ("v2", "v4", "v8")), 1)
    return max(TYPE_BITS.get(words[-1], _BITS_OF_OTHERS) // 8, 1) * (elements if words[0] in ("ld", "ldu") else 1)


def _writes(opcode: str, table: InstructionTable) -> bool:
    """Can an instruction write to global memory?"""
    row, words = table.find(opcode), opcode.split(".")
    if row is None or not row.stores:
        return False
    if words[0] == "cp":
        spaces = [word for word in words if word == "global" or word.startswith("shared")]
        return "bulk" in words and "prefetch" not in words and spaces[:1] == ["global"]
    return not any(word in _ELSEWHERE for word in words)


def _values(operands: Iterable[Operand]) -> list[int]:
    """The registers that operands are, and no predicates or parts of addresses."""
    return [r for operand in operands if isinstance(operand, (Register, Group, Pair)) for r in registers_of(operand)]


def _names(operand: Operand, holds: list[set[str]]) -> set[str]:
    if isinstance(operand, Symbol):
        return {operand.name}
    return set().union(*(holds[register] for register in registers_of(operand)))


def _flow(step: Instruction) -> tuple[list[int], list[int], set[str]]:
    """The registers that an instruction sets, those that they may take an address from, and names beside them.

    It sets those of its first operand, for all that is known of it.
    """
    words = step.opcode.split(".")
    targets = _values(step.operands[:1]) if words[0] != "st" else []
    if words[0] in ("ld", "ldu", "atom"):
        address = next((o for o in step.operands if isinstance(o, Address)), None)
        if address is not None and isinstance(address.base, Symbol) and "param" in words:
            return targets, [], {address.base.name}
        return targets, [], {_ANYTHING} if words[-1] in _WIDE else set()
    sources = _values(step.operands[1:])
    return targets, sources, {operand.name for operand in step.operands[1:] if isinstance(operand, Symbol)}
