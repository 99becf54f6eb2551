"""The process of one rank that times schedules: gets its job on standard input, says the times on standard output.

It runs this project's code on schedules, which are data that was checked; nothing here belongs to a stranger. It ends
when its standard input does.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import msgspec
import numpy as np

from systems.network.execution.outcome import Message, say
from systems.network.execution.timing import TimedJob


def main() -> None:
    """One job, from standard input to standard output."""
    gc.disable()  # until all is imported, of which nothing is garbage
    source, target = sys.stdin.buffer, sys.stdout.buffer
    job = msgspec.json.decode(source.readline(), type=TimedJob)
    try:
        from systems.network.execution import calls

        device, group = calls.meet(job.backend, job.rank, job.schedules[0].ranks, job.rendezvous)
        clock = calls.Clock(device, group)
    except (ImportError, RuntimeError, ValueError) as error:
        say(target, Message("unable", text=str(error).splitlines()[0] if str(error) else type(error).__name__))
        return
    gc.enable()
    say(target, Message("ready"))
    if not source.readline():
        return
    took = []
    for number, (schedule, size) in enumerate(zip(job.schedules, job.sizes, strict=True)):
        say(target, Message("step", step=number))
        ways = (
            calls.of_schedule(schedule, size, job.rank, device),
            calls.of_library(schedule.collective, size, job.rank, schedule.ranks, device),
        )
        took += _timed(clock, [schedule.name, str(schedule.collective)], ways, size, job.turns)
    out = np.array(took, np.float64)
    say(target, Message("done", bytes=out.nbytes), out.tobytes())
    source.read()
    os._exit(0)  # NCCL's communicator does not end before its graphs have (pytorch issue 115388)


def _timed(clock: Any, names: list[str], ways: Any, size: int, turns: int) -> list[list[float]]:
    """Seconds by way and turn, after a call of each whose result is right. Raises RuntimeError if one is not."""
    for name, (call, wrong) in zip(names, ways, strict=True):
        call()
        clock.wait()
        if words := wrong():
            raise RuntimeError(f"{name} of {size} bytes ended with {words}")
    found: list[list[float]] = clock.in_turns([call for call, _ in ways], size, turns)
    return found


if __name__ == "__main__":
    main()
