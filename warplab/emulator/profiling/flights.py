"""What a warp has on its way: asynchronous copies and products, from their issue to the wait for them.

Operations that are committed in groups, cp.async, wgmma and bulk stores, are on their way until a wait for their group;
bulk copies that complete at an mbarrier until somebody passes a test of it. The hardware may be done earlier. From that
wait on the program may rely on it, and the emulator, which completes as late as it may, makes it true then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from warplab.emulator.core.state.bulk_layout import BULK_COMMIT, BULK_WAIT
from warplab.emulator.core.state.layout import (
    COPY_COMMIT,
    COPY_WAIT_ALL,
    COPY_WAIT_GROUP,
    IMM,
    MB_TEST,
    MB_TEST_PARITY,
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
from warplab.emulator.profiling.mbarriers import uses_of
from warplab.emulator.profiling.timeline import Flight, Issue, IssueKind, Timeline, heads_of
from warplab.emulator.program import Program
from warplab.emulator.recorder import Trace


@dataclass(frozen=True)
class _Family:
    """Operations that are committed and waited for by groups of their own."""

    kind: IssueKind
    group: int  # the instruction that commits and waits
    commit: int
    wait: int


_COPIES = _Family(IssueKind.ASYNC, OP_COPY_GROUP, COPY_COMMIT, COPY_WAIT_GROUP)
_STORES = _Family(IssueKind.ASYNC, OP_BULK_GROUP, BULK_COMMIT, BULK_WAIT)
_PRODUCTS = _Family(IssueKind.TENSOR, OP_WGMMA_GROUP, WGMMA_COMMIT, WGMMA_WAIT)
_STARTS = {OP_COPY: _COPIES, OP_BULK: _STORES, OP_WGMMA: _PRODUCTS}
_GROUPS = {family.group: family for family in _STARTS.values()}


@dataclass
class _Queue:
    """The groups of one kind of one warp: what is not committed yet, and what is not waited for, oldest first."""

    open: list[Issue]
    waiting: list[list[Issue]]  # empty groups count as well


def flights_of(chart: Timeline, program: Program, trace: Trace) -> tuple[Flight, ...]:
    """What is on its way in a timeline in the emulator's order, by its start."""
    flights = _groups(chart, program) + _copies(trace, program, chart.end)
    return tuple(sorted(flights, key=lambda flight: (flight.start, flight.warp)))


def _groups(chart: Timeline, program: Program) -> list[Flight]:
    """Operations that are waited for by groups."""
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
    return flights


def _deciding_steps(program: Program) -> dict[int, int]:
    """For each instruction of a group, by the pc of its first step, the step that starts, commits or waits."""
    heads = heads_of(program)
    return {heads[pc]: pc for pc, op in enumerate(program.code[:, OP].tolist()) if op in _STARTS or op in _GROUPS}


def _flight(group: list[Issue], end: int, kind: IssueKind) -> list[Flight]:
    """The flight of a group; an empty one has none."""
    return [Flight(group[0].warp, group[0].time, end, kind, group[0].line, len(group))] if group else []


def _copies(trace: Trace, program: Program, end: int) -> list[Flight]:
    """A warp's bulk copies to one mbarrier, from the first issue to the next test of it that lets somebody through."""
    open_copies: dict[int, dict[int, Flight]] = {}  # by the mbarrier and the warp
    flights: list[Flight] = []
    for use in uses_of(trace, program):
        for place in use.places:
            if use.copies:
                copies = open_copies.setdefault(place, {})
                before = copies.get(use.warp, Flight(use.warp, use.time, end, IssueKind.ASYNC, use.line, 0, False))
                copies[use.warp] = replace(before, operations=before.operations + 1)
            elif use.action in (MB_TEST, MB_TEST_PARITY) and not use.failed:
                landed = open_copies.pop(place, {})
                flights += [replace(flight, end=use.time, ended=True) for flight in landed.values()]
    return flights + [flight for copies in open_copies.values() for flight in copies.values()]


def moved(flights: tuple[Flight, ...], times: dict[int, int], end: int) -> tuple[Flight, ...]:
    """The same flights where what was issued at a time is issued at `times[time]`, and everything ends at `end`."""
    found = [
        replace(flight, start=times[flight.start], end=times[flight.end] if flight.ended else end)
        for flight in flights
        if flight.start in times and (flight.end in times or not flight.ended)
    ]
    return tuple(sorted(found, key=lambda flight: (flight.start, flight.warp)))
