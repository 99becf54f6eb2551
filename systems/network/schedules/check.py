"""Whether a schedule is right, before anything is sent: it is carried out on sets of contributions instead of numbers.

A chunk's value on a rank is the set of ranks whose data is added up in it. A schedule is right if every rank ends with
exactly the sets that the collective asks for, nothing is sent before it is there, nothing is added twice, and there
is no deadlock. The first fault is said in one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from systems.network.schedules.interpret import Stuck, carry_out
from systems.network.schedules.model import Columns, Schedule, ends_with, expand, starts_with, validate


class Flaw(StrEnum):
    """What is wrong with a schedule."""

    NOT_HELD = "sent before it was there"
    ADDED_TWICE = "added twice"
    NOTHING_TO_ADD_TO = "added to nothing"
    COLLISION = "two arrivals, one of which replaces"
    DEADLOCK = "deadlock"
    MISSING = "missing in the end"


@dataclass(frozen=True)
class ScheduleFault:
    """The first fault: where it shows, and a sentence for people. In a deadlock `chunk` is the waiting transfer's."""

    kind: Flaw
    rank: int
    chunk: int
    step: int
    sentence: str


def check(schedule: Schedule) -> ScheduleFault | None:
    """The first fault of a schedule, or None. Raises ScheduleError if it names what does not exist, or is too large."""
    validate(schedule)
    moves = expand(schedule)
    sets = _Sets(schedule, moves)
    stuck = carry_out(moves, schedule.ranks, sets)
    if sets.findings:
        return min(sets.findings, key=lambda finding: (finding.step, finding.rank, finding.chunk))
    if stuck:
        return _deadlock(stuck, moves)
    return _end(schedule, sets)


class _Sets:
    """Contributions as bits of a number, by rank and chunk; 0 where a rank has nothing."""

    def __init__(self, schedule: Schedule, moves: Columns) -> None:
        self.moves = moves
        self.held = [
            {chunk: 1 << rank for chunk in range(schedule.chunks) if starts_with(schedule, rank, chunk)}
            for rank in range(schedule.ranks)
        ]
        self.written: dict[tuple[int, int], int] = {}  # the step that last changed a chunk
        self.findings: list[ScheduleFault] = []

    def read(self, rank: int, chunk: int, step: int, transfer: int) -> int:
        value = self.held[rank].get(chunk, 0)
        if not value:
            to = int(self.moves.destination[transfer])
            self._find(Flaw.NOT_HELD, rank, chunk, step, f"rank {rank} sends chunk {chunk} to rank {to}, but "
                       f"{self._arrives(rank, chunk, step)}")  # fmt: skip
        return value

    def take(self, rank: int, step: int, arrivals: Sequence[tuple[int, int]]) -> None:
        if not arrivals:
            return
        seen: dict[int, bool] = {}
        for number, value in arrivals:
            chunk, reduce = int(self.moves.chunk[number]), bool(self.moves.reduce[number])
            source = int(self.moves.source[number])
            if chunk in seen and not (reduce and seen[chunk]):
                self._find(Flaw.COLLISION, rank, chunk, step, f"chunk {chunk} arrives at rank {rank} twice and "
                           "one arrival replaces what is there: which comes last would decide")  # fmt: skip
            seen[chunk] = reduce
            before = self.held[rank].get(chunk, 0)
            if reduce and not before:
                self._find(Flaw.NOTHING_TO_ADD_TO, rank, chunk, step, f"rank {rank} adds rank {source}'s chunk "
                           f"{chunk} to its own, but holds none: copy it")  # fmt: skip
            if reduce and before & value:
                self._find(Flaw.ADDED_TWICE, rank, chunk, step, f"rank {rank} adds rank {source}'s chunk {chunk}, "
                           f"which contains the data of {_ranks(before & value)} that it has already")  # fmt: skip
            self.held[rank][chunk] = before | value if reduce else value
            self.written[rank, chunk] = step

    def _find(self, kind: Flaw, rank: int, chunk: int, step: int, words: str) -> None:
        self.findings.append(ScheduleFault(kind, rank, chunk, step, f"In step {step} {words}."))

    def _arrives(self, rank: int, chunk: int, step: int) -> str:
        comes = (self.moves.destination == rank) & (self.moves.chunk == chunk)
        later = self.moves.received[comes & (self.moves.received >= step)]
        return f"it arrives there only in step {int(later.min())}" if later.size else "it never arrives there"


def _end(schedule: Schedule, sets: _Sets) -> ScheduleFault | None:
    """The chunk that is wrong in the end and was left alone first, if there is one."""
    first: tuple[int, int, int, int] | None = None
    wanted_bits: dict[object, int] = {}
    for rank in range(schedule.ranks):
        for chunk in range(schedule.chunks):
            whose = ends_with(schedule, rank, chunk)
            if whose is None:
                continue
            if whose not in wanted_bits:
                wanted_bits[whose] = sum(1 << owner for owner in whose)
            wanted = wanted_bits[whose]
            if sets.held[rank].get(chunk, 0) != wanted:
                found = (sets.written.get((rank, chunk), -1), rank, chunk, wanted)
                first = min(first, found) if first else found
    if first is None:
        return None
    step, rank, chunk, wanted = first
    has = sets.held[rank].get(chunk, 0)
    when = f"last changed in step {step}" if step >= 0 else "which no step changes"
    # Too much it cannot hold: a chunk begins with no other data than what belongs in it.
    words = f"Rank {rank} ends without the data of {_ranks(wanted & ~has)} in chunk {chunk}, {when}."
    return ScheduleFault(Flaw.MISSING, rank, chunk, max(step, 0), words)


def _deadlock(stuck: list[Stuck], moves: Columns) -> ScheduleFault:
    """The circle in which ranks wait, or the chain that ends at a rank that is done."""
    by_rank = {entry.rank: entry for entry in stuck}
    at, chain = min(stuck, key=lambda entry: (entry.step, entry.rank)), []
    while at not in chain:
        chain.append(at)
        if at.peer not in by_rank:
            break
        at = by_rank[at.peer]
    circle = chain[chain.index(at) :] if at in chain else chain
    waits = [f"rank {entry.rank} in its step {entry.step} waits for rank {entry.peer}" for entry in circle]
    first = circle[0]
    chunk = int(moves.chunk[first.transfer])
    sentence = "; ".join(waits)
    words = f"Deadlock: {sentence}; the transfer of chunk {chunk} is where rank {first.rank} stands."
    return ScheduleFault(Flaw.DEADLOCK, first.rank, chunk, first.step, words)


def _ranks(bits: int) -> str:
    numbers = [rank for rank in range(bits.bit_length()) if bits >> rank & 1]
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    shown = ", ".join(map(str, numbers[:4])) + (f" and {len(numbers) - 4} more" if len(numbers) > 4 else "")
    return f"ranks {shown}"
