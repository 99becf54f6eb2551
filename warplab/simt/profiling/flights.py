"""What a warp has on its way: groups of asynchronous copies and products, from their first issue to the wait for them.

Only what is waited for by groups is here: cp.async, wgmma, bulk stores. The hardware may be done earlier; from the wait
on the program may rely on it, and the emulator, which completes as late as it may, makes it true then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from warplab.simt.bulk_layout import BULK_COMMIT, BULK_WAIT
from warplab.simt.layout import (
    COPY_COMMIT,
    COPY_WAIT_ALL,
    COPY_WAIT_GROUP,
    IMM,
    OP,
    OP_BULK,
    OP_BULK_GROUP,
    OP_COPY,
    OP_COPY_GROUP,
    OP_WGMMA,
    OP_WGMMA_GROUP,
    WGMMA_COMMIT,
    WGMMA_WAIT,
    X0,
)
from warplab.simt.profiling.timeline import Flight, Issue, Kind, Timeline, heads_of
from warplab.simt.program import Program


@dataclass(frozen=True)
class _Family:
    """Operations that are committed and waited for by groups of their own."""

    kind: Kind
    group: int  # the instruction that commits and waits
    commit: int
    wait: int


_COPIES = _Family(Kind.ASYNC, OP_COPY_GROUP, COPY_COMMIT, COPY_WAIT_GROUP)
_STORES = _Family(Kind.ASYNC, OP_BULK_GROUP, BULK_COMMIT, BULK_WAIT)
_PRODUCTS = _Family(Kind.TENSOR, OP_WGMMA_GROUP, WGMMA_COMMIT, WGMMA_WAIT)
_STARTS = {OP_COPY: _COPIES, OP_BULK: _STORES, OP_WGMMA: _PRODUCTS}
_GROUPS = {family.group: family for family in _STARTS.values()}


@dataclass
class _Queue:
    """The groups of one kind of one warp: what is not committed yet, and what is not waited for, oldest first."""

    open: list[Issue]
    waiting: list[list[Issue]]  # empty groups count as well


def flights_of(chart: Timeline, program: Program) -> tuple[Flight, ...]:
    """The groups of a timeline in the emulator's order, by their start."""
    queues: dict[tuple[int, _Family], _Queue] = {}
    flights: list[Flight] = []
    steps = _deciding_steps(program)
    for issue in chart.issues:
        record = program.code[steps.get(issue.pc, issue.pc)]
        op, action = int(record[OP]), int(record[X0])
        family = _STARTS.get(op) or _GROUPS.get(op)
        if family is None or not issue.mask or (op == OP_BULK and action):
            continue  # a bulk copy with an mbarrier (X0) belongs to no group
        queue = queues.setdefault((issue.warp, family), _Queue([], []))
        if op in _STARTS:
            queue.open.append(issue)
        elif action == family.commit:
            queue.waiting.append(queue.open)
            queue.open = []
        elif action == family.wait:
            while len(queue.waiting) > int(record[IMM]):
                flights += _flight(queue.waiting.pop(0), issue.time, family.kind)
        elif family is _COPIES and action == COPY_WAIT_ALL:
            for group in (*queue.waiting, queue.open):
                flights += _flight(group, issue.time, family.kind)
            queue.waiting, queue.open = [], []
    for (_, family), queue in queues.items():
        for group in (*queue.waiting, queue.open):
            flights += [replace(flight, ended=False) for flight in _flight(group, chart.end, family.kind)]
    return tuple(sorted(flights, key=lambda flight: (flight.start, flight.warp)))


def _deciding_steps(program: Program) -> dict[int, int]:
    """For each instruction of a group, by the pc of its first step, the step that starts, commits or waits."""
    heads = heads_of(program)
    return {heads[pc]: pc for pc, op in enumerate(program.code[:, OP].tolist()) if op in _STARTS or op in _GROUPS}


def _flight(group: list[Issue], end: int, kind: Kind) -> list[Flight]:
    """The flight of a group; an empty one has none."""
    return [Flight(group[0].warp, group[0].time, end, kind, group[0].line, len(group))] if group else []


def at_other_times(flights: tuple[Flight, ...], before: Timeline, after: Timeline) -> tuple[Flight, ...]:
    """The same flights in a timeline that has the same instructions at other times, a warp's alike ones in order."""
    moved = dict(zip(_keys(before).values(), _keys(before), strict=True))  # (warp, time) -> which instruction
    times = {key: time for key, (_, time) in _keys(after).items()}
    found = []
    for flight in flights:
        start = times.get(moved[flight.warp, flight.start])
        end = times.get(moved[flight.warp, flight.end]) if flight.ended else after.end
        if start is not None and end is not None:
            found.append(replace(flight, start=start, end=end))
    return tuple(sorted(found, key=lambda flight: (flight.start, flight.warp)))


def _keys(chart: Timeline) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Each instruction, as (warp, pc, how often the warp had issued it before), with its warp and time."""
    counts: dict[tuple[int, int], int] = {}
    keys = {}
    for issue in chart.issues:
        seen = counts.get((issue.warp, issue.pc), 0)
        counts[issue.warp, issue.pc] = seen + 1
        keys[issue.warp, issue.pc, seen] = (issue.warp, issue.time)
    return keys
