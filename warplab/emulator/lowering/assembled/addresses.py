"""How far apart the addresses of two accesses are, where that is a constant.

Addresses are sums of registers, which are followed to where they are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from warplab.emulator.core.alu.dispatch import vector_index
from warplab.emulator.core.state.layout import DST, GUARD, IMM, SRC_A, SRC_B, SRC_C, VECTOR_BASE
from warplab.emulator.program import ConstantBank, Record

_DEPTH = 40  # of registers made of registers
_MOST = 8  # rows in a sum: more are not followed
_MOVES = ("mov.i32", "mov.i64", "zext.32.64", "sext.32.64", "trunc.64.32")
Sum = tuple[int, dict[int, int]]  # a constant, and how often each row is in it


class Addresses:
    """The addresses of a kernel's records, before their rows have a final place."""

    def __init__(self, records: Sequence[Record], bank: ConstantBank) -> None:
        self.records = records
        self.names = {VECTOR_BASE + number: name for name, number in vector_index().items()}
        self.constants = {place: key[1] for key, place in bank.offsets.items() if isinstance(key[1], int)}
        written = Counter(r.fields[DST] for r in records)
        self.makers = {
            r.fields[DST]: r
            for r in records
            if r.op >= VECTOR_BASE and written[r.fields[DST]] == 1 and not r.fields[GUARD]
        }
        self.known: dict[int, Sum] = {}

    def distance(self, one: int, other: int) -> int | None:
        """The bytes from the address of record `one` to that of `other`; None if it is not the same for all threads."""
        first, second = (self.records[n] for n in (one, other))
        start, rows = self._sum(first.fields[SRC_A], 0)
        end, other_rows = self._sum(second.fields[SRC_A], 0)
        if rows != other_rows:
            return None
        difference = end + second.fields[IMM] - start - first.fields[IMM]
        return (difference + (1 << 31)) % (1 << 32) - (1 << 31)

    def _sum(self, row: int, depth: int) -> Sum:
        if row in self.constants:
            return self.constants[row], {}
        if row not in self.known:
            self.known[row] = 0, {row: 1}  # a register made of itself
            made = self._made(row, depth)
            self.known[row] = made if made and len(made[1]) <= _MOST else (0, {row: 1})
        return self.known[row]

    def _made(self, row: int, depth: int) -> Sum | None:
        maker = self.makers.get(row)
        if maker is None or depth > _DEPTH:
            return None
        name = self.names[maker.op]
        a, b, c = (maker.fields[f] for f in (SRC_A, SRC_B, SRC_C))
        if name in _MOVES:
            return self._sum(a, depth + 1)
        if name in ("add.i32", "add.i64"):
            return _plus(self._sum(a, depth + 1), self._sum(b, depth + 1), 1)
        if name in ("sub.i32", "sub.i64"):
            return _plus(self._sum(a, depth + 1), self._sum(b, depth + 1), -1)
        if name in ("shl.i32", "shl.i64") and 0 <= self.constants.get(b, -1) < 32:
            return _plus((0, {}), self._sum(a, depth + 1), 1 << self.constants[b])
        if name.startswith(("mul.lo.i", "mul.wide.")) and b in self.constants:
            return _plus((0, {}), self._sum(a, depth + 1), self.constants[b])
        if name.startswith(("mad.lo.i", "mad.wide.")) and b in self.constants:
            return _plus(self._sum(c, depth + 1), self._sum(a, depth + 1), self.constants[b])
        return None


def _plus(one: Sum, other: Sum, times: int) -> Sum:
    rows = Counter(one[1])
    for row, count in other[1].items():
        rows[row] = (rows[row] + times * count) % (1 << 64)
    return (one[0] + times * other[0]) % (1 << 64), {row: count for row, count in rows.items() if count}
