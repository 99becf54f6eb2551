"""Which records each machine instruction was made of, and how many copies of each block the machine code has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from warplab.emulator.core.state.layout import (
    OP_ATOMIC,
    OP_BRANCH,
    OP_EXIT,
    OP_JUMP,
    OP_LOAD,
    OP_STORE,
    X2,
)
from warplab.emulator.lowering.assembled.addresses import Addresses
from warplab.emulator.lowering.assembled.owners import access_bytes, made_of, owned
from warplab.emulator.program import ConstantBank, Record
from warplab.isa.machine_code import MachineInstruction

FLOATS = {"FADD": "thread_fadd", "FMUL": "thread_fmul", "FFMA": "thread_ffma", "DADD": "thread_dadd",
          "DMUL": "thread_dmul", "DFMA": "thread_dfma",
          "FADD2": "thread_fadd", "FMUL2": "thread_fmul", "FFMA2": "thread_ffma"}  # fmt: skip
PAIRS = {"FADD2", "FMUL2", "FFMA2"}  # two operations each, from sm_100 on
STORES = {"ST", "STG", "STS", "STL"}
ATOMICS = {"ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS"}
_LEAVES = (OP_BRANCH, OP_JUMP, OP_EXIT)
_ALONE = {"MUFU", "SHFL", "BAR", "VOTE"}
_PLAIN = {"add", "sub", "mul", "fma", "mad"}  # of floats: one machine instruction each


class Matching:
    """A kernel's records, linked but without their final rows, beside its machine code."""

    def __init__(
        self, records: Sequence[Record], code: Iterable[MachineInstruction], bank: ConstantBank, targets: Iterable[int]
    ) -> None:
        self.records = records
        self.at: defaultdict[int, list[int]] = defaultdict(list)  # the records of each line of PTX
        self.parts: defaultdict[int, list[int]] = defaultdict(list)  # with the further steps of instructions
        for number, record in enumerate(records):
            for place in record.places:
                self.parts[place].append(number)
                if record.counted:
                    self.at[place].append(number)
        every = list(code)
        self.code = [i for i in every if i.line in self.at]
        self.made: defaultdict[int, list[MachineInstruction]] = defaultdict(list)
        for instruction in self.code:
            self.made[instruction.line].append(instruction)
        self.block = _blocks(records, targets)
        self.addresses = Addresses(records, bank)
        self.owned = owned(records, self.at, self.made, self.block, self.addresses)  # the loads and stores of each line
        self.spills = self._spills(every)
        self.copies = self._copies()
        self._chosen: dict[tuple[int, str, bool], list[int]] = {}  # see of

    def _spills(self, code: Sequence[MachineInstruction]) -> list[MachineInstruction]:
        """Accesses to local memory that no PTX asks for. What bears no instruction's line, as a kernel's beginning
        does, gets that of what follows it in its block."""
        found = []
        following: MachineInstruction | None = None
        for instruction in reversed(code):
            if instruction.line in self.at:
                following = instruction
            if instruction.root not in ("LDL", "STL") or instruction.rare or following is None:
                continue
            if following is instruction:
                made = self.made[instruction.line]
                if not any(instruction in made_of(self.records[n], made) for n in self.at[instruction.line]):
                    found.append(instruction)
            elif following.block == instruction.block:
                found.append(replace(instruction, line=following.line))
        return found

    def _copies(self) -> dict[int, int]:
        """How many copies of each block of PTX there are: of an unrolled loop's several."""
        copies: dict[int, int] = {}
        for place, numbers in self.at.items():
            if len(numbers) > 1 and len({self.records[n].text for n in numbers}) > 1:
                continue
            found = _anchors(self.records[numbers[0]], self.made[place], self.owned[place])
            block = self.block[numbers[0]]
            copies[block] = max(copies.get(block, 0), found)
        return copies

    def of(self, instruction: MachineInstruction) -> list[int]:
        """The records that a machine instruction was made of: inline assembly may have several on one line."""
        kind = {"F": ".f32", "D": ".f64"}.get(instruction.root[0], "\n")
        key = instruction.line, kind, bool(instruction.guard)
        if key not in self._chosen:
            texts: dict[str, list[int]] = {}
            for number in self.at[instruction.line]:
                texts.setdefault(self.records[number].text, []).append(number)
            alike = [text for text in texts if kind in text and bool(instruction.guard) == text.startswith("@")]
            self._chosen[key] = texts[alike[0] if alike else next(iter(texts))]
        return self._chosen[key]


def _anchors(record: Record, made: Sequence[MachineInstruction], accesses: Sequence[MachineInstruction]) -> int:
    """How many copies there are of a record that the assembler makes one machine instruction of; 0: it may be of
    several."""
    if record.op in (OP_LOAD, OP_STORE):
        widths = [i.width for i in accesses if not i.rare]
        if record.fields[X2] == 1:
            return len(widths)
        # A vector may be moved in pieces, without what nothing reads.
        size = access_bytes(record)
        return sum(min(width, size) for width in widths) // size
    if record.op == OP_ATOMIC:
        return 0
    roots = [i.root for i in made if not i.rare]
    opcode = record.text.split(None, 2 if record.text.startswith("@") else 1)
    name = (opcode[1] if record.text.startswith("@") else opcode[0]) if len(opcode) > 1 else ""
    root, _, kind = name.partition(".")
    if root in _PLAIN and kind.endswith(("f32", "f64")):
        return sum(r in FLOATS for r in roots)
    return max(Counter(r for r in roots if r in _ALONE).values(), default=0)


def _blocks(records: Sequence[Record], targets: Iterable[int]) -> list[int]:
    """The number of each record's basic block; `targets` are records that branches lead to."""
    starts = set(targets)
    starts |= {n + 1 for n, r in enumerate(records) if r.op in _LEAVES}
    result, block = [], -1
    for number in range(len(records)):
        if number == 0 or number in starts:
            block += 1
        result.append(block)
    return result
