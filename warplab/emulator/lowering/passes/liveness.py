"""Which registers of a PTX function are still needed after one of its instructions."""

from __future__ import annotations

from warplab.emulator.lowering.rows import InstructionTable
from warplab.errors import PlanError
from warplab.isa.syntax import Function, Instruction, Label, Operand, Symbol, registers_of

MAX_SETS = 1 << 30  # instructions times registers: bits of a set for each instruction, of which there are two


def _registers(operand: Operand) -> int:
    """The registers in an operand, as a bit set."""
    found = 0
    for register in registers_of(operand):
        found |= 1 << register
    return found


def _effect(instruction: Instruction, table: InstructionTable) -> tuple[int, int]:
    """Registers read, and registers overwritten in every thread that gets here."""
    written = table.written(instruction)
    kills = 0
    if written and instruction.guard < 0:
        kills = _registers(written[0])
    reads = 0
    for operand in instruction.operands[len(written) if instruction.guard < 0 else 0 :]:
        reads |= _registers(operand)
    if instruction.guard >= 0:
        reads |= 1 << instruction.guard
    return reads, kills


def successors(function: Function, table: InstructionTable) -> list[list[int]]:
    """The places in the function's body that may come behind each of them."""
    body = function.body
    places = {item.name: i for i, item in enumerate(body) if isinstance(item, Label)}
    result = []
    for position, item in enumerate(body):
        following = [position + 1] if position + 1 < len(body) else []
        if isinstance(item, Instruction):
            row = table.find(item.opcode)
            if row is not None and row.leaves:
                names = [o.name for o in item.operands if isinstance(o, Symbol)]
                targets = [t for name in names for t in function.tables.get(name, [name])]
                following = following if item.guard >= 0 else []
                following += [places[t] for t in targets if t in places]
        result.append(following)
    return result


def live_after(function: Function, table: InstructionTable) -> list[int]:
    """For each instruction of the function's body the registers that a thread may still read after it, as a bit set.

    Raises PlanError if there are too many of either.
    """
    if len(function.body) * len(function.registers) > MAX_SETS:
        raise PlanError(
            f"The recursive function {function.name[:60]} has {len(function.body)} instructions and "
            f"{len(function.registers)} registers, too many to follow; make it smaller."
        )
    effects = [_effect(i, table) if isinstance(i, Instruction) else (0, 0) for i in function.body]
    following = successors(function, table)
    before = [0] * len(effects)
    after = [0] * len(effects)
    changed = True
    while changed:
        changed = False
        for position in range(len(effects) - 1, -1, -1):
            out = 0
            for other in following[position]:
                out |= before[other]
            reads, kills = effects[position]
            into = reads | out & ~kills
            if into != before[position] or out != after[position]:
                before[position], after[position], changed = into, out, True
    return after


def read_registers(function: Function, table: InstructionTable) -> int:
    """The registers that some instruction of the function reads, as a bit set; what it overwrites is no read."""
    found = 0
    for item in function.body:
        if isinstance(item, Instruction):
            for operand in item.operands[len(table.written(item)) :]:
                found |= _registers(operand)
            if item.guard >= 0:
                found |= 1 << item.guard
    return found
