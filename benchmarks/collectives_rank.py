"""One rank of benchmarks.collectives: does every collective and schedule over torch.distributed, and times it.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from systems.network.collectives import Collective
from systems.network.execution.calls import Call, Clock, meet, of_library, of_schedule
from systems.network.schedules import Schedule, build
from warplab.errors import WarplabError


class WrongResult(WarplabError):
    """A collective gave something else than it must."""


def main() -> None:
    """Measure as the JSON on the command line says; rank 0 prints a line of JSON for each measurement."""
    job = json.loads(sys.argv[1])
    rank, ranks = job["rank"], job["ranks"]
    device, group = join(job)
    clock = Clock(device, group)
    for name, variant, size, call, check in _work(job, rank, ranks, device):
        if not clock.agree(time.time() < job["until"]):
            if rank == 0:
                print(json.dumps({"cut": f"{name} of {size} bytes by {variant}"}), flush=True)
            break
        call()
        clock.wait()
        if wrong := check():
            raise WrongResult(f"{name} of {size} bytes by {variant} ended with {wrong} on rank {rank}.")
        samples = [] if job["once"] else clock.samples(call, size, job["samples"])
        if rank == 0:
            print(json.dumps({"name": name, "variant": variant, "size": size, "samples": samples}), flush=True)
    dist.barrier(group=group)


def join(job: Any) -> tuple[torch.device, Any]:
    """This rank's device, and a Gloo group of all ranks beside the process group of the job's backend."""
    return meet(job["backend"], job["rank"], job["ranks"], job["meeting"])


def to_the_end(work: Callable[[], None]) -> NoReturn:
    """Does a rank's work and ends this process at once, with 1 if it failed, without taking anything apart.

    NCCL's communicator does not end before every CUDA graph that holds it has been destroyed (pytorch issue 115388),
    nor while another rank is gone.
    """
    code = 0
    try:
        work()
    except WarplabError as error:
        print(error, file=sys.stderr)
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _work(
    job: Any, rank: int, ranks: int, device: torch.device
) -> Iterator[tuple[str, str, int, Call, Callable[[], str]]]:
    """Name, variant, size, the call, and what is wrong with its result after the first call ("" if nothing is)."""
    for kind in map(Collective, job["collectives"]):
        for size in job["sizes"]:
            yield kind.value, "library", size, *of_library(kind, size, rank, ranks, device)
    if job["schedules"]:
        for schedule in schedules(ranks):
            for size in job["sizes"]:
                yield schedule.collective.value, schedule.name, size, *of_schedule(schedule, size, rank, device)


def schedules(ranks: int) -> list[Schedule]:
    """The schedules that are timed beside the library, over its point-to-point messages."""
    kind = Collective.ALL_REDUCE
    found = [build.ring(kind, ranks), build.one_shot(kind, ranks), build.two_shot_all_reduce(ranks)]
    return [*found, build.all_to_all(ranks)]


if __name__ == "__main__":
    to_the_end(main)
