"""Whether the orders of a pipeline are right: every pass once, nothing before what it needs, no deadlock.

An order is checked without times: if it can be carried out at all, it can with any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from systems.parallel.shapes import LayoutError
from systems.parallel.timeline import Kind, Orders, Pass, needs


class Wrong(StrEnum):
    """What can be wrong with an order."""

    NO_SUCH_PASS = "no such pass"
    TWICE = "twice"
    TOO_EARLY = "too early"
    MISSING = "missing"
    DEADLOCK = "deadlock"


@dataclass(frozen=True)
class Fault:
    """The first fault of an order: the rank, the place of the pass in its order (None where it is missing)."""

    kind: Wrong
    rank: int
    place: int | None
    sentence: str


def check(orders: Orders, micro_batches: int, chunks: int = 1, split: bool = False) -> Fault | None:
    """The first fault, rank by rank and then between them; None if the orders are right.

    GPU g has the stages g, g + p, g + 2 p, ... of p GPUs, `chunks` of them. `split`: a backward pass is two passes, for
    the input's gradient and for the weights'. Raises LayoutError for passes side by side, which nobody waits for here.
    """
    if any(one.beside for order in orders for one in order):
        raise LayoutError("Passes that run side by side cannot be checked.")
    checked = _Checked(orders, micro_batches, chunks, split)
    for rank in range(len(orders)):
        if fault := checked.alone(rank):
            return fault
    for rank in range(len(orders)):
        if fault := checked.missing(rank):
            return fault
    return checked.stuck()


def describe(one: Pass, ranks: int, chunks: int) -> str:
    """A pass as a submission names it: B is the backward pass, and where that is split its first part."""
    letter = "B" if one.kind is Kind.INPUT else one.kind.value
    return f"{letter} of micro-batch {one.micro_batch}" + (f", chunk {one.stage // ranks}" if chunks > 1 else "")


@dataclass(frozen=True)
class _Checked:
    orders: Orders
    micro_batches: int
    chunks: int
    split: bool

    def kinds(self) -> tuple[Kind, ...]:
        return (Kind.FORWARD, Kind.INPUT, Kind.WEIGHTS) if self.split else (Kind.FORWARD, Kind.BACKWARD)

    def words(self, one: Pass) -> str:
        return describe(one, len(self.orders), self.chunks)

    def alone(self, rank: int) -> Fault | None:
        """What is wrong with a rank's order whatever the others do."""
        ranks, done = len(self.orders), set[Pass]()
        for place, one in enumerate(self.orders[rank]):
            where = f"Rank {rank} has {self.words(one)} as its pass {place}"
            if one.kind not in self.kinds():
                letters = ", ".join("B" if kind is Kind.INPUT else kind.value for kind in self.kinds())
                return Fault(Wrong.NO_SUCH_PASS, rank, place, f"{where}: the passes here are {letters}.")
            if not 0 <= one.micro_batch < self.micro_batches:
                words = f"{where}: micro-batches are 0 to {self.micro_batches - 1}."
                return Fault(Wrong.NO_SUCH_PASS, rank, place, words)
            if one.stage % ranks != rank or not 0 <= one.stage < ranks * self.chunks:
                chunk, last = one.stage // ranks, self.chunks - 1
                words = f"Rank {rank} has chunk {chunk} in its pass {place}: chunks are 0 to {last}."
                return Fault(Wrong.NO_SUCH_PASS, rank, place, words)
            if one in done:
                return Fault(Wrong.TWICE, rank, place, f"{where}, which it has done before.")
            before = self.before(one)
            if before is not None and before not in done:
                words = f"{where}, before {self.words(before)}, whose result it needs."
                return Fault(Wrong.TOO_EARLY, rank, place, words)
            done.add(one)
        return None

    def before(self, one: Pass) -> Pass | None:
        """The pass of the same rank, micro-batch and stage that one comes after."""
        kinds = self.kinds()
        number = kinds.index(one.kind)
        return Pass(kinds[number - 1], one.micro_batch, one.stage) if number else None

    def missing(self, rank: int) -> Fault | None:
        done = set(self.orders[rank])
        for one in self.every(rank):
            if one not in done:
                return Fault(Wrong.MISSING, rank, None, f"Rank {rank} never does {self.words(one)}.")
        return None

    def every(self, rank: int) -> Iterator[Pass]:
        for chunk in range(self.chunks):
            for micro_batch in range(self.micro_batches):
                for kind in self.kinds():
                    yield Pass(kind, micro_batch, chunk * len(self.orders) + rank)

    def stuck(self) -> Fault | None:
        """The circle of ranks that wait for each other, where orders that are right for themselves do not fit."""
        ranks = len(self.orders)
        place, done, moved = [0] * ranks, set[tuple[bool, int, int]](), True
        while moved:
            moved = False
            for rank, order in enumerate(self.orders):
                while place[rank] < len(order) and not self.unmet(order[place[rank]], done):
                    one = order[place[rank]]
                    if one.kind is not Kind.WEIGHTS:
                        done.add((one.kind is not Kind.FORWARD, one.stage, one.micro_batch))
                    place[rank], moved = place[rank] + 1, True
        waiting = {
            rank: self.unmet(order[place[rank]], done)[0]
            for rank, order in enumerate(self.orders)
            if place[rank] < len(order)
        }
        return self.circle(waiting, place) if waiting else None

    def unmet(self, one: Pass, done: set[tuple[bool, int, int]]) -> list[tuple[bool, int, int]]:
        return [need for need in needs(one, len(self.orders) * self.chunks) if need not in done]

    def circle(self, waiting: dict[int, tuple[bool, int, int]], place: Sequence[int]) -> Fault:
        ranks = len(self.orders)
        rank, seen = min(waiting), list[int]()
        while rank not in seen:
            seen.append(rank)
            rank = waiting[rank][1] % ranks
        first = min(seen[seen.index(rank) :])
        backward, stage, micro_batch = waiting[first]
        other = stage % ranks
        needed = Pass(self.kinds()[1] if backward else Kind.FORWARD, micro_batch, stage)
        mine, theirs = self.orders[first][place[first]], self.orders[other][place[other]]
        words = (
            f"Deadlock at rank {first}: its pass {place[first]}, {self.words(mine)}, needs {self.words(needed)} of "
            f"rank {other}, where {self.words(theirs)} comes first, which waits for rank {waiting[other][1] % ranks}."
        )
        return Fault(Wrong.DEADLOCK, first, place[first], words)
