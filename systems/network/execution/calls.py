"""Calls of torch.distributed, NCCL's collectives and schedules over its messages, and a clock that times them.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from systems.network.collectives import Collective
from systems.network.schedules import Schedule
from systems.network.schedules.interpret import in_order, programs
from systems.network.schedules.model import expand, starts_with

Call = Callable[[], None]
MOST_CALLS = 20  # in a sample, as in nccl-tests
WORK = 64 << 20  # bytes that a sample of processes moves about, in as many calls as that takes
# On GPUs a sample's start costs microseconds once: their share must not change with the size where calls are short.
_GPU_WORK, _GPU_CALLS = 640 << 20, 5
_ITEM = 4  # bytes of a float32
_TOGETHER = timedelta(seconds=120)
_SLEEP = 1_000_000  # cycles, half a millisecond: all of a sample is queued by then


def meet(backend: str, rank: int, ranks: int, meeting: str) -> tuple[torch.device, Any]:
    """This rank's device, and a Gloo group of all ranks beside the default group, of `backend` ("nccl" or "gloo").

    All ranks are on this machine; `meeting` is a file that they can open. Multicast over NVLink is never used. Raises
    RuntimeError if they cannot meet, ValueError for fewer GPUs than ranks.
    """
    gpu = backend == "nccl"
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(name, "lo")
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    if gpu and torch.cuda.device_count() < ranks:
        raise ValueError(f"{ranks} ranks need a GPU each, and PyTorch sees {torch.cuda.device_count()}")
    device = torch.device("cuda", rank) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        backend,
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=ranks,
        timeout=_TOGETHER,
        device_id=device if gpu else None,
    )
    return device, dist.new_group(backend="gloo", timeout=_TOGETHER)


def elements(size: int, ranks: int) -> int:
    """The float32 numbers that a size of so many bytes is rounded down to: a multiple of the ranks, at least one each.

    The size is nccl-tests' (systems.network.collectives).
    """
    return max(size // _ITEM // ranks, 1) * ranks


def of_library(
    kind: Collective, size: int, rank: int, ranks: int, device: torch.device
) -> tuple[Call, Callable[[], str]]:
    """A collective of `size` bytes of float32, and what is wrong with its result after the first call ("": nothing)."""
    count = elements(size, ranks)
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


def of_schedule(schedule: Schedule, size: int, rank: int, device: torch.device) -> tuple[Call, Callable[[], str]]:
    """The same of a schedule over point-to-point messages, a batch of them a step."""
    moves = expand(schedule)
    length = max(int(size * schedule.chunk_share()) // _ITEM, 1)
    held = torch.zeros(schedule.chunks, length, device=device)
    for chunk in range(schedule.chunks):
        if starts_with(schedule, rank, chunk):
            held[chunk] = rank + 1.0
    steps = programs(moves, schedule.ranks)[rank]
    rooms = {number: torch.empty(length, device=device) for step in steps for number in step.receives}
    wrong: list[str] = []

    def run() -> None:
        for step in steps:
            operations = [
                dist.P2POp(dist.isend, held[int(moves.chunk[i])], int(moves.destination[i]))
                for i in in_order(moves, step.sends)
            ]
            operations += [
                dist.P2POp(dist.irecv, rooms[i], int(moves.source[i])) for i in in_order(moves, step.receives)
            ]
            for work in dist.batch_isend_irecv(operations) if operations else []:
                work.wait()
            for i in step.receives:
                room = held[int(moves.chunk[i])]
                _ = room.add_(rooms[i]) if moves.reduce[i] else room.copy_(rooms[i])
        if not wrong:
            wrong.append(_first_wrong(schedule, rank, held))
            held.zero_()  # sums of sums would overflow

    return run, lambda: wrong[0]


def _first_wrong(schedule: Schedule, rank: int, held: torch.Tensor) -> str:
    """What a chunk that this rank must end with is instead, where every rank began with its number and one more."""
    ranks = schedule.ranks
    for chunk in range(schedule.chunks):
        if schedule.collective is Collective.ALL_REDUCE:
            wanted = ranks * (ranks + 1) / 2
        elif schedule.collective is Collective.ALL_TO_ALL and chunk % ranks == rank:
            wanted = chunk // ranks + 1.0
        else:
            continue
        if said := _unequal(held[chunk], wanted):
            return f"{said} in chunk {chunk}"
    return ""


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
        (found,) = self.in_turns([call], size, count)
        return found

    def in_turns(self, ways: Sequence[Call], size: int, count: int) -> list[list[float]]:
        """The same of several calls of one size, sample after sample of all of them in turn."""
        calls = self._calls(size)
        # One by one, launching would take longer than what is launched.
        graphs = [self.graph(call, calls) for call in ways] if self._gpu else []
        took: list[list[float]] = [[] for _ in ways]
        for turn in range(count + 2):
            for number, call in enumerate(ways):
                seconds = self.once(graphs[number].replay, 1) if self._gpu else self.once(call, calls)
                if turn >= 2:
                    took[number].append(seconds / calls)
        for graph in graphs:
            graph.reset()
        return [self.slowest(seconds) for seconds in took]

    def _calls(self, size: int) -> int:
        """How many calls a sample has."""
        if self._gpu:
            return max(_GPU_CALLS, min(MOST_CALLS, _GPU_WORK // max(size, 1)))
        return max(1, min(MOST_CALLS, WORK // max(size, 1)))

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
