"""Checks the schedules of collectives that a submission returned, and models their time.

It reads a stranger's bytes, so it runs in a worker's sandbox. A schedule is data: all of it can be checked, and none of
it is ever run here.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from autograder.records.outcome import CaseOutcome
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.spec.records import RecordCase
from autograder.spec.schedules import Exchange
from autograder.worker.record_rows import Number, failed, rows
from systems.network.bounds import bound
from systems.network.schedules import Op, Phase, Schedule, ScheduleError, Transfer, dumps
from systems.network.schedules import check as first_fault
from systems.network.schedules.check import Flaw
from systems.network.schedules.model import columns
from systems.network.simulation import Simulated, simulate
from warplab.plan.capture.records import MOST_RECORDS
from warplab.plan.execution import FindingKind

_Rows = Annotated[list[tuple[Number, Number, Number, Number, Op, Number | None]], msgspec.Meta(max_length=MOST_RECORDS)]
# What a fault of a schedule would be called in a kernel: who reads too early reads what nobody has written.
_KINDS = {
    Flaw.NOT_HELD: FindingKind.UNINITIALISED,
    Flaw.NOTHING_TO_ADD_TO: FindingKind.UNINITIALISED,
    Flaw.COLLISION: FindingKind.RACE,
    Flaw.DEADLOCK: FindingKind.DEADLOCK,
}


def check(exchange: Exchange, case: RecordCase, blob: bytes) -> tuple[CaseOutcome, bytes]:
    """The outcome of one case, and its schedule as JSON. Raises Rejected."""
    schedule = _schedule(exchange, case, blob)
    return _checked(schedule, case), dumps(schedule)


def model(exchange: Exchange, case: RecordCase, blob: bytes) -> ScheduleModel:
    """The modelled time of one case. Raises Rejected, NetworkError."""
    schedule, network = _schedule(exchange, case, blob), exchange.network(case.dimensions)
    simulated = simulate(schedule, network, exchange.size)
    least = bound(exchange.collective, network, exchange.size).seconds
    return ScheduleModel(case.name, simulated.seconds, least, counters(simulated))


def counters(simulated: Simulated) -> dict[str, int]:
    """What a simulated schedule sends where.

    `sent_bytes`: of the rank that sends most; `peers`: ranks that one rank sends to, at most; `node_bytes`: out of one
    node, at most; `spine_bytes`: up to the switches between leaves, in all; `steps`.
    """
    schedule, topology = simulated.schedule, simulated.topology
    size = simulated.size * schedule.chunk_share()
    sent = np.zeros(schedule.ranks)
    pairs: set[tuple[int, int]] = set()
    for phase in schedule.phases:
        once = columns(phase)
        sent += np.bincount(once.source, minlength=schedule.ranks) * phase.repeats
        pairs |= set(zip(once.source.tolist(), once.destination.tolist(), strict=True))
    peers = np.bincount([source for source, _ in pairs], minlength=schedule.ranks)
    to_spine = [topology.names[head].startswith("spine") for head in topology.heads.tolist()]
    leaving = 0.0
    if topology.levels:
        node = topology.levels[0][1]
        tail, head = node[topology.tails], node[topology.heads]
        out = (tail >= 0) & (tail != head)
        leaving = float(np.bincount(tail[out], simulated.link_bytes[out]).max())
    return {
        "sent_bytes": round(float(sent.max()) * size),
        "peers": int(peers.max()),
        "node_bytes": round(leaving),
        "spine_bytes": round(float(simulated.link_bytes[to_spine].sum())),
        "steps": schedule.steps,
    }


def _schedule(exchange: Exchange, case: RecordCase, blob: bytes) -> Schedule:
    transfers = tuple(Transfer(*row) for row in rows(blob, _Rows))
    arguments = ", ".join(f"{name}={value}" for name, value in case.dimensions.items())
    return Schedule(
        f"{exchange.function}({arguments})",
        exchange.collective,
        exchange.ranks(case.dimensions),
        exchange.chunks(case.dimensions),
        (Phase(transfers),) if transfers else (),
    )


def _checked(schedule: Schedule, case: RecordCase) -> CaseOutcome:
    try:
        fault = first_fault(schedule)
    except ScheduleError as error:
        return failed(case, FindingKind.OUT_OF_BOUNDS, str(error))
    if fault is None:
        return CaseOutcome(case.name, Status.PASSED)
    words = f"{schedule.name}: {fault.sentence}"
    if not schedule.transfers:
        words += " It returns no records."
    kind = _KINDS.get(fault.kind)
    if kind is None:
        return CaseOutcome(case.name, Status.WRONG_ANSWER, words)
    return failed(case, kind, words)
