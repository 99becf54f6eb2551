"""Which operators' results to keep, so that a budget of memory is met and the fewest FLOP are computed again.

In a selective checkpoint the operators of a block do not depend on each other: what is kept is taken from its store,
what is not is computed again, and its inputs are there either way, because the whole block is gone through again in
order. So each operator has a price in bytes and saves FLOP, and the best choice is a knapsack's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Operator:
    """One operator of a block that a checkpoint would run again: bytes of its result, FLOP, and bytes that it reads
    and writes."""

    block: int
    name: str
    bytes: int
    flops: int
    moved: int


@dataclass(frozen=True)
class Plan:
    """What is kept: its bytes, and the FLOP and the traffic of all that is not, which is computed again."""

    kept: tuple[Operator, ...]
    bytes: int
    flops: int
    moved: int

    def names(self, blocks: int) -> list[frozenset[str]]:
        """The names of what is kept, by block."""
        return [frozenset(one.name for one in self.kept if one.block == block) for block in range(blocks)]


def frontier(operators: Sequence[Operator]) -> list[Plan]:
    """Every plan that no other beats, from nothing kept to all that is worth it: more bytes, less to compute again.

    Exact: operators are added one after another, and of the choices so far only those survive that no other beats in
    bytes and in (FLOP, traffic). Their number is that of different sums of bytes, which equal blocks keep small; for
    operators of n unrelated sizes it may double with each.
    """
    flops, moved = sum(one.flops for one in operators), sum(one.moved for one in operators)
    # (bytes, FLOP again, bytes moved again, what is kept as a list linked backwards)
    choices: list[tuple[int, int, int, tuple]] = [(0, flops, moved, ())]
    for one in operators:
        more = [(b + one.bytes, f - one.flops, m - one.moved, (one, kept)) for b, f, m, kept in choices]
        best: list[tuple[int, int, int, tuple]] = []
        for choice in sorted((*choices, *more), key=lambda c: c[:3]):
            if not best or choice[1:3] < best[-1][1:3]:
                best.append(choice)
        choices = best
    return [Plan(_unlinked(kept), size, again, again_moved) for size, again, again_moved, kept in choices]


def plan(operators: Sequence[Operator], budget: float) -> Plan:
    """The plan of at most `budget` bytes that computes the fewest FLOP again, and among those moves the fewest bytes.

    Raises ValueError for a budget below zero.
    """
    if budget < 0:
        raise ValueError(f"a budget of {budget} bytes cannot be met: keeping nothing takes 0")
    return [one for one in frontier(operators) if one.bytes <= budget][-1]


def greedy(operators: Sequence[Operator], budget: float) -> Plan:
    """What a first idea gives: keep whatever saves the most FLOP a byte, as long as it fits."""
    kept: list[Operator] = []
    for one in sorted(operators, key=lambda o: o.flops / o.bytes, reverse=True):
        if sum(k.bytes for k in kept) + one.bytes <= budget:
            kept.append(one)
    left = [one for one in operators if one not in kept]
    size = sum(one.bytes for one in kept)
    return Plan(tuple(kept), size, sum(one.flops for one in left), sum(one.moved for one in left))


def _unlinked(kept: tuple) -> tuple[Operator, ...]:
    found: list[Operator] = []
    while kept:
        one, kept = kept
        found.append(one)
    return tuple(reversed(found))
