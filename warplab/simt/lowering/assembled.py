"""What the assembler made of a kernel: how often each float operation and access of the PTX is in the machine code.

nvdisasm names the line of PTX that each machine instruction was made of. The machine code is not run: an instruction of
it runs as often as the PTX around it does. From that follow, for docs/emulator.md's section "What ptxas made":

* float operations: of each kind as many as the machine code has, for each copy that it has of their block;
* loads and stores that were dropped, or of which only some copies of an unrolled loop were kept;
* neighbouring loads and stores that became one wide one;
* spills: accesses to local memory that no PTX asks for.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

from warplab.isa.machine_code import MachineInstruction
from warplab.simt.core.state.layout import (
    C_IDEAL,
    C_REQUESTS,
    C_WARPS,
    C_WAVEFRONTS,
    DST,
    GUARD,
    GUARD_XOR,
    IMM,
    OP_ATOMIC,
    OP_BRANCH,
    OP_EXIT,
    OP_JUMP,
    OP_LOAD,
    OP_NOP,
    OP_STORE,
    SPACE_CONST,
    SPACE_LOCAL,
    SPACE_PARAM,
    SPACE_SHARED,
    X0,
    X1,
    X2,
    X7,
)
from warplab.simt.lowering.addresses import Addresses
from warplab.simt.lowering.lowering import Lowering
from warplab.simt.program import ConstantBank, Probe, Record, Term, make_record

_FLOATS = {"FADD": "thread_fadd", "FMUL": "thread_fmul", "FFMA": "thread_ffma", "DADD": "thread_dadd",
           "DMUL": "thread_dmul", "DFMA": "thread_dfma"}  # fmt: skip
_LOADS = {"LD", "LDG", "LDS", "LDL"}
_STORES = {"ST", "STG", "STS", "STL"}
_ATOMICS = {"ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS"}
# What the assembler neither moves to another block nor makes of anything but its own PTX.
_PINNED = _STORES - {"STL"} | {
    "ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS", "BAR", "SHFL", "VOTE", "MATCH", "REDUX", "BRA", "HMMA", "IMMA",
    "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA",
}  # fmt: skip
_LEAVES = (OP_BRANCH, OP_JUMP, OP_EXIT)
_PLAIN = {"add", "sub", "mul", "fma", "mad"}  # of floats: one machine instruction each


_PREDICATE = re.compile(r"U?P\d$")
_COMPARISON = re.compile(r"setp\.([a-z]+)((?:\.ftz)?)\.([a-z]\d+)\s+[^,|]+(\|?)")


class Assembled:
    """Compares a kernel's records, linked but without their final rows, with its machine code."""

    def __init__(
        self, records: Sequence[Record], code: Iterable[MachineInstruction], bank: ConstantBank, targets: Iterable[int]
    ) -> None:
        self.bank = bank
        self.records = records
        self.terms: list[Term] = []  # what counts instead of the records' own float operations
        self.shares: dict[int, Fraction] = {}  # of records: how much of what they count the machine code has
        self.elected: set[int] = set()  # records of atomics that one lane of a warp does for all
        self.at: defaultdict[int, list[int]] = defaultdict(list)  # the records of each line of PTX
        self.parts: defaultdict[int, list[int]] = defaultdict(list)  # with the further steps of instructions
        for number, record in enumerate(records):
            for place in record.places:
                self.parts[place].append(number)
                if record.counted:
                    self.at[place].append(number)
        self.code = [i for i in code if i.line in self.at]
        self.chosen: dict[tuple[int, str, bool], list[int]] = {}  # see _of
        self.made: defaultdict[int, list[MachineInstruction]] = defaultdict(list)
        for instruction in self.code:
            self.made[instruction.line].append(instruction)
        self.block = _blocks(records, targets)
        self.unguarded: dict[int, int] = {}  # of each block: a record that all its threads execute
        for number, record in enumerate(records):
            if not record.fields[GUARD] and record.counted:
                self.unguarded.setdefault(self.block[number], number)
        self.probes = {(id(r.probe.comparison), r.probe.false): n for n, r in enumerate(records) if r.probe}
        self.earlier = _guards(self.code)
        self.copies = self._copies()
        self.hosts = self._hosts()

    def compare(self) -> None:
        """Fill `terms` and `shares`, and the records' fields that say how an access to shared memory is counted."""
        self._floats()
        self._spills()
        self._accesses()
        self._elections()
        self._fragments()
        self._turned()

    # How often

    def _copies(self) -> dict[int, int]:
        """How many copies of each block of PTX there are: of an unrolled loop's several."""
        copies: dict[int, int] = {}
        for place, numbers in self.at.items():
            if len({self.records[n].text for n in numbers}) > 1:
                continue
            found = _anchors(self.records[numbers[0]], self.made[place])
            block = self.block[numbers[0]]
            copies[block] = max(copies.get(block, 0), found)
        return copies

    def _hosts(self) -> dict[tuple[int, str], list[int]]:
        """For each machine block and guard in it: the lines of what surely belongs there."""
        hosts: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        for instruction in self.code:
            if instruction.root in _PINNED and not instruction.rare:
                guard = "" if instruction.root == "BRA" else instruction.guard
                if instruction.root != "BRA" or _is_branch(self.records[self.at[instruction.line][0]]):
                    hosts[instruction.block, guard].append(instruction.line)
        return hosts

    def _executions(self, instruction: MachineInstruction) -> tuple[tuple[int, ...], Fraction]:
        """The records whose executions, times a share, are those of a machine instruction."""
        numbers = self._of(instruction)
        block = self.block[numbers[0]]
        there = self.hosts.get((instruction.block, instruction.guard), [])
        elsewhere = [line for line in there if self.block[self.at[line][0]] != block]
        if there and len(elsewhere) == len(there):
            for line in elsewhere:
                known = [self._reached(n) for n in self.at[line]]
                of = tuple(n for n in known if n is not None)
                if len(of) == len(known):
                    pinned = sum(1 for i in self.made[line] if i.root in _PINNED)
                    return of, Fraction(1, pinned)
        condition = None if there else self._condition(instruction)
        probe = self.probes.get((id(condition.comparison), condition.false)) if condition else None
        return tuple(numbers) if probe is None else (probe,), Fraction(1, max(self.copies.get(block, 1), 1))

    def _condition(self, instruction: MachineInstruction) -> Probe | None:
        """The comparison that guards an instruction; None where the PTX has the same guard, or a branch."""
        name = instruction.guard.lstrip("!")
        numbers = self._of(instruction)
        if not name or self.records[numbers[0]].fields[GUARD]:
            return None
        before = self.earlier.get(id(instruction), {}).get(name)
        if before is None or before.line == instruction.line or len(self.at[before.line]) != 1:
            return None
        number = self.at[before.line][0]
        same = _same_sense(self.records[number].text, before)
        comparison = self.records[number]
        if self.block[number] != self.block[numbers[0]] or same is None or comparison.fields[GUARD]:
            return None
        return Probe(comparison, same == instruction.guard.startswith("!"))

    def conditions(self) -> list[Probe]:
        """What has to be counted besides: how often comparisons are true (or false) that guard machine instructions
        where the PTX has no guard."""
        floats = [i for i in self.code if i.root in _FLOATS and i.guard and not i.rare and not self._is_unusual(i)]
        hosted = [i for i in floats if not self.hosts.get((i.block, i.guard))]
        found = {(id(c.comparison), c.false): c for c in map(self._condition, hosted) if c is not None}
        return list(found.values())

    def _of(self, instruction: MachineInstruction) -> list[int]:
        """The records that a machine instruction was made of: inline assembly may have several on one line."""
        kind = {"F": ".f32", "D": ".f64"}.get(instruction.root[0], "\n")
        key = instruction.line, kind, bool(instruction.guard)
        if key not in self.chosen:
            texts: dict[str, list[int]] = {}
            for number in self.at[instruction.line]:
                texts.setdefault(self.records[number].text, []).append(number)
            alike = [text for text in texts if kind in text and bool(instruction.guard) == text.startswith("@")]
            self.chosen[key] = texts[alike[0] if alike else next(iter(texts))]
        return self.chosen[key]

    def _reached(self, number: int) -> int | None:
        """A record that as many threads execute as reach this one."""
        return self.unguarded.get(self.block[number]) if self.records[number].fields[GUARD] else number

    # Float operations

    def _floats(self) -> None:
        for instruction in self.code:
            counter = _FLOATS.get(instruction.root)
            if counter is None or instruction.rare or self._is_unusual(instruction):
                continue
            of, share = self._executions(instruction)
            self.terms.append(Term(self.at[instruction.line][0], counter, share, of))

    def _is_unusual(self, instruction: MachineInstruction) -> bool:
        """Is it for unusual operands only: under a guard that its own line of PTX makes?"""
        name = instruction.guard.lstrip("!")
        if not name or any(self.records[n].fields[GUARD] for n in self.at[instruction.line]):
            return False
        made = [i for i in self.made[instruction.line] if i.block == instruction.block and i is not instruction]
        return any(name in i.operands.split(", ")[:2] for i in made)

    # Spills

    def _spills(self) -> None:
        for instruction in self.code:
            if instruction.root not in ("LDL", "STL") or instruction.rare:
                continue
            if any(self.records[n].op in (OP_LOAD, OP_STORE) for n in self.at[instruction.line]):
                continue
            of, share = self._executions(instruction)
            kind = "load" if instruction.root == "LDL" else "store"
            at = self.at[instruction.line][0]
            words = share * max(instruction.width // 4, 1)  # each a request: a lane's word lies beside the other lanes'
            self.terms.append(Term(at, f"local_{kind}_requests", words, of, C_WARPS))
            self.terms.append(Term(at, f"local_{kind}_sectors", 4 * words, of, C_WARPS))

    # Atomics

    def _elections(self) -> None:
        """Atomics for which one lane speaks: it was elected, and REDUX or a count of lanes made one value of all."""
        for place, numbers in self.at.items():
            roots = {i.root for i in self.made[place]}
            atomics = [i for i in self.made[place] if i.root in _ATOMICS]
            if atomics and all(i.guard for i in atomics) and roots & {"REDUX", "UPOPC", "POPC", "UFLO"}:
                found = [n for n in numbers if self.records[n].op == OP_ATOMIC and not self.records[n].fields[GUARD]]
                self.elected.update(found)

    # Fragments of wmma

    def _fragments(self) -> None:
        """Loads of wmma from shared memory that the assembler made ldmatrix of: 8 rows of 16 bytes are a matrix of it,
        and what the loads of one register touch."""
        for place, numbers in self.at.items():
            made = [i for i in self.made[place] if i.root == "LDSM"]
            if not made or not self.records[numbers[0]].text.startswith("wmma.load") or len(numbers) > 1:
                continue
            loads = tuple(n for n in self.parts[place] if self.records[n].op == OP_LOAD)
            matrices = sum(int(i.opcode[-1]) if i.opcode[-1] in "24" else 1 for i in made)
            share = Fraction(matrices, len(loads))
            self.shares |= dict.fromkeys(loads, share)
            for counter, part, what in (
                ("requests", Fraction(len(made), len(loads)), C_WARPS),
                ("wavefronts", share, C_WAVEFRONTS),
                ("bank_conflicts", share, C_WAVEFRONTS),
                ("bank_conflicts", -share, C_IDEAL),
            ):
                self.terms.append(Term(numbers[0], f"matrix_load_{counter}", part, loads, what))

    def _turned(self) -> None:
        """Stores of wmma whose pairs of halves lie in a column: the assembler turns the matrix first, and stores pairs
        of a row at once."""
        for place, numbers in self.at.items():
            made = sum(1 for i in self.made[place] if i.root in ("STG", "ST"))
            if not made or not self.records[numbers[0]].text.startswith("wmma.store") or len(numbers) > 1:
                continue
            stores = tuple(n for n in self.parts[place] if self.records[n].op == OP_STORE)
            if made < len(stores):
                share = Fraction(made, len(stores)) - 1
                self.terms.append(Term(numbers[0], "global_store_requests", share, stores, C_REQUESTS))

    # Loads and stores

    def _accesses(self) -> None:
        addresses = Addresses(self.records, self.bank)
        missing: defaultdict[tuple, list[int]] = defaultdict(list)
        wide: list[tuple[tuple, int, int]] = []
        for place, numbers in self.at.items():
            if len(numbers) > 1 or not _is_access(self.records[numbers[0]]):
                continue
            number = numbers[0]
            record = self.records[number]
            roots = _LOADS if record.op == OP_LOAD else _STORES
            found = [i for i in self.made[place] if i.root in roots]
            key = (self.block[number], record.op, record.fields[X0], record.fields[GUARD])
            if not found:
                missing[key].append(number)
            elif found[0].width > record.fields[X1] * record.fields[X2] and not record.fields[X7]:
                wide.append((key, number, found[0].width))
            copies = self.copies.get(self.block[number], 0)
            if copies and len(found) < copies:
                self.shares[number] = Fraction(len(found), copies)
        for key, number, width in wide:
            near = {number: 0}
            for other in missing[key]:
                distance = addresses.distance(number, other)
                if distance is not None and abs(distance) < width and not self.records[other].fields[X7]:
                    near[other] = distance
            self._merge(self._stretch(near, number, width), width, addresses)

    def _stretch(self, near: dict[int, int], number: int, width: int) -> list[int]:
        """Of accesses at these distances, the most that a stretch of `width` bytes holds, access `number` among them.

        Between stretches with equally many: a wide store stands on the line of its last part, a load on its first's.
        """
        store = self.records[number].op == OP_STORE

        def held(start: int) -> list[int]:
            ends = {
                n: distance + self.records[n].fields[X1] * self.records[n].fields[X2] for n, distance in near.items()
            }
            return [n for n, distance in near.items() if start <= distance and ends[n] <= start + width]

        stretches = [held(start) for start in near.values()]
        return max(
            (numbers for numbers in stretches if number in numbers),
            key=lambda numbers: (len(numbers), sum((n < number) == store for n in numbers)),
        )

    def _merge(self, numbers: list[int], width: int, addresses: Addresses) -> None:
        """Count accesses as one of `width` bytes: that with the lowest address counts for all."""
        if len(numbers) < 2:
            return
        share = self.shares.get(numbers[0], Fraction(1))
        first = min(numbers, key=lambda n: addresses.distance(numbers[0], n) or 0)
        shared = self.records[first].fields[X0] == SPACE_SHARED
        for number in numbers:
            if shared:
                self.records[number].fields[X7] = width if number == first else -1
                self.shares[number] = share
            elif self.records[first].fields[X0] == SPACE_LOCAL:
                self.shares[number] = share


def branch_targets(records: Sequence[Record]) -> set[int]:
    """Where the branches of linked records lead."""
    return {r.fields[IMM] for r in records if r.op in (OP_BRANCH, OP_JUMP)}


def add_probes(lowering: Lowering, code: Sequence[MachineInstruction]) -> None:
    """Add records that count where comparisons are true, as far as the counters of the machine code depend on that."""
    records, labels = lowering.records, lowering.labels
    targets = {labels[r.target] for r in records if r.target}
    wanted: defaultdict[int, list[Probe]] = defaultdict(list)
    for probe in Assembled(records, code, lowering.bank, targets).conditions():
        wanted[id(probe.comparison)].append(probe)
    lowering.records, moved = [], []
    for record in records:
        moved.append(len(lowering.records))
        lowering.records.append(record)
        for probe in wanted[id(record)]:
            counter = make_record(OP_NOP)
            counter.fields[GUARD], counter.fields[GUARD_XOR] = record.fields[DST], -1 if probe.false else 0
            counter.line, counter.outermost, counter.counted, counter.probe = (
                record.line,
                record.outermost,
                False,
                probe,
            )
            lowering.records.append(counter)
    moved.append(len(lowering.records))
    for name, position in labels.items():
        labels[name] = moved[position]


def _is_branch(record: Record) -> bool:
    return record.op in (OP_BRANCH, OP_JUMP)


def _is_access(record: Record) -> bool:
    return record.op in (OP_LOAD, OP_STORE) and record.fields[X0] not in (SPACE_CONST, SPACE_PARAM)


def _anchors(record: Record, made: list[MachineInstruction]) -> int:
    """How many copies there are of a record that the assembler makes one machine instruction of; 0: it may be of
    several."""
    made = [i for i in made if not i.rare]
    if record.op in (OP_LOAD, OP_STORE):
        widths = [i.width for i in made if i.root in (_LOADS if record.op == OP_LOAD else _STORES)]
        if record.fields[X2] == 1:
            return len(widths)
        # A vector may be moved in pieces, without what nothing reads.
        size = record.fields[X1] * record.fields[X2]
        return sum(min(width, size) for width in widths) // size
    if record.op == OP_ATOMIC:
        return 0
    roots = Counter(i.root for i in made)
    opcode = record.text.split(None, 2 if record.text.startswith("@") else 1)
    name = (opcode[1] if record.text.startswith("@") else opcode[0]) if len(opcode) > 1 else ""
    root, _, kind = name.partition(".")
    if root in _PLAIN and kind.endswith(("f32", "f64")):
        return sum(n for r, n in roots.items() if r in _FLOATS)
    return max(roots[r] for r in ("MUFU", "SHFL", "BAR", "VOTE"))


def _guards(code: Sequence[MachineInstruction]) -> dict[int, dict[str, MachineInstruction]]:
    """For each guarded instruction, by its identity: what in its block has made each predicate before it."""
    made: dict[str, MachineInstruction] = {}
    result = {}
    block = -1
    for instruction in code:
        if instruction.block != block:
            made, block = {}, instruction.block
        if instruction.guard:
            result[id(instruction)] = dict(made)
        for name in instruction.operands.split(", ")[:2]:
            if _PREDICATE.match(name):
                made[name] = instruction
    return result


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
