"""One rank of all-reduces by hand: checks them, and times them in the same turns as NCCL's, in CUDA graphs.

Started by benchmarks.collectives, a process a GPU. Rank 0 prints a line of JSON for each size: seconds by way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import median
from typing import Any

import cupy
import torch
import torch.distributed as dist
from torch.nn.functional import rms_norm

from benchmarks.collectives_rank import join, to_the_end
from systems.network.execution.calls import Clock
from systems.peer.kernels import PeerError, Shape, one_shot_shape, two_shot_ll_shape, two_shot_shape
from systems.peer.ranks import Call, Ranks
from systems.peer.team import PeerTeam
from systems.peer.truth import drawn, first_wrong, normed, sums

CALLS = 50  # in a graph, so that the one wait for a rank that begins late is little of it
SIZES = tuple(1 << power for power in range(10, 21))
DTYPES = ("float32", "bfloat16")
THREADS = (64, 128, 256, 512)  # a block, of the launches that are raced
ROWS, WIDTH = (1, 4, 16, 64), 8192  # tokens, and the numbers of one, in bfloat16
EPSILON = 1e-5
RACED = 5  # samples for each launch

Found = tuple[dict[str, Any], dict[str, Call]]  # what is measured, and the ways to do it


class Contest:
    """The measurements of one rank."""

    def __init__(self, team: PeerTeam, ranks: Ranks) -> None:
        self._team, self._ranks = team, ranks

    def work(self) -> Iterator[Callable[[], Found]]:
        """What makes each measurement ready, in the order of importance."""
        for dtype in DTYPES:
            for size in SIZES:
                yield partial(self._whole, dtype, size)
            if dtype == DTYPES[0]:
                yield from (partial(self._rows, rows) for rows in ROWS)

    def _whole(self, dtype: str, size: int) -> Found:
        """An all-reduce of `size` bytes: checked, and the launches chosen that are timed."""
        kind = getattr(torch, dtype)
        count = size // kind.itemsize
        layout, team = self._team.layout, self._team
        choices = {
            "one-shot": (team.one_shot, {one_shot_shape(layout, size, threads) for threads in THREADS}),
            "two-shot": (team.two_shot, {two_shot_shape(layout, size, threads) for threads in THREADS}),
            "two-shot, LL": (team.two_shot_ll, {two_shot_ll_shape(layout, size, threads) for threads in THREADS}),
        }
        zeros, out = (torch.zeros(count, dtype=kind, device="cuda") for _ in range(2))
        ways: dict[str, Call] = {"nccl": partial(dist.all_reduce, torch.zeros_like(zeros))}
        chosen: dict[str, list[int]] = {}
        for name, (work, shapes) in choices.items():
            ordered = sorted(shapes, key=lambda shape: (shape.blocks, shape.threads))
            for shape in ordered:
                self._check(partial(work, shape=shape), kind, count, f"The {name} of {size} bytes of {dtype}")
            shape = self._fastest({shape: partial(work, zeros, out, shape) for shape in ordered})
            ways[name] = partial(work, zeros, out, shape)
            chosen[name] = [shape.blocks, shape.threads]
        return {"name": "all_reduce", "dtype": dtype, "shape": [size], "launches": chosen}, ways

    def _fastest(self, calls: Mapping[Shape, Call]) -> Shape:
        if len(calls) == 1:
            return next(iter(calls))
        took = self._ranks.in_turns({str(number): call for number, call in enumerate(calls.values())}, RACED, CALLS)
        best = min(range(len(calls)), key=lambda number: median(took[str(number)]))  # the same on all ranks
        return list(calls)[best]

    def _check(self, work: Callable[..., None], kind: torch.dtype, count: int, what: str) -> None:
        """Whole numbers must be exact, others within their rounding, and all ranks must have the same bits.

        Twice each, so that both sets of lines are used. Raises PeerError.
        """
        out = torch.empty(count, dtype=kind, device="cuda")
        for number, whole in enumerate((True, True, False, False)):
            parts = [drawn(count, peer, number, kind, whole) for peer in range(self._ranks.ranks)]
            out.fill_(float("nan"))
            mine = parts[self._ranks.rank].cuda()
            self._ranks.together()
            work(mine, out)
            self._ranks.settle(what)
            truth, allowed = sums(torch.stack(parts).double(), kind)
            self._right(out, truth, allowed * (not whole), what)

    def _rows(self, rows: int) -> Found:
        """All-reduce, residual and RMS norm of so many rows: fused, and one after the other."""
        team, kind = self._team, torch.bfloat16
        parts = [drawn(rows * WIDTH, peer, 5, kind, False).view(rows, WIDTH) for peer in range(self._ranks.ranks)]
        residual = drawn(rows * WIDTH, 100, 5, kind, False).view(rows, WIDTH)
        weight = drawn(WIDTH, 101, 5, kind, False)
        mine, more, by = parts[self._ranks.rank].cuda(), residual.cuda(), weight.cuda()
        hidden, out = (torch.full((rows, WIDTH), float("nan"), dtype=kind, device="cuda") for _ in range(2))
        what = f"The fused kernel of {rows} rows"
        for _ in range(3):
            self._ranks.together()
            team.fused(mine, more, by, hidden, out, EPSILON)
            self._ranks.settle(what)
            wanted = normed(torch.stack(parts).double(), residual.double(), weight.double(), EPSILON, kind)
            for found, (truth, allowed) in zip((hidden, out), wanted, strict=True):
                self._right(found, truth, allowed, what)
        wanted = normed(parts[self._ranks.rank][None].double(), residual.double(), weight.double(), EPSILON, kind)
        team.add_norm(mine, more, by, hidden, out, EPSILON)
        self._ranks.settle("The kernel of residual and norm")
        for found, (truth, allowed) in zip((hidden, out), wanted, strict=True):
            if wrong := first_wrong(found.cpu(), truth, allowed):
                raise PeerError(f"The kernel of residual and norm gave {wrong}.")
        zeros, summed = (torch.zeros((rows, WIDTH), dtype=kind, device="cuda") for _ in range(2))

        def by_nccl() -> None:
            dist.all_reduce(zeros)
            team.add_norm(zeros, more, by, hidden, out, EPSILON)

        def by_torch() -> None:
            dist.all_reduce(zeros)
            torch.add(zeros, more, out=hidden)
            rms_norm(hidden, (WIDTH,), by, EPSILON)

        def one_shot() -> None:
            team.one_shot(zeros, summed)
            team.add_norm(summed, more, by, hidden, out, EPSILON)

        ways: dict[str, Call] = {
            "nccl": by_nccl,
            "nccl and torch": by_torch,
            "one-shot": one_shot,
            "fused": partial(team.fused, zeros, more, by, hidden, out, EPSILON),
        }
        return {"name": "all_reduce, residual, RMS norm", "dtype": "bfloat16", "shape": [rows, WIDTH]}, ways

    def _right(self, found: torch.Tensor, truth: torch.Tensor, allowed: torch.Tensor, what: str) -> None:
        if wrong := first_wrong(found.cpu(), truth, allowed):
            raise PeerError(f"{what} gave {wrong} on rank {self._ranks.rank}.")
        self._ranks.alike(found, what)


def main() -> None:
    """Measure as the JSON on the command line says."""
    job = json.loads(sys.argv[1])
    rank, ranks = job["rank"], job["ranks"]
    device, group = join(job)
    cupy.cuda.Device(rank).use()
    clock = Clock(device, group)
    team = PeerTeam(rank, ranks, group)
    together = Ranks(rank, ranks, clock, group, team.fault)
    for ready in together.while_time(Contest(team, together).work(), job["until"], "all-reduces by hand"):
        said, ways = ready()
        said["ways"] = together.in_turns(ways, job["samples"], CALLS)
        if rank == 0:
            print(json.dumps(said | {"memory": team.way}), flush=True)
    dist.barrier(group=group)


if __name__ == "__main__":
    to_the_end(main)
