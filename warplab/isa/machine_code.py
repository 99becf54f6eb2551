"""Machine code as nvdisasm prints it: per kernel its instructions, each with the line of PTX that it was made of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_LINE = re.compile(r'\s*//## File "\.nv_debug_ptx_txt", line (\d{1,9})')
_LABEL = re.compile(r"([.$\w]+):\s*$")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@(!?U?P[T\d]+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_ENDS = {"BRA", "BRX", "JMP", "EXIT", "RET", "BREAK", "KILL"}
_OWN = ("$__internal_", "__internal_")  # how the names of the assembler's own subroutines begin
_TARGET = re.compile(r"`\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One instruction. `line` is that of the PTX, `block` the number of its basic block in the kernel.

    `rare` marks what ordinary threads do not reach: the assembler's own subroutines, which a division calls for unusual
    operands, and detours for warps whose lanes came apart. `branched_to` marks those
    of blocks that branches lead to; `leads_to` is the block that a branch or a call leads to, -1 for all else.
    """

    opcode: str  # with its modifiers, such as LDS.64
    operands: str
    guard: str  # such as P0 or !P0; empty if there is none
    line: int
    block: int
    rare: bool = False
    branched_to: bool = False
    leads_to: int = -1
    root: str = field(init=False, repr=False, compare=False)  # the opcode without modifiers, which is often asked for

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", self.opcode.partition(".")[0])

    @property
    def width(self) -> int:
        """Bytes a lane that a load or store moves."""
        parts = self.opcode.split(".")
        for bits in (256, 128, 64, 16, 8):
            if str(bits) in parts or f"U{bits}" in parts or f"S{bits}" in parts:
                return bits // 8
        return 4


MachineCode = dict[str, tuple[MachineInstruction, ...]]  # by kernel


def read(text: str) -> MachineCode:
    """What nvdisasm's options -gp and -c print, by kernel's or function's symbol."""
    code: dict[str, list[MachineInstruction]] = {}
    labels: dict[str, int] = {}  # the block that each begins
    current: list[MachineInstruction] = []
    line = block = 0
    for row in text.splitlines():
        if m := _INSTRUCTION.match(row):
            instruction = MachineInstruction(m[2], m[3].strip(), m[1] or "", line, block)
            current.append(instruction)
            if instruction.root in _ENDS:
                block += 1
        elif m := _LINE.match(row):
            line = int(m[1])
        elif m := _SECTION.match(row):
            current = code.setdefault(m[1], [])
            line = 0
        elif m := _LABEL.match(row):
            block += 1
            labels[m[1]] = block
    return {name: tuple(_with_rare(_with_targets(list_, labels), labels)) for name, list_ in code.items()}


def _with_targets(code: list[MachineInstruction], labels: dict[str, int]) -> list[MachineInstruction]:
    """Mark where branches and calls lead."""
    leading = [i for i in code if i.root in ("BRA", "CALL")]
    names = {id(i): name for i in leading for name in _TARGET.findall(i.operands) if name in labels}
    order = sorted({i.block for i in code})
    # A label in front of a label begins an empty block.
    starts = {name: next((b for b in order if b >= labels[name]), -1) for name in names.values()}
    reached = {starts[names[id(i)]] for i in leading if i.root == "BRA" and id(i) in names}
    return [
        replace(i, branched_to=i.block in reached, leads_to=starts[names[id(i)]] if id(i) in names else -1)
        if i.block in reached or id(i) in names
        else i
        for i in code
    ]


def _with_rare(code: list[MachineInstruction], labels: dict[str, int]) -> list[MachineInstruction]:
    """Mark what is only reached through a call of the assembler's own or a branch for diverged warps."""
    if any(i.root in ("BRX", "JMX", "BRXU", "JMP") for i in code):
        return code  # it may lead anywhere
    blocks: dict[int, list[MachineInstruction]] = {}
    for instruction in code:
        blocks.setdefault(instruction.block, []).append(instruction)
    order = list(blocks)
    following = dict(zip(order, order[1:], strict=False))
    # A label in front of a label begins an empty block.
    starts = {name: next((b for b in order if b >= block), -1) for name, block in labels.items()}
    reached, waiting = set(), order[:1]
    while waiting:
        block = waiting.pop()
        if block in reached or block < 0:
            continue
        reached.add(block)
        last = blocks[block][-1]
        if last.root not in _ENDS or last.guard or last.opcode.startswith("BRA.") or "!" in last.operands:
            waiting.append(following.get(block, -1))
        for instruction in blocks[block]:
            if instruction.root in ("BRA", "CALL") and not instruction.opcode.startswith("BRA.DIV"):
                names = [name for name in _TARGET.findall(instruction.operands) if not name.startswith(_OWN)]
                waiting += [starts[name] for name in names if name in starts]
    return [i if i.block in reached else replace(i, rare=True) for i in code]
