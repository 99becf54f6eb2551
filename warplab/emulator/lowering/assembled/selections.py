"""By which choice of the PTX a result is taken: in the threads that choose otherwise the assembler may not make it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property

from warplab.emulator.core.alu.dispatch import vector_index
from warplab.emulator.core.state.layout import (
    DST,
    GUARD,
    SRC_A,
    SRC_B,
    SRC_C,
    VECTOR_BASE,
    X0,
    X1,
    X2,
    X4,
    X5,
    X6,
)
from warplab.emulator.program import ROWS_BASE, Probe, Record

_READ = (SRC_A, SRC_B, SRC_C, X0, X1, X2, X4, X5, X6)
_FOLLOWED = 8  # operations between a result and the selections that it ends in


class Selections:
    """The selections (selp) of a kernel's records; `block` is the number of each record's basic block."""

    def __init__(self, records: Sequence[Record], block: Sequence[int]) -> None:
        self.records = records
        self.block = block
        self.known: dict[int, Probe | None] = {}
        names = vector_index()
        self.selections = {VECTOR_BASE + names[f"selp.i{width}"] for width in (32, 64)}

    @cached_property
    def _written(self) -> Counter[int]:
        """How often each register is written."""
        return Counter(record.fields[DST] for record in self.records if record.places)

    @cached_property
    def _readers(self) -> defaultdict[int, list[int]]:
        """The records that read each register, but for those that only count."""
        readers: defaultdict[int, list[int]] = defaultdict(list)
        for number, record in enumerate(self.records):
            if record.places:
                for row in {record.fields[f] for f in _READ if record.fields[f] >= ROWS_BASE} | set(record.keeps):
                    readers[row].append(number)
        return readers

    def of(self, number: int, depth: int = _FOLLOWED) -> Probe | None:
        """The one choice by which a record's result is taken, at once or in results made of it in its block."""
        if number not in self.known:
            self.known[number] = None  # a result made of itself
            self.known[number] = self._choice(number, depth)
        return self.known[number]

    def _choice(self, number: int, depth: int) -> Probe | None:
        record = self.records[number]
        row = record.fields[DST]
        if record.op < VECTOR_BASE or record.fields[GUARD] or self._written[row] != 1 or not depth:
            return None
        found: dict[tuple[int, bool], Probe] = {}
        for reader in self._readers[row]:
            other = self.records[reader]
            if self.block[reader] != self.block[number]:
                return None
            if other.op in self.selections and not other.fields[GUARD]:
                first, second = other.fields[SRC_A] == row, other.fields[SRC_B] == row
                probe = Probe(other, other.fields[X0], second) if first != second else None
            else:
                probe = self.of(reader, depth - 1)
            if probe is None:
                return None
            found.setdefault((probe.predicate, probe.false), probe)
        return next(iter(found.values())) if len(found) == 1 else None
