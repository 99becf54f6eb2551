"""Schedules that are wrong on purpose, each with the verdict that it must get."""

from __future__ import annotations

from dataclasses import dataclass

from systems.network.collectives import Collective
from systems.network.schedules import Flaw, Op, Phase, Schedule, Transfer, build
from systems.network.schedules.model import expand

AR, AG = Collective.ALL_REDUCE, Collective.ALL_GATHER


@dataclass(frozen=True)
class Wrong:
    """`where` is (rank, chunk, step)."""

    name: str
    schedule: Schedule
    kind: Flaw
    where: tuple[int, int, int]
    says: str


def _listed(schedule: Schedule) -> list[Transfer]:
    """Every transfer of a schedule, one by one."""
    moves = expand(schedule)
    return [
        Transfer(int(s), int(a), int(b), int(c), Op.REDUCE if r else Op.COPY)
        for s, a, b, c, r in zip(
            moves.step, moves.source, moves.destination, moves.chunk, moves.reduce, strict=True
        )
    ]  # fmt: skip


def _ring(change, kind: Collective = AR, ranks: int = 4) -> Schedule:
    """A ring whose list of transfers `change` has been at."""
    schedule = build.ring(kind, ranks)
    return Schedule("ring", kind, ranks, schedule.chunks, (Phase(tuple(change(_listed(schedule)))),))


def _without_step(step: int):
    return lambda moves: [
        move if move.step < step else Transfer(move.step - 1, move.source, move.destination, move.chunk, move.op)
        for move in moves
        if move.step != step
    ]


def _with_chunk(number: int, chunk: int):
    def change(moves: list[Transfer]) -> list[Transfer]:
        move = moves[number]
        moves[number] = Transfer(move.step, move.source, move.destination, chunk, move.op)
        return moves

    return change


def _swapped(first: int, second: int):
    """Two steps in the other order."""
    other = {first: second, second: first}
    return lambda moves: [
        Transfer(other.get(move.step, move.step), move.source, move.destination, move.chunk, move.op) for move in moves
    ]


def _plain(kind: Collective, ranks: int, chunks: int, *moves: Transfer, root: int = 0) -> Schedule:
    return Schedule("by hand", kind, ranks, chunks, (Phase(moves),), root)


WRONG = [
    # In step 0 of a ring of four, rank r sends chunk r - 1; chunk 0 then goes 1, 2, 3, 0.
    Wrong("last step dropped", _ring(_without_step(5)), Flaw.MISSING, (0, 1, 1), "Rank 0 ends without the data"),
    Wrong(
        "first gathering step dropped", _ring(_without_step(2), AG), Flaw.MISSING, (0, 1, 0),
        "Rank 0 ends without the data of rank 1 in chunk 1, which no step changes.",
    ),
    Wrong(
        "middle step dropped", _ring(_without_step(3)), Flaw.MISSING, (0, 3, 0),
        "ends without the data of rank",
    ),
    Wrong(
        "wrong chunk reduced", _ring(_with_chunk(4, 0)), Flaw.MISSING, (2, 2, 2),
        "Rank 2 ends without the data of ranks 0, 3 in chunk 2, last changed in step 2.",
    ),
    Wrong(
        "old chunk reduced again", _ring(_with_chunk(8, 2)), Flaw.ADDED_TWICE, (1, 2, 2),
        "rank 1 adds rank 0's chunk 2, which contains the data of ranks 0, 3 that it has already",
    ),
    Wrong(
        "wrong chunk gathered", _ring(_with_chunk(0, 3), AG), Flaw.NOT_HELD, (0, 3, 0),
        "rank 0 sends chunk 3 to rank 1, but it arrives there only in step 0",
    ),
    Wrong(
        "steps in the wrong order", _ring(_swapped(0, 1), AG), Flaw.NOT_HELD, (0, 3, 0),
        "In step 0 rank 0 sends chunk 3 to rank 1, but it arrives there only in step 1.",
    ),
    Wrong(
        "sent by who never gets it",
        _plain(Collective.BROADCAST, 3, 1, Transfer(0, 0, 1, 0), Transfer(1, 2, 1, 0)),
        Flaw.NOT_HELD, (2, 0, 1), "it never arrives there",
    ),
    Wrong(
        "reduced twice", _plain(AR, 2, 1, Transfer(0, 0, 1, 0, Op.REDUCE), Transfer(1, 0, 1, 0, Op.REDUCE)),
        Flaw.ADDED_TWICE, (1, 0, 1), "rank 1 adds rank 0's chunk 0, which contains the data of rank 0",
    ),
    Wrong(
        "sums exchanged", _plain(
            AR, 2, 1, Transfer(0, 0, 1, 0, Op.REDUCE), Transfer(1, 1, 0, 0, Op.REDUCE),
        ), Flaw.ADDED_TWICE, (0, 0, 1), "rank 0 adds rank 1's chunk 0, which contains the data of rank 0",
    ),
    Wrong(
        "copied over its own", _plain(AR, 2, 1, Transfer(0, 0, 1, 0), Transfer(0, 1, 0, 0)),
        Flaw.MISSING, (0, 0, 0), "Rank 0 ends without the data of rank 0 in chunk 0, last changed in step 0.",
    ),
    Wrong(
        "added to nothing", _plain(AG, 2, 2, Transfer(0, 0, 1, 0, Op.REDUCE), Transfer(0, 1, 0, 1)),
        Flaw.NOTHING_TO_ADD_TO, (1, 0, 0), "rank 1 adds rank 0's chunk 0 to its own, but holds none: copy it",
    ),
    Wrong(
        "a sum and a copy in one step",
        _plain(AR, 3, 1, Transfer(0, 0, 1, 0, Op.REDUCE), Transfer(0, 2, 1, 0)),
        Flaw.COLLISION, (1, 0, 0), "chunk 0 arrives at rank 1 twice and one arrival replaces what is there",
    ),
    Wrong(
        "two that wait for each other",
        _plain(AR, 2, 1, Transfer(0, 0, 1, 0, Op.REDUCE, 1), Transfer(0, 1, 0, 0, Op.REDUCE, 1)),
        Flaw.DEADLOCK, (0, 0, 0), "rank 0 in its step 0 waits for rank 1; rank 1 in its step 0 waits for rank 0",
    ),
    Wrong(
        "a circle of three",
        _plain(AR, 3, 1, *(Transfer(0, r, (r + 1) % 3, 0, Op.REDUCE, 1) for r in range(3))),
        Flaw.DEADLOCK, (0, 0, 0), "waits for rank 2; rank 2 in its step 0 waits for rank 0",
    ),
    Wrong(
        "a root alone", _plain(Collective.REDUCE, 3, 1, Transfer(0, 1, 2, 0, Op.REDUCE), root=2),
        Flaw.MISSING, (2, 0, 0), "Rank 2 ends without the data of rank 0 in chunk 0",
    ),
    Wrong("nothing at all", Schedule("empty", AR, 3, 2, ()), Flaw.MISSING, (0, 0, 0), "which no step changes"),
    Wrong(
        "sent to the wrong rank",
        _plain(Collective.ALL_TO_ALL, 2, 4, Transfer(0, 0, 1, 0), Transfer(0, 1, 0, 2)),
        Flaw.MISSING, (1, 1, 0), "Rank 1 ends without the data of rank 0 in chunk 1",
    ),
]  # fmt: skip
