"""Loads and stores that the assembler dropped, moved in pieces, or joined to wider ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from functools import cached_property

from warplab.emulator.core.state.layout import (
    IMM,
    OP_LOAD,
    OP_STORE,
    SPACE_LOCAL,
    SPACE_SHARED,
    X0,
    X7,
)
from warplab.emulator.lowering.assembled.matching import Matching
from warplab.emulator.lowering.assembled.owners import access_bytes, access_kind, is_access, loads_behind
from warplab.emulator.lowering.flow import Graph, dominates, immediate_dominators
from warplab.emulator.program import local_words
from warplab.isa.machine_code import MachineInstruction


class Accesses:
    """Compares the loads and stores of a kernel with its machine code."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.records = matching.records
        self.found: dict[int, list[MachineInstruction]] = {}  # what was made of each access
        self.missing: defaultdict[tuple, list[int]] = defaultdict(list)  # accesses of which nothing was made, by kind
        for place, numbers in matching.at.items():
            record = self.records[numbers[0]]
            if len(numbers) == 1 and is_access(record):
                self.found[numbers[0]] = found = matching.owned[place]
                if not found:
                    self.missing[access_kind(record)].append(numbers[0])
        self.present = {matching.block[matching.at[i.line][0]] for i in matching.code}  # blocks with machine code

    def shares(self) -> dict[int, Fraction]:
        """How much of what accesses count the machine code has, by record; X7 of those of shared memory that were
        joined is filled."""
        shares: dict[int, Fraction] = {}
        wide: list[tuple[int, MachineInstruction]] = []
        whole = self._whole()
        for number, found in self.found.items():
            record, block = self.records[number], self.matching.block[number]
            if (block, access_kind(record)) in whole:
                continue
            if found and found[0].width > access_bytes(record) and not record.fields[X7]:
                wide.append((number, found[0]))
            copies = self.matching.copies.get(block, 0)
            if record.fields[X0] == SPACE_LOCAL and not found and block in self.present:
                shares[number] = Fraction(0)  # in registers
            elif copies and record.fields[X0] == SPACE_LOCAL:
                words = local_words(record.fields)
                shares[number] = Fraction(sum(min(max(i.width // 4, 1), words) for i in found), copies * words)
            elif len(found) < copies and not (not found and self._is_made_ahead(number)):
                shares[number] = Fraction(len(found), copies)
            elif not found and block in self.present and self._is_repeated(number):
                shares[number] = Fraction(0)
        for number, instruction in wide:
            shares |= self._merged(number, instruction, shares.get(number, Fraction(1)))
        return {number: share for number, share in shares.items() if share != 1}

    def _whole(self) -> set[tuple[int, tuple]]:
        """Blocks, and kinds of accesses to local memory in them, that move as many words in the machine code as all
        copies of them do in the PTX: a wide one may have words of several rounds."""
        asked, moved = Counter[tuple[int, tuple]](), Counter[tuple[int, tuple]]()
        for number, found in self.found.items():
            record, block = self.records[number], self.matching.block[number]
            if record.fields[X0] == SPACE_LOCAL:
                asked[block, access_kind(record)] += self.matching.copies.get(block, 0) * local_words(record.fields)
                moved[block, access_kind(record)] += sum(max(i.width // 4, 1) for i in found)
        return {key for key, words in asked.items() if words and words == moved[key]}

    def _is_repeated(self, number: int) -> bool:
        """Does a load stand on all ways to this one, past no barrier, that loads the same and was made?"""
        block = self.matching.block
        return any(
            loads_behind(self.records, other, number)
            and self._is_same(other, number)
            and dominates(self._dominators, block[other], block[number])
            for other, made in self.found.items()
            if made
        )

    def _is_made_ahead(self, number: int) -> bool:
        """Has the other side of a branch the same load, and was one made of both where lanes come to the branch?"""
        block = self.matching.block
        if self.records[number].op != OP_LOAD:
            return False
        for other, made in self.found.items():
            if not made or not self._is_same(other, number):
                continue
            fork = self._fork(block[number], block[other])
            ahead = all(not i.guard and self._lines[fork] & self._made_in[i.block] for i in made)
            if ahead and fork not in (block[number], block[other]):
                return True
        return False

    def _is_same(self, one: int, other: int) -> bool:
        """Do two accesses do the same to the same bytes?"""
        first, second = self.records[one], self.records[other]
        return (
            access_kind(first) == access_kind(second)
            and access_bytes(first) == access_bytes(second)
            and self.matching.addresses.distance(one, other) == 0
        )

    def _fork(self, one: int, other: int) -> int:
        """The last block that all ways to both of two blocks lead through; 0 if no way leads to one of them."""
        while one > 0 and not dominates(self._dominators, one, other):
            one = self._dominators[one]
        return max(one, 0)

    @cached_property
    def _lines(self) -> defaultdict[int, set[int]]:
        """The lines of PTX of each block."""
        lines: defaultdict[int, set[int]] = defaultdict(set)
        for place, numbers in self.matching.at.items():
            for number in numbers:
                lines[self.matching.block[number]].add(place)
        return lines

    @cached_property
    def _made_in(self) -> defaultdict[int, set[int]]:
        """The lines of PTX that instructions of each block of machine code bear."""
        lines: defaultdict[int, set[int]] = defaultdict(set)
        for instruction in self.matching.code:
            lines[instruction.block].add(instruction.line)
        return lines

    @cached_property
    def _dominators(self) -> list[int]:
        """Of each block: the last one that all ways to it lead through."""
        graph = Graph(list(self.records), {r.target: r.fields[IMM] for r in self.records if r.target})
        return immediate_dominators(graph.before, 0)

    def _merged(self, number: int, instruction: MachineInstruction, share: Fraction) -> dict[int, Fraction]:
        """The shares of the accesses that a wide instruction stands for: one counts for all of shared memory."""
        width, near = instruction.width, {number: 0}
        block = self.matching.block
        missing = self.missing[access_kind(self.records[number])]
        for other in sorted(missing, key=lambda n: (block[n] != block[number], abs(n - number))):
            distance = self.matching.addresses.distance(number, other)
            if distance is None or abs(distance) >= width or self.records[other].fields[X7]:
                continue
            # Of several alike at one address the nearest: others may be parts of another wide one, behind a barrier.
            size = access_bytes(self.records[other])
            if any(d == distance and access_bytes(self.records[n]) == size for n, d in near.items()):
                continue
            if block[other] == block[number] or loads_behind(self.records, number, other):
                near[other] = distance
        # A wide store stands on the line of its last part, a load on its first's: only what must be is elsewhere.
        store = self.records[number].op == OP_STORE
        ahead = {n: distance for n, distance in near.items() if n == number or (n < number) == store}
        numbers = self._stretch(ahead if len(ahead) > 1 else near, number, width)
        first = min(numbers, key=lambda n: near[n])
        if len(numbers) < 2:
            return {}
        if self.records[first].fields[X0] == SPACE_SHARED:
            # Not one that lies behind a branch. As far as banks conflict, it is the same where the lanes' words begin.
            counting = first if block[first] == block[number] else number
            for other in numbers:
                self.records[other].fields[X7] = width if other == counting else -1
            return dict.fromkeys(numbers, share)
        if self.records[first].fields[X0] == SPACE_LOCAL:
            beside = {n: (near[n] - near[first]) // 4 for n in numbers if block[n] == block[number]}
            return dict.fromkeys(numbers, Fraction(0)) | self._divided(beside, width // 4, share)
        return {}

    def _divided(self, words: dict[int, int], width: int, share: Fraction) -> dict[int, Fraction]:
        """Shares by which accesses to local memory, each at a word of a wide one, count each word of that once."""
        left = set(range(width))
        taken: dict[int, set[int]] = {}
        for number in sorted(words, key=lambda n: -access_bytes(self.records[n])):
            taken[number] = left & set(range(words[number], words[number] + local_words(self.records[number].fields)))
            left -= taken[number]
        taken[min(words)] |= left  # what the PTX does not ask for
        return {n: share * Fraction(len(taken[n]), local_words(self.records[n].fields)) for n in words}

    def _stretch(self, near: dict[int, int], number: int, width: int) -> list[int]:
        """Of accesses at these distances, the most that a stretch of `width` bytes holds, access `number` among
        them."""

        def held(start: int) -> list[int]:
            ends = {n: distance + access_bytes(self.records[n]) for n, distance in near.items()}
            return [n for n, distance in near.items() if start <= distance and ends[n] <= start + width]

        stretches = [held(start) for start in near.values()]
        return max((numbers for numbers in stretches if number in numbers), key=len)
