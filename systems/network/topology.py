"""A network as a graph: vertices, directed links with bandwidth and latency, and the way from each rank to each other.

Vertices 0 to ranks - 1 are the ranks (GPUs or TPUs); the others are switches, NICs and processors. A cable is two
links, one each way, so that traffic against each other does not share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systems.network.links import NetworkError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Router = Callable[[Integers, Integers], Integers]


@dataclass(frozen=True, eq=False)
class Topology:
    """A network of `ranks` GPUs. `router(sources, destinations)` gives link numbers, a row a pair, -1 after the last.

    `names` has one name a vertex; `heads`, `tails`, `bandwidth` (bytes/s) and `latency` (s) have one entry a link,
    which leads from vertex `tails[i]` to vertex `heads[i]`. the network looks the same after every `period` ranks,
    where it has that many leaves or nodes alike: a hint for the simulator, which checks it.

    `levels` are larger and larger parts: a name ("nodes") and the number of its part for each vertex, -1 for none.
    """

    name: str
    ranks: int
    period: int
    names: Sequence[str]
    tails: Integers
    heads: Integers
    bandwidth: Floats
    latency: Floats
    router: Router
    levels: tuple[tuple[str, Integers], ...] = ()

    def routes(self, sources: Any, destinations: Any) -> Integers:
        """The links of each pair's way, a row a pair, padded with -1. Raises NetworkError for unknown ranks."""
        sources, destinations = np.atleast_1d(np.asarray(sources)), np.atleast_1d(np.asarray(destinations))
        for rank in (sources, destinations):
            if rank.size and not (rank.min() >= 0 and rank.max() < self.ranks):
                wrong = int(rank.max() if rank.max() >= self.ranks else rank.min())
                raise NetworkError(f"There is no rank {wrong} in {self.name}: it has ranks 0 to {self.ranks - 1}.")
        if np.any(sources == destinations):
            rank = int(sources[sources == destinations][0])
            raise NetworkError(f"Rank {rank} of {self.name} cannot send to itself: nothing of that uses the network.")
        return self.router(sources, destinations)

    def path(self, source: int, destination: int) -> list[str]:
        """The names of the vertices from one rank to another."""
        links = [int(link) for link in self.routes(source, destination)[0] if link >= 0]
        return [self.names[source], *(self.names[int(self.heads[link])] for link in links)]

    def alpha(self, source: int, destination: int) -> float:
        """Seconds until the first byte arrives: the latencies on the way."""
        row = self.routes(source, destination)[0]
        return float(self.latency[row[row >= 0]].sum())

    def rate(self, source: int, destination: int) -> float:
        """Bytes/s of a transfer that is alone: the narrowest link on the way."""
        row = self.routes(source, destination)[0]
        return float(self.bandwidth[row[row >= 0]].min())

    def links_between(self, tail: str, head: str) -> Integers:
        """The links from a vertex to another, by their names. Raises NetworkError if there is none."""
        found = np.flatnonzero((self.tails == self.vertex(tail)) & (self.heads == self.vertex(head)))
        if not found.size:
            raise NetworkError(f"No link leads from {tail} to {head} in {self.name}: see its `names` and `path`.")
        return found

    def vertex(self, name: str) -> int:
        """The number of a vertex. Raises NetworkError if it is not there."""
        try:
            return self._numbers[name]
        except KeyError:
            raise NetworkError(f"There is no {name!r} in {self.name}: see its `names`.") from None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def slowed(self, vertex: str, factor: float) -> Topology:
        """The same with every link at a vertex `factor` times slower: a slow rank ("gpu 3"), NIC or switch."""
        if not factor >= 1:
            raise NetworkError(f"A vertex cannot be slowed by {factor:g}: the factor must be at least 1.")
        number = self.vertex(vertex)
        bandwidth = self.bandwidth.copy()
        bandwidth[(self.tails == number) | (self.heads == number)] /= factor
        return replace(self, name=f"{self.name}, {vertex} {factor:g}x slower", bandwidth=bandwidth)

    def without(self, tail: str, head: str) -> Topology:
        """The same with a cable cut, both directions; what went over it takes the shortest way that is left.

        Raises NetworkError if there is no such cable; asking for a route that no longer exists does as well.
        """
        failed = np.concatenate([self.links_between(tail, head), self.links_between(head, tail)])
        alive = np.ones(len(self.tails), bool)
        alive[failed] = False
        around = shortest_paths(f"{self.name} without {tail} to {head}", self.ranks, self.tails, self.heads, alive)

        def router(sources: Integers, destinations: Integers) -> Integers:
            rows = self.router(sources, destinations)
            hit = np.isin(rows, failed).any(axis=1)
            if not hit.any():
                return rows
            other = around(sources[hit], destinations[hit])
            width = max(rows.shape[1], other.shape[1])
            rows = np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1)
            rows[hit] = np.pad(other, ((0, 0), (0, width - other.shape[1])), constant_values=-1)
            return rows

        return replace(self, name=f"{self.name} without {tail} to {head}", router=router)


def shortest_paths(
    name: str, ranks: int, tails: Integers, heads: Integers, alive: NDArray[np.bool_] | None = None
) -> Router:
    """A router by breadth-first search: the fewest links, the lowest numbers among as many. For small graphs.

    Other ranks on the way forward traffic, as GPUs of a mesh do. The router raises NetworkError where there is no way.
    """
    leaving: dict[int, list[tuple[int, int]]] = {}
    for link in range(len(tails)):
        if alive is None or alive[link]:
            leaving.setdefault(int(tails[link]), []).append((link, int(heads[link])))
    ways: dict[int, dict[int, int]] = {}  # for each source: the last link to each vertex

    def search(source: int) -> dict[int, int]:
        last: dict[int, int] = {source: -1}
        queue = deque([source])
        while queue:
            at = queue.popleft()
            for link, to in leaving.get(at, ()):
                if to not in last:
                    last[to] = link
                    queue.append(to)
        return last

    def router(sources: Integers, destinations: Integers) -> Integers:
        rows = []
        for source, destination in zip(sources.tolist(), destinations.tolist(), strict=True):
            if source not in ways:
                ways[source] = search(source)
            row, at = [], destination
            while at != source:
                if at not in ways[source]:
                    raise NetworkError(f"There is no way from rank {source} to rank {destination} in {name}.")
                row.append(ways[source][at])
                at = int(tails[row[-1]])
            rows.append(row[::-1])
        width = max((len(row) for row in rows), default=0)
        return np.array([row + [-1] * (width - len(row)) for row in rows], np.int64).reshape(len(rows), width)

    return router
