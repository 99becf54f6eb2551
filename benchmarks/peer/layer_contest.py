"""One rank of the row-parallel layer: checks it, and times it in the same turns as a product and NCCL's all-reduce.

Started by benchmarks.collectives, a process a GPU. Rank 0 prints a line of JSON for each size: seconds by way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import cycle
from statistics import median
from typing import Any

import cupy
import torch
import torch.distributed as dist

from benchmarks.collectives_rank import join, to_the_end
from benchmarks.peer.layer_records import MATMUL, NCCL, OURS
from systems.network.execution.calls import Clock
from systems.peer.kernels import PeerError, one_shot_shape, two_shot_shape
from systems.peer.layer import RowParallel
from systems.peer.ranks import Call, Ranks
from systems.peer.row_parallel import WIDTHS
from systems.peer.team import PeerTeam
from systems.peer.truth import drawn, first_wrong, products, sparse

N, KS = 8192, (4096, 14336)  # Llama 3 70B: the outputs of attention and of its MLP, half of k a rank
MS = (16, 64, 256, 1024, 4096)  # tokens
RACED = 3  # samples for each width of tiles
WEIGHTS = 256 << 20  # bytes that are multiplied in turns, so that the L2 keeps none of them from call to call
MOST_CALLS, FEWEST_CALLS, WORK = 50, 5, 1e13  # of a sample, and the FLOP that it is to have


class LayerContest:
    """The measurements of one rank."""

    def __init__(self, layer: RowParallel, team: PeerTeam, ranks: Ranks) -> None:
        self._layer, self._team, self._ranks = layer, team, ranks

    def work(self) -> Iterator[Callable[[int], dict[str, Any]]]:
        """What makes each measurement of so many samples."""
        for k in KS:
            for m in MS:
                yield partial(self._measured, m, k)

    def _measured(self, m: int, k: int, samples: int) -> dict[str, Any]:
        self._check(m, k, whole=True)
        right = self._check(m, k, whole=False)
        a = _inputs(m, k, self._ranks.rank, False)
        calls = int(max(FEWEST_CALLS, min(MOST_CALLS, WORK / (2 * m * N * k))))
        ours = {str(width): self._on_weights(k, partial(self._ours, a, width)) for width in WIDTHS}
        took = self._ranks.in_turns(ours, RACED, calls)
        best = min(ours, key=lambda width: median(took[width]))  # the same on both ranks
        ways = {name: self._on_weights(k, way) for name, way in self._rivals(a).items()}
        self._layer.out.fill_(float("nan"))
        self._ranks.together()
        times = self._ranks.in_turns({**ways, OURS: ours[best]}, samples, calls)
        self._right(self._layer.out[: m * N].view(m, N), *right, f"The last call that was timed, of {m} x {N} x {k},")
        return {"shape": [m, N, k], "memory": self._layer.way, "width": int(best), "calls": calls, "ways": times}

    def _rivals(self, a: torch.Tensor) -> dict[str, Callable[[torch.Tensor], None]]:
        """A product, alone and followed by each all-reduce that there is for its size."""
        c = torch.empty((a.shape[0], N), dtype=torch.bfloat16, device="cuda")
        summed = torch.empty_like(c)
        after: dict[str, Call] = {MATMUL: lambda: None, NCCL: lambda: dist.all_reduce(c)}
        by_hand = {"one-shot": (self._team.one_shot, one_shot_shape), "two-shot": (self._team.two_shot, two_shot_shape)}
        for name, (work, shape_for) in by_hand.items():
            try:
                after[f"{MATMUL}, {name}"] = partial(work, c, summed, shape_for(self._team.layout, c.nbytes))
            except PeerError:  # too large for its memory
                continue

        def way(reduce: Call, b: torch.Tensor) -> None:
            torch.matmul(a, b, out=c)
            reduce()

        return {name: partial(way, reduce) for name, reduce in after.items()}

    def _ours(self, a: torch.Tensor, width: int, b: torch.Tensor) -> None:
        self._layer(a, b, width)

    def _on_weights(self, k: int, way: Callable[[torch.Tensor], None]) -> Call:
        """The way with one copy of the weights after the other."""
        b = _inputs(k, N, self._ranks.rank, False)
        copies = cycle([b.clone() for _ in range(-(-WEIGHTS // b.nbytes))])
        return lambda: way(next(copies))

    def _check(self, m: int, k: int, whole: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Whole numbers must be exact, others within their roundings: what is right, and what that may differ by.

        Raises PeerError if it is not.
        """
        parts = [(_inputs(m, k, rank, whole), _inputs(k, N, rank, whole)) for rank in range(self._ranks.ranks)]
        total, allowed = products(parts)
        if whole:
            total, allowed = total.to(torch.bfloat16).double(), torch.zeros_like(total)
        for width in WIDTHS:
            what = f"The layer of {m} x {N} x {k} by tiles of {width} columns"
            self._layer.out.fill_(float("nan"))
            self._ranks.together()
            found = self._layer(*parts[self._ranks.rank], width)
            self._ranks.settle(what)
            self._right(found, total, allowed, what)
        return total, allowed

    def _right(self, found: torch.Tensor, truth: torch.Tensor, allowed: torch.Tensor, what: str) -> None:
        if wrong := first_wrong(found, truth, allowed):
            raise PeerError(f"{what} gave {wrong} on rank {self._ranks.rank}.")
        self._ranks.alike(found, what)


@cache
def _inputs(rows: int, columns: int, rank: int, whole: bool) -> torch.Tensor:
    """A rank's A or B on this GPU, the same on all."""
    number = 2 * rows + columns  # of the draw: A and B are never alike
    if whole:
        return sparse(rows, columns, rank + 2 * number).cuda()
    return drawn(rows * columns, rank, number, torch.bfloat16, False).view(rows, columns).cuda()


def main() -> None:
    """Measure as the JSON on the command line says."""
    job = json.loads(sys.argv[1])
    rank, ranks = job["rank"], job["ranks"]
    device, group = join(job)
    cupy.cuda.Device(rank).use()
    clock = Clock(device, group)
    layer, team = RowParallel(rank, ranks, group, max(MS), N), PeerTeam(rank, ranks, group)
    together = Ranks(rank, ranks, clock, group, lambda: layer.fault() or team.fault())
    work = LayerContest(layer, team, together).work()
    for measured in together.while_time(work, job["until"], "the row-parallel layer"):
        said = measured(job["samples"])
        if rank == 0:
            print(json.dumps(said), flush=True)
    dist.barrier(group=group)


if __name__ == "__main__":
    to_the_end(main)
