"""The process of one rank: gets its job on standard input, does its steps, says on standard output how far it is.

It runs this project's code on a schedule, which is data that was checked; nothing here belongs to a stranger. It ends
when its standard input does, so that none outlives the program that started it.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, BinaryIO, Protocol

import msgspec
import numpy as np

from systems.network.execution.outcome import (
    Backend,
    FaultKind,
    Message,
    PeerError,
    Receive,
    ScheduleJob,
    Send,
    say,
)
from systems.network.execution.sockets import Sockets
from systems.network.schedules.interpret import RankStep, in_order, programs
from systems.network.schedules.model import Columns, expand
from systems.network.schedules.reference import join_output, split_own

DIED = 3  # the exit status of a rank that was made to die


class Transport(Protocol):
    """What carries chunks to peers and from them."""

    def exchange(self, sends: list[Send], receives: list[Receive]) -> None: ...

    def close(self) -> None: ...


def main() -> None:
    """One job, from standard input to standard output."""
    gc.disable()  # until all is imported, of which nothing is garbage
    source, target = sys.stdin.buffer, sys.stdout.buffer
    job = msgspec.json.decode(source.readline(), type=ScheduleJob)
    data = np.frombuffer(source.read(job.elements * np.dtype(job.dtype).itemsize), job.dtype)
    try:
        transport = _transport(job)
    except (ImportError, RuntimeError, ValueError) as error:
        say(target, Message("unable", text=str(error).splitlines()[0] if str(error) else type(error).__name__))
        return
    gc.enable()
    say(target, Message("ready"))
    if not source.readline():
        return
    try:
        held = _run(job, data, transport, source, target)
    except PeerError as error:
        step = -1 if error.transfer is None else int(expand(job.schedule).step[error.transfer])
        say(target, Message("blame", step, error.peer, error.verdict, error.text))
        source.read()  # until told to end: a peer that waits for this rank should not take it for dead
        return
    output = join_output(job.schedule, job.rank, held).astype(job.dtype)
    say(target, Message("done", bytes=output.nbytes), output.tobytes())
    source.read()
    transport.close()


def _transport(job: ScheduleJob) -> Transport:
    if job.backend is Backend.SOCKETS:
        return Sockets(job.sockets, job.patience)
    from systems.network.execution.distributed import Distributed

    return Distributed(job.backend, job.rank, job.schedule.ranks, job.rendezvous, job.patience)


def _run(
    job: ScheduleJob, data: np.ndarray, transport: Transport, source: BinaryIO, target: BinaryIO
) -> dict[int, Any]:
    moves = expand(job.schedule)
    held = split_own(job.schedule, job.rank, data)
    length = _chunk_length(job, held)
    for step in programs(moves, job.schedule.ranks)[job.rank]:
        say(target, Message("step", step=step.step))
        sends, receives = _parts(moves, step, held, length, job.dtype)
        if job.fault is not None and step.step >= job.fault_step:
            sends = _misbehave(job.fault, sends, source)
        by_number = {receive.transfer: receive for receive in receives}
        transport.exchange(sends, [by_number[number] for number in in_order(moves, step.receives)])
        for receive in receives:  # in the order of the records, which decides how sums are rounded
            chunk = int(moves.chunk[receive.transfer])
            held[chunk] = held[chunk] + receive.into if moves.reduce[receive.transfer] else receive.into
    return held


def _parts(
    moves: Columns, step: RankStep, held: dict[int, Any], length: int, dtype: str
) -> tuple[list[Send], list[Receive]]:
    sends = [Send(int(moves.destination[i]), i, held[int(moves.chunk[i])]) for i in in_order(moves, step.sends)]
    receives = [Receive(int(moves.source[i]), i, np.empty(length, dtype)) for i in step.receives]
    return sends, receives


def _chunk_length(job: ScheduleJob, held: dict[int, Any]) -> int:
    """Elements of a chunk. A rank that starts with nothing, in a broadcast, has a row as long as the root's."""
    return len(next(iter(held.values()))) if held else job.elements // job.schedule.chunks


def _misbehave(kind: FaultKind, sends: list[Send], source: BinaryIO) -> list[Send]:
    if kind is FaultKind.DIE:
        os._exit(DIED)
    if kind is FaultKind.HANG:
        source.read()  # for ever, but not longer than the program that started this process
        os._exit(0)
    return [Send(send.peer, send.transfer, send.data[:-1]) for send in sends]


if __name__ == "__main__":
    main()
