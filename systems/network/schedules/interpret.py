"""Carries out a schedule in one process, on values of any kind: sets for the check, arrays for the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from systems.network.schedules.model import Columns


class Values(Protocol):
    """What a schedule is carried out on."""

    def read(self, rank: int, chunk: int, step: int, transfer: int) -> Any:
        """What `rank` sends of a chunk in its step."""

    def take(self, rank: int, step: int, arrivals: Sequence[tuple[int, Any]]) -> None:
        """What arrived at `rank` in its step: numbers of transfers, in order, and what they carried."""


@dataclass(frozen=True)
class RankStep:
    """What one rank does in one of its steps: numbers of transfers, in the order of the records."""

    step: int
    sends: list[int]
    receives: list[int]


@dataclass(frozen=True)
class Stuck:
    """A rank that cannot leave its step: it waits for `peer`, which is in another step and waits itself, or is done."""

    rank: int
    step: int
    peer: int
    peer_step: int | None  # None: it has no steps left
    transfer: int


def programs(moves: Columns, ranks: int) -> list[list[RankStep]]:
    """The steps of each rank that it has a part in, in order."""
    found: list[dict[int, RankStep]] = [{} for _ in range(ranks)]
    entries = zip(
        moves.step.tolist(), moves.source.tolist(), moves.received.tolist(), moves.destination.tolist(), strict=True
    )
    for number, (step, source, received, destination) in enumerate(entries):
        found[source].setdefault(step, RankStep(step, [], [])).sends.append(number)
        found[destination].setdefault(received, RankStep(received, [], [])).receives.append(number)
    return [[steps[step] for step in sorted(steps)] for steps in found]


def in_order(moves: Columns, transfers: Sequence[int]) -> list[int]:
    """Transfers of one rank's step in the order in which they follow each other between two ranks.

    That is the order of the sender's steps, then of the receiver's, then of the records. Where messages of a pair
    arrive in the order in which they were sent, both have to post them so: a sender may send in one step what the other
    takes in two, the later record first.
    """
    return sorted(transfers, key=lambda i: (moves.step[i], moves.received[i], i))


def carry_out(moves: Columns, ranks: int, values: Values) -> list[Stuck]:
    """Do every transfer on `values`. What is left when nobody can go on, one entry a rank; nothing if all is done."""
    todo = programs(moves, ranks)
    at = [0] * ranks
    left = [0] * ranks  # parts of its step that a rank waits for
    carried: dict[int, Any] = {}  # by transfer: read, not yet taken
    ready: set[int] = set()  # transfers whose destination has come to its step
    source, destination = moves.source.tolist(), moves.destination.tolist()
    chunk = moves.chunk.tolist()
    changed = list(range(ranks))

    def finish(number: int) -> None:
        for rank in (source[number], destination[number]):
            left[rank] -= 1
            if not left[rank]:
                changed.append(rank)

    def enter(rank: int) -> None:
        if at[rank] == len(todo[rank]):
            return
        step = todo[rank][at[rank]]
        left[rank] = len(step.sends) + len(step.receives)
        met = []
        for number in step.sends:
            carried[number] = values.read(rank, chunk[number], step.step, number)
            if number in ready:
                met.append(number)
        for number in step.receives:
            ready.add(number)
            if number in carried:
                met.append(number)
        for number in met:
            finish(number)

    for rank in range(ranks):
        enter(rank)
    changed = [rank for rank in range(ranks) if at[rank] < len(todo[rank]) and not left[rank]]
    while changed:
        # All that can go on does, before any of them begins its next step: findings come in the order of steps.
        now, changed = sorted(set(changed)), []
        for rank in now:
            step = todo[rank][at[rank]]
            values.take(rank, step.step, [(number, carried.pop(number)) for number in step.receives])
            ready.difference_update(step.receives)
            at[rank] += 1
        for rank in now:
            enter(rank)
    return [_stuck(rank, at, todo, source, destination, carried, ready) for rank in range(ranks)
            if at[rank] < len(todo[rank])]  # fmt: skip


def _stuck(
    rank: int, at: list[int], todo: list[list[RankStep]], source: list[int], destination: list[int],
    carried: dict[int, Any], ready: set[int],
) -> Stuck:  # fmt: skip
    step = todo[rank][at[rank]]
    waiting = [number for number in step.sends if number not in ready]
    waiting += [number for number in step.receives if number not in carried]
    number = waiting[0]
    peer = destination[number] if number in step.sends else source[number]
    there = todo[peer][at[peer]].step if at[peer] < len(todo[peer]) else None
    return Stuck(rank, step.step, peer, there, number)
