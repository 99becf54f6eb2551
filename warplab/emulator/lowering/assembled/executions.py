"""How often a machine instruction runs: the records whose threads it has, where it stands, and what guards it."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from warplab.emulator.core.state.layout import (
    DST,
    GUARD,
    OP_BRANCH,
    OP_EXIT,
    OP_JUMP,
    SRC_A,
    SRC_B,
)
from warplab.emulator.lowering.assembled.matching import ATOMICS, FLOATS, STORES, Matching
from warplab.emulator.lowering.assembled.selections import Selections
from warplab.emulator.program import AnyProbe, GroupPass, OperandTest, Probe, Record
from warplab.isa.machine_code import MachineInstruction

# What the assembler neither moves to another block nor makes of anything but its own PTX.
_PINNED = STORES - {"STL"} | ATOMICS | {
    "BAR", "SHFL", "VOTE", "MATCH", "REDUX", "BRA", "HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA",
}  # fmt: skip
_PREDICATE = re.compile(r"U?P\d$")
_COMPARISON = re.compile(r"setp\.([a-z]+)((?:\.ftz)?)\.([a-z]\d+)\s+[^,|]+(\|?)")
_CONSTANT = re.compile(r"-?(0x[0-9a-f]+|\d+)")
_WITH_CONSTANT = re.compile(
    r"(?P<root>[FD]SETP)\.(?P<condition>[A-Z]+)(?P<ftz>(?:\.FTZ)?)\.AND P\d, PT, "
    r"(?P<absolute>\|?)(?P<register>R\d+)(?:\.reuse)?\|?(?:\.reuse)?, (?:UR(?P<uniform>\d+)|(?P<number>[-+\w.]+)), PT$"
)
_SEVERAL = {"ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "sqrt", "rcp", "div", "cvt"}  # made of several instructions


class Executions:
    """Finds how often machine instructions run."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.records = matching.records
        self.makers = _makers(matching.code)  # of the guards that their blocks make
        self.before = _makers(matching.code, across=True)  # of all: what has made them before, as the code is written
        self.unguarded: dict[int, int] = {}  # of each block: a record that all its threads execute
        for number, record in enumerate(self.records):
            if not record.fields[GUARD] and record.counted:
                self.unguarded.setdefault(matching.block[number], number)
        self.region = self._regions()
        numbers = {id(record): number for number, record in enumerate(self.records)}
        self.probes = {_key(r.probe): n for n, r in enumerate(self.records) if r.probe}
        self.passes = {
            (r.probe.block, r.probe.guard, matching.block[numbers[id(r.probe.beside)]]): n
            for n, r in enumerate(self.records)
            if isinstance(r.probe, GroupPass)
        }
        self.hosts = self._hosts()
        self.selections = Selections(self.records, matching.block)
        self.steering = {r.fields[GUARD] for r in self.records if r.op in (OP_BRANCH, OP_JUMP, OP_EXIT)}

    def _regions(self) -> dict[int, int]:
        """For machine blocks the first one that runs as often: the way through a division or a root forks to call a
        subroutine, and what follows is a block of its own."""
        blocks: dict[int, list[MachineInstruction]] = {}
        for instruction in self.matching.code:
            if not instruction.rare:
                blocks.setdefault(instruction.block, []).append(instruction)
        region: dict[int, int] = {}
        order = list(blocks)
        for place, block in enumerate(order):
            fork = blocks[block][-1]
            if fork.root != "BRA" or not fork.guard:
                continue
            ways = itertools.takewhile(lambda b: blocks[b][0].root != "BSYNC", order[place + 1 :])
            between = [i for b in ways for i in blocks[b]]
            behind = place + len({i.block for i in between}) + 2
            if behind < len(order) and _is_detour(fork, between) and not blocks[order[behind]][0].branched_to:
                region[order[behind]] = region.get(block, block)
        return region

    def _hosts(self) -> dict[tuple[int, str, int], list[int]]:
        """For each machine block and guard in it: the lines of what surely belongs there."""
        hosts: defaultdict[tuple[int, str, int], list[int]] = defaultdict(list)
        for instruction in self.matching.code:
            if instruction.root in _PINNED and not instruction.rare:
                branch = instruction.root == "BRA"
                if not branch or _is_branch(self.records[self.matching.at[instruction.line][0]]):
                    hosts[self._place(instruction, not branch)].append(instruction.line)
        return hosts

    def _place(self, instruction: MachineInstruction, guarded: bool = True) -> tuple[int, str, int]:
        """A machine block, or what runs as often, and the guard in it that an instruction runs under."""
        guard = instruction.guard if guarded else ""
        return (
            self.region.get(instruction.block, instruction.block),
            guard,
            id(self.makers.get(id(instruction))) if guard else 0,
        )

    def of(self, instruction: MachineInstruction) -> tuple[tuple[int, ...], Fraction]:
        """The records whose executions, times a share, are those of a machine instruction; none if it is for unusual
        operands that nothing counts."""
        numbers = self.matching.of(instruction)
        block = self.matching.block[numbers[0]]
        passes = [self.passes.get((instruction.block, instruction.guard, self.matching.block[n])) for n in numbers]
        if None not in passes:
            return tuple(n for n in passes if n is not None), Fraction(1)
        copies = Fraction(1, max(self.matching.copies.get(block, 1), 1))
        counted = [self.probes.get(_key(probe)) for probe in self._guards(instruction)]
        if counted and None not in counted:
            return tuple(n for n in counted if n is not None), copies
        if self._guards_itself(instruction):
            return (), Fraction(0)
        there = self.hosts.get(self._place(instruction), [])
        elsewhere = [line for line in there if self.matching.block[self.matching.at[line][0]] != block]
        if there and len(elsewhere) == len(there):
            for line in elsewhere:
                known = [self._reached(n) for n in self.matching.at[line]]
                of = tuple(n for n in known if n is not None)
                if len(of) == len(known):
                    return of, Fraction(1, self._pinned(line))
        return tuple(numbers), copies

    def _pinned(self, line: int) -> int:
        """How many copies of a line's pinned instruction there are. A branch may bear the line in front of its own."""
        roots = Counter(i.root for i in self.matching.made[line] if i.root in _PINNED)
        return max(count for root, count in roots.items() if root != "BRA" or len(roots) == 1)

    def _reached(self, number: int) -> int | None:
        """A record that as many threads execute as reach this one."""
        guarded = self.records[number].fields[GUARD]
        return self.unguarded.get(self.matching.block[number]) if guarded else number

    # Guards that the PTX has not

    def wanted(self) -> list[AnyProbe]:
        """What has to be counted besides: in how many threads a predicate is true (or false) that guards machine
        instructions where the PTX has no guard."""
        floats = [i for i in self.matching.code if i.root in FLOATS and i.guard and not i.rare]
        return list({_key(probe): probe for instruction in floats for probe in self._guards(instruction)}.values())

    def _guards(self, instruction: MachineInstruction) -> list[AnyProbe]:
        """What guards an instruction, one for each of its records; empty where the PTX has the same guard, or a branch,
        or what surely belongs there is beside it."""
        numbers = self.matching.of(instruction)
        if not instruction.guard or self.records[numbers[0]].fields[GUARD]:
            return []
        if self._guards_itself(instruction):
            return self._tests(instruction, numbers)
        if self.hosts.get(self._place(instruction)):
            return []
        return self._compared(instruction, numbers) or self._selected(instruction, numbers)

    def _guards_itself(self, instruction: MachineInstruction) -> bool:
        """Is it under a guard that its own line of PTX makes, for unusual operands?"""
        name = instruction.guard.lstrip("!")
        numbers = self.matching.at[instruction.line]
        if not name or not all(_operation(self.records[n]) in _SEVERAL for n in numbers):
            return False
        made = self.matching.made[instruction.line]
        beside = [i for i in made if i.block == instruction.block and i is not instruction]
        return any(name in i.operands.split(", ")[:2] for i in beside)

    def _tests(self, instruction: MachineInstruction, numbers: Sequence[int]) -> list[AnyProbe]:
        """The comparison of an operand with a constant that makes a guard of its own line."""
        maker = self.makers.get(id(instruction))
        if maker is None or maker.line != instruction.line:
            return []
        compared = _compared_with(maker, self.matching.made[maker.line], self.matching.code)
        if compared is None:
            return []
        key, absolute, constant = compared
        records = [self.records[n] for n in numbers]
        rows = [r.fields[SRC_B if _operation(r) == "div" else SRC_A] for r in records]
        false = instruction.guard.startswith("!")
        return [OperandTest(r, key, row, absolute, constant, false) for r, row in zip(records, rows, strict=True)]

    def _compared(self, instruction: MachineInstruction, numbers: Sequence[int]) -> list[AnyProbe]:
        """The comparisons of the same blocks that make the guard."""
        maker, block = self.makers.get(id(instruction)), self.matching.block
        if maker is None or maker.line == instruction.line:
            return []
        comparisons = self.matching.at[maker.line]
        if [block[n] for n in comparisons] != [block[n] for n in numbers]:
            return []
        records = [self.records[n] for n in comparisons]
        same = _same_sense(records[0].text, maker)
        if same is None or any(r.fields[GUARD] for r in records):
            return []
        return [Probe(r, r.fields[DST], same == instruction.guard.startswith("!")) for r in records]

    def _selected(self, instruction: MachineInstruction, numbers: Sequence[int]) -> list[AnyProbe]:
        """The selections that an instruction's result ends in: it is made in the threads that select it."""
        maker = self.before.get(id(instruction))
        made = {self.records[n].fields[DST] for n in self.matching.at[maker.line]} if maker else set()
        found: list[AnyProbe] = []
        for number in numbers:
            probe = self.selections.of(number)
            if maker is None or probe is None or probe.predicate not in made and made & self.steering:
                return []
            found.append(probe)
        return found


def _key(probe: AnyProbe) -> tuple:
    return type(probe), id(probe.beside), probe[1:]


def _is_detour(fork: MachineInstruction, between: Sequence[MachineInstruction]) -> bool:
    """Do both ways from a branch up to where they meet belong to its line, and does one call a subroutine?"""
    return all(i.line == fork.line for i in between) and any(i.root == "CALL" for i in between)


def _operation(record: Record) -> str:
    """The first word of the PTX; empty if that has a guard."""
    return record.text.partition(".")[0]


def _is_branch(record: Record) -> bool:
    return record.op in (OP_BRANCH, OP_JUMP)


def _makers(code: Sequence[MachineInstruction], across: bool = False) -> dict[int, MachineInstruction]:
    """For each guarded instruction, by its identity: what has made its guard, in its block or `across` blocks."""
    made: dict[str, MachineInstruction] = {}
    result = {}
    block = -1
    for instruction in code:
        if instruction.block != block and not across:
            made, block = {}, instruction.block
        name = instruction.guard.lstrip("!")
        if name in made:
            result[id(instruction)] = made[name]
        if instruction.root == "R2P":  # moves bits of a register to the predicates that its mask names
            mask = int(instruction.operands.split(", ")[2], 0)
            made |= {f"P{bit}": instruction for bit in range(7) if mask >> bit & 1}
        for name in instruction.operands.split(", ", 2)[:2]:
            if _PREDICATE.match(name):
                made[name] = instruction
    return result


def _compared_with(
    maker: MachineInstruction, made: Sequence[MachineInstruction], code: Sequence[MachineInstruction]
) -> tuple[str, bool, int] | None:
    """What a comparison with a constant compares: the vector operation's key, whether an absolute value, the constant's
    bits. None: it is another, or of a result of the same line (`made` has its instructions, `code` the kernel's)."""
    m = _WITH_CONSTANT.match(f"{maker.opcode} {maker.operands}")
    before = made[: made.index(maker)]
    if m is None or any(i.operands.split(", ")[0] == m["register"] for i in before):
        return None
    kind = "f32" if m["root"] == "FSETP" else "f64"
    if m["uniform"]:
        low, high = (_moved(f"UR{int(m['uniform']) + word}", code[: code.index(maker)]) for word in (0, 1))
        if low is None or high is None:
            return None
        bits = high << 32 | low
    else:
        bits = int.from_bytes(np.dtype("<f4" if kind == "f32" else "<f8").type(m["number"]).tobytes(), "little")
    key = ".".join(["setp", m["condition"].lower(), *(["ftz"] if m["ftz"] else []), kind])
    return key, bool(m["absolute"]), bits


def _moved(register: str, before: Sequence[MachineInstruction]) -> int | None:
    """The constant in a uniform register: lines that need the same one share the move."""
    last = next((i for i in reversed(before) if i.operands.split(", ")[0] == register), None)
    moved = _CONSTANT.fullmatch(last.operands.split(", ", 1)[1]) if last and last.root == "UMOV" else None
    return int(moved[0], 0) if moved else None


def _same_sense(text: str, made: MachineInstruction) -> bool | None:
    """Is a machine comparison true where that of the PTX is? None: that is not easily said."""
    m = _COMPARISON.match(text)
    if m is None or m[4] or not made.opcode.startswith(("FSETP", "DSETP", "ISETP")) or ".AND" not in made.opcode:
        return None
    ours, theirs = m[1], made.opcode.split(".")[1].lower()
    if m[3].startswith("f"):
        return ours.endswith("u") == theirs.endswith("u") and (ours, theirs) != ("ne", "eq")
    if ours in ("eq", "ne"):
        return ours == theirs
    return ours[0] == theirs[0]
