"""A schedule as data: phases of transfers, each a step, a source, a destination, a chunk, to be added or kept.

A rank does its steps in order. In a step it starts all of its sends and receives at once; sends carry what it held when
the step began; when the last one is done it takes in what arrived, in the order of the records, and goes on. Ranks wait
for each other only where they exchange something: there is no barrier.

A chunk is a piece of data with a number, not a place: chunk 3 is the same piece on every rank. What the chunks of a
collective are, who has which at first and who must have them in the end, `starts_with` and `ends_with` say.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from systems.network.collectives import Collective
from systems.network.links import NetworkError

# Beyond these only the simulator has use for a schedule.
MOST_EXPANDED = 1 << 24  # transfers that are listed one by one
MOST_HELD = 1 << 24  # chunks of all ranks together


class ScheduleError(NetworkError):
    """A schedule that is not one: damaged, or with ranks, chunks or steps that are not there."""


class Op(StrEnum):
    """What the destination does with a chunk."""

    COPY = "copy"
    REDUCE = "reduce"


Index = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]


class Transfer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One chunk from one rank to another in the step `step` of both, or in the step `received` of the destination."""

    step: Index
    source: Index
    destination: Index
    chunk: Index
    op: Op = Op.COPY
    received: Index | None = None


class Phase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Transfers whose steps count from 0, done `repeats` times, each time with chunks `shift` further, modulo all.

    Ring algorithms do the same in every step but for the chunk: two phases say what would be n squared transfers.
    """

    transfers: Annotated[tuple[Transfer, ...], msgspec.Meta(min_length=1)]
    repeats: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)] = 1
    shift: int = 0

    @property
    def steps(self) -> int:
        """Steps of one repeat."""
        return 1 + max(max(t.step, t.received or 0) for t in self.transfers)


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A collective of `ranks` ranks over `chunks` chunks. `root` matters to broadcast and reduce."""

    name: str
    collective: Collective
    ranks: Annotated[int, msgspec.Meta(ge=2, le=1 << 20)]
    chunks: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    phases: tuple[Phase, ...]
    root: Index = 0

    @property
    def steps(self) -> int:
        """Steps of all phases and repeats."""
        return sum(phase.steps * phase.repeats for phase in self.phases)

    @property
    def transfers(self) -> int:
        """Transfers of all phases and repeats."""
        return sum(len(phase.transfers) * phase.repeats for phase in self.phases)

    def chunk_share(self) -> float:
        """A chunk's bytes as a share of the collective's size (as nccl-tests counts it)."""
        return (self.ranks if self.collective is Collective.ALL_TO_ALL else 1) / self.chunks


@dataclass(frozen=True, eq=False)
class Columns:
    """Transfers as arrays, one entry each, in the order of the records."""

    step: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    chunk: NDArray[np.int64]
    reduce: NDArray[np.bool_]
    received: NDArray[np.int64]


def columns(phase: Phase) -> Columns:
    """The transfers of one repeat of a phase."""
    table = np.array(
        [(t.step, t.source, t.destination, t.chunk, t.op is Op.REDUCE, t.step if t.received is None else t.received)
         for t in phase.transfers], np.int64,
    )  # fmt: skip
    return Columns(table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4].astype(bool), table[:, 5])


def expand(schedule: Schedule) -> Columns:
    """Every transfer with its step from the beginning. Raises ScheduleError if it is too large to list."""
    if schedule.transfers > MOST_EXPANDED:
        raise ScheduleError(f"{schedule.name} has {schedule.transfers} transfers: at most {MOST_EXPANDED} can be "
                            "listed one by one; simulate it as it is, or check it with fewer ranks.")  # fmt: skip
    if schedule.ranks * schedule.chunks > MOST_HELD:
        raise ScheduleError(
            f"{schedule.name} has {schedule.chunks} chunks on each of {schedule.ranks} ranks: at most {MOST_HELD} in "
            "all can be followed one by one; use fewer."
        )
    parts, begin = [], 0
    for phase in schedule.phases:
        once = columns(phase)
        for repeat in range(phase.repeats):
            chunk = (once.chunk + repeat * phase.shift) % schedule.chunks
            step, received = once.step + begin, once.received + begin
            parts.append((step, once.source, once.destination, chunk, once.reduce, received))
            begin += phase.steps
    if not parts:
        empty = np.zeros(0, np.int64)
        return Columns(empty, empty, empty, empty, empty.astype(bool), empty)
    return Columns(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def validate(schedule: Schedule) -> None:
    """Whether all ranks and chunks exist and fit the collective. Raises ScheduleError for the first that does not."""
    n, chunks, kind = schedule.ranks, schedule.chunks, schedule.collective
    if schedule.root >= n:
        raise ScheduleError(f"{schedule.name} has root {schedule.root}, but its ranks are 0 to {n - 1}.")
    if kind is Collective.SEND_RECV:
        raise ScheduleError(f"{schedule.name} is a send_recv, which needs no schedule: choose another collective.")
    unit = {Collective.ALL_GATHER: n, Collective.REDUCE_SCATTER: n, Collective.ALL_TO_ALL: n * n}.get(kind, 1)
    if chunks % unit:
        raise ScheduleError(f"{schedule.name} has {chunks} chunks: {kind} of {n} ranks needs a multiple of {unit}.")
    for number, phase in enumerate(schedule.phases):
        for t in phase.transfers:
            where = f"{schedule.name}, phase {number}, step {t.step}: rank {t.source} to rank {t.destination}"
            if max(t.source, t.destination) >= n:
                raise ScheduleError(f"{where}: there are ranks 0 to {n - 1} only.")
            if t.source == t.destination:
                raise ScheduleError(f"{where}: a rank does not send to itself.")
            if t.chunk >= chunks:
                raise ScheduleError(f"{where}: there is no chunk {t.chunk}, they are 0 to {chunks - 1}.")


def starts_with(schedule: Schedule, rank: int, chunk: int) -> bool:
    """Whether a rank has data of its own in a chunk before the first step."""
    kind, per_rank = schedule.collective, schedule.chunks // schedule.ranks
    if kind is Collective.ALL_GATHER or kind is Collective.ALL_TO_ALL:
        return chunk // per_rank == rank
    if kind is Collective.BROADCAST:
        return rank == schedule.root
    return True


def ends_with(schedule: Schedule, rank: int, chunk: int) -> frozenset[int] | range | None:
    """Whose data a chunk must hold on a rank in the end; None where it does not matter.

    Chunks of all-to-all are numbered by source, then destination; those of all-gather and reduce-scatter by rank.
    """
    n, kind = schedule.ranks, schedule.collective
    if kind is Collective.ALL_REDUCE:
        return range(n)
    if kind is Collective.REDUCE:
        return range(n) if rank == schedule.root else None
    if kind is Collective.BROADCAST:
        return frozenset({schedule.root})
    owner = chunk // (schedule.chunks // n)
    if kind is Collective.ALL_GATHER:
        return frozenset({owner})
    if kind is Collective.REDUCE_SCATTER:
        return range(n) if owner == rank else None
    destination = chunk // (schedule.chunks // (n * n)) % n
    return frozenset({owner}) if destination == rank else None


def dumps(schedule: Schedule) -> bytes:
    """The schedule as JSON."""
    return msgspec.json.encode(schedule)


def loads(data: bytes) -> Schedule:
    """The schedule in JSON that `dumps` or a person wrote. Raises ScheduleError, in one sentence, if it is none."""
    try:
        schedule = msgspec.json.decode(data, type=Schedule)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ScheduleError(f"This is no schedule: {error}.") from None
    validate(schedule)
    return schedule
