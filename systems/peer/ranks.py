"""What the ranks of a measurement do together: wait for each other, take turns, compare what they have.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from systems.network.execution.calls import Clock
from systems.peer.kernels import PeerError

Call = Callable[[], None]
T = TypeVar("T")
_WARMING = 2  # samples of each way that are left out


class Ranks:
    """One rank among `ranks`. `fault` is what a kernel that waited in vain says, "" while none has."""

    def __init__(self, rank: int, ranks: int, clock: Clock, group: Any, fault: Callable[[], str]) -> None:
        self.rank, self.ranks = rank, ranks
        self._clock, self._group, self._fault = clock, group, fault

    def together(self) -> None:
        """No rank waits for one that is still busy on its host."""
        self._clock.wait()
        dist.barrier(group=self._group)

    def settle(self, what: str) -> None:
        """Wait for all that was queued. Raises PeerError if a kernel has waited in vain."""
        self._clock.wait()
        if fault := self._fault():
            raise PeerError(f"{what}: {fault}")

    def in_turns(self, ways: Mapping[str, Call], samples: int, calls: int) -> dict[str, list[float]]:
        """Seconds of one call by each way, the slowest rank's each, sample after sample of all ways in turn.

        A sample is a CUDA graph of so many calls. Raises PeerError as `settle` does.
        """
        graphs = {name: self._clock.graph(call, calls) for name, call in ways.items()}
        took: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(samples + _WARMING):
            for name, graph in graphs.items():
                seconds = self._clock.once(graph.replay, 1) / calls
                if turn >= _WARMING:
                    took[name].append(seconds)
        self.settle(", ".join(ways))
        for graph in graphs.values():
            graph.reset()
        return {name: self._clock.slowest(seconds) for name, seconds in took.items()}

    def while_time(self, work: Iterable[T], until: float, what: str) -> Iterator[T]:
        """Each piece of the work that begins before `until`, in seconds since the epoch; rank 0 says what is cut."""
        for piece in work:
            if not self._clock.agree(time.time() < until):
                if self.rank == 0:
                    print(json.dumps({"cut": what}), flush=True)
                return
            yield piece

    def alike(self, found: torch.Tensor, what: str) -> None:
        """Raises PeerError on all ranks if they do not all have the same bits."""
        digests: list[Any] = [None] * self.ranks
        digest = zlib.crc32(found.cpu().view(torch.uint8).numpy().tobytes())
        dist.all_gather_object(digests, digest, group=self._group)
        if len(set(digests)) > 1:
            raise PeerError(f"{what} gave other bits on some ranks than on others.")
