"""Which arrays a kernel may write: only those can have races, and only for those the search keeps anything.

A register may hold an address of all that its definitions are made from, wherever they stand in the function. What
memory holds is taken for an address of anything, if it is wide enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from warplab.emulator.lowering.rows import InstructionTable
from warplab.isa.syntax import (
    Address,
    Group,
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
_WIDE = ("b64", "u64", "s64", "b128", "f64")


def written_names(module: Module, entry: str, table: InstructionTable) -> frozenset[str] | None:
    """Names of parameters and variables through which a kernel may write; None: it may write to anything.

    Names of scalars that take part in an address are among them.
    """
    function = module.functions[entry]
    if len(function.parameters) > PARAMETERS or any(parameter.size > 8 for parameter in function.parameters):
        return None
    body = [step for step in function.body if isinstance(step, Instruction)]
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
            return _targets_of_writes(body, holds, table)
    return None


def _targets_of_writes(
    body: list[Instruction], holds: list[set[str]], table: InstructionTable
) -> frozenset[str] | None:
    written: set[str] = set()
    for step in body:
        for operand in step.operands if _writes(step.opcode, table) else ():
            if isinstance(operand, Address):
                names = set().union(*(_names(part, holds) for part in (operand.base, *operand.rest)))
                if not names or _ANYTHING in names:
                    return None
                written |= names
    return frozenset(written)


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
