"""One rank of benchmarks.collectives: does every collective and schedule over torch.distributed, and times it.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from warplab.errors import WarplabError
from warplab.network.collectives import Collective
from warplab.network.schedules import Schedule, build
from warplab.network.schedules.interpret import programs
from warplab.network.schedules.model import expand, starts_with

Call = Callable[[], None]
MOST_CALLS = 20  # in a sample, as in nccl-tests
WORK = 64 << 20  # bytes that a sample of processes moves about, in as many calls as that takes
# On GPUs a sample's start costs microseconds once: their share must not change with the size where calls are short.
_GPU_WORK, _GPU_CALLS = 640 << 20, 5
_ITEM = 4  # bytes of a float32
_TOGETHER = timedelta(seconds=120)
_SLEEP = 1_000_000  # cycles, half a millisecond: all of a sample is queued by then


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
    rank, gpu = job["rank"], job["backend"] == "nccl"
    device = torch.device("cuda", rank) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        job["backend"],
        init_method=f"file://{job['meeting']}",
        rank=rank,
        world_size=job["ranks"],
        timeout=_TOGETHER,
        device_id=device if gpu else None,
    )
    return device, dist.new_group(backend="gloo", timeout=_TOGETHER)


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
            yield kind.value, "library", size, *_collective(kind, size // _ITEM, rank, ranks, device)
    if job["schedules"]:
        for schedule in schedules(ranks):
            for size in job["sizes"]:
                yield schedule.collective.value, schedule.name, size, *_schedule(schedule, size, rank, device)


def schedules(ranks: int) -> list[Schedule]:
    """The schedules that are timed beside the library, over its point-to-point messages."""
    kind = Collective.ALL_REDUCE
    found = [build.ring(kind, ranks), build.one_shot(kind, ranks), build.two_shot_all_reduce(ranks)]
    return [*found, build.all_to_all(ranks)]


def elements(size: int, ranks: int) -> int:
    """The float32 numbers that a size of so many bytes is rounded down to: a multiple of the ranks, at least one each.

    The size is nccl-tests' (warplab.network.collectives).
    """
    return max(size // _ITEM // ranks, 1) * ranks


def _collective(
    kind: Collective, count: int, rank: int, ranks: int, device: torch.device
) -> tuple[Call, Callable[[], str]]:
    count = elements(count * _ITEM, ranks)
    whole = torch.zeros(count, device=device)
    if kind is Collective.ALL_REDUCE:
        whole += rank + 1
        sums: list[float] = []

        def reduce() -> None:
            dist.all_reduce(whole)
            if not sums:
                sums.append(whole[0].item())
                whole.zero_()  # sums of sums would overflow

        return reduce, lambda: "" if sums == [ranks * (ranks + 1) / 2] else str(sums)
    if kind is Collective.BROADCAST:
        whole += rank + 1
        return lambda: dist.broadcast(whole, 0), lambda: _unequal(whole, 1)
    part = torch.full((count // ranks,), rank + 1.0, device=device)
    if kind is Collective.ALL_GATHER:
        return lambda: dist.all_gather_into_tensor(whole, part), lambda: _unequal(whole[-1:], ranks)
    source = torch.full((count,), rank + 1.0, device=device)
    if kind is Collective.REDUCE_SCATTER:
        return (
            lambda: dist.reduce_scatter_tensor(part, source),
            lambda: _unequal(part, ranks * (ranks + 1) / 2),
        )
    return lambda: dist.all_to_all_single(whole, source), lambda: _unequal(whole[-1:], ranks)


def _unequal(found: torch.Tensor, wanted: float) -> str:
    return "" if bool((found == wanted).all()) else f"{found[0].item():g} instead of {wanted:g}"


def _schedule(schedule: Schedule, size: int, rank: int, device: torch.device) -> tuple[Call, Callable[[], str]]:
    """A schedule over point-to-point messages, a batch of them a step."""
    moves = expand(schedule)
    length = max(int(size * schedule.chunk_share()) // _ITEM, 1)
    held = torch.zeros(schedule.chunks, length, device=device)
    for chunk in range(schedule.chunks):
        if starts_with(schedule, rank, chunk):
            held[chunk] = 1.0
    steps = programs(moves, schedule.ranks)[rank]
    rooms = {number: torch.empty(length, device=device) for step in steps for number in step.receives}
    largest: list[float] = []

    def run() -> None:
        for step in steps:
            operations = [
                dist.P2POp(dist.isend, held[int(moves.chunk[i])], int(moves.destination[i])) for i in step.sends
            ]
            operations += [dist.P2POp(dist.irecv, rooms[i], int(moves.source[i])) for i in step.receives]
            for work in dist.batch_isend_irecv(operations) if operations else []:
                work.wait()
            for i in step.receives:
                room = held[int(moves.chunk[i])]
                _ = room.add_(rooms[i]) if moves.reduce[i] else room.copy_(rooms[i])
        if not largest:
            largest.append(held.max().item())
            held.zero_()

    most = schedule.ranks if schedule.collective is Collective.ALL_REDUCE else 1
    return run, lambda: "" if largest == [most] else str(largest)


class Clock:
    """Times calls: by events on a GPU, in graphs where they are short; else by the wall. The slowest rank counts.

    On a GPU the ranks begin together: each first lets its GPU sleep for as long as the host may take to queue
    everything, then meets the others in an all-reduce of one number, and then the clock starts. Without that the time
    by which one process is behind the other would be in each sample.
    """

    def __init__(self, device: torch.device, group: Any) -> None:
        self._device, self._group = device, group
        self._gpu = device.type == "cuda"
        self._meeting = torch.zeros(1, device=device)

    def wait(self) -> None:
        """Until all that was queued is done."""
        if self._gpu:
            torch.cuda.synchronize(self._device)

    def agree(self, yes: bool) -> bool:
        """Whether all ranks say yes; all get the same answer."""
        answer = torch.tensor([int(yes)])
        dist.all_reduce(answer, dist.ReduceOp.MIN, group=self._group)
        return bool(answer.item())

    def samples(self, call: Call, size: int, count: int) -> list[float]:
        """Seconds of one call, `count` times, the slowest rank's each."""
        if not self._gpu:
            calls = max(1, min(MOST_CALLS, WORK // max(size, 1)))
            return self._sampled(call, calls, calls, count)
        calls = max(_GPU_CALLS, min(MOST_CALLS, _GPU_WORK // max(size, 1)))
        graph = self.graph(call, calls)  # one by one, launching would take longer than what is launched
        found = self._sampled(graph.replay, 1, calls, count)
        graph.reset()
        return found

    def _sampled(self, call: Call, repeats: int, calls: int, count: int) -> list[float]:
        return self.slowest([self.once(call, repeats) / calls for _ in range(count + 2)][2:])

    def slowest(self, seconds: Sequence[float]) -> list[float]:
        """The times of the slowest rank, sample by sample."""
        times = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(times, dist.ReduceOp.MAX, group=self._group)
        return times.tolist()

    def once(self, call: Call, repeats: int) -> float:
        """Seconds of so many calls, one after the other, on this rank."""
        dist.barrier(group=self._group)
        if not self._gpu:
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            return time.perf_counter() - begin
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(_SLEEP)
        dist.all_reduce(self._meeting)
        start.record()
        for _ in range(repeats):
            call()
        end.record()
        torch.cuda.synchronize(self._device)
        return start.elapsed_time(end) * 1e-3

    def graph(self, call: Call, calls: int) -> torch.cuda.CUDAGraph:
        """So many calls as one graph. Reset it before the next one: it holds memory and NCCL's communicator."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(calls):
                call()
        return graph


if __name__ == "__main__":
    to_the_end(main)
