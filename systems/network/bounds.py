"""What no schedule of messages can beat on a topology: the least time that its ports, nodes and leaves need.

Only what has to cross is counted. Cut the ranks in m groups, and C bytes/s be all that the groups can take in together:

* All-reduce: each element's data of m groups becomes one sum (m - 1 receptions, wherever it is made) that m - 1 groups
  then have to be told, so that 2 (m - 1) sizes come in somewhere: 2 (m - 1) size / C (Patarasuk and Yuan, J. Parallel
  Distrib. Comput. 69, 2009, for single ranks). And each group takes in and gives out one size at least.
* All-gather, reduce-scatter, all-to-all: each group takes in, and gives out, all that is not its own already.
* Broadcast, reduce: each group without the root takes in (or gives out) one size.

Switches that reduce go below. The latency is that from one rank to the farthest, for every rank hears of every other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from systems.network.collectives import Collective
from systems.network.links import NetworkError
from systems.network.topology import Floats, Integers, Topology


@dataclass(frozen=True)
class Bound:
    """The least seconds of a collective: the larger of two terms. `where` is the level that limits the bandwidth."""

    latency: float
    bandwidth: float
    where: str

    @property
    def seconds(self) -> float:
        return max(self.latency, self.bandwidth)


def bound(collective: Collective, topology: Topology, size: float, root: int = 0) -> Bound:
    """The bound for `size` bytes. Raises NetworkError for send_recv, which `Topology.rate` answers."""
    if collective is Collective.SEND_RECV:
        raise NetworkError("A send_recv takes a topology's alpha plus size / rate: it needs no bound.")
    groups = np.full(len(topology.names), -1)
    groups[: topology.ranks] = np.arange(topology.ranks)
    levels = [("ranks", groups), *topology.levels]
    times = [(_least(collective, topology, of, size, root), name) for name, of in levels if of.max() > 0]
    seconds, where = max(times)
    return Bound(float(_nearest(topology, root)[: topology.ranks].max()), seconds, where)


def _nearest(topology: Topology, root: int) -> Floats:
    """The least latency from a rank to every vertex, whoever forwards: at most that of the route."""
    far = np.full(len(topology.names), np.inf)
    far[root] = 0
    while True:
        before = far.copy()
        np.minimum.at(far, topology.heads, before[topology.tails] + topology.latency)
        if (far == before).all():
            return far


def _least(collective: Collective, topology: Topology, groups: Integers, size: float, root: int) -> float:
    """Seconds that the level's ports need; `groups` has a number for each vertex, -1 for what is outside of all."""
    m, n = int(groups.max()) + 1, topology.ranks
    tail, head = groups[topology.tails], groups[topology.heads]
    crossing = tail != head
    into = np.bincount(head[crossing & (head >= 0)], topology.bandwidth[crossing & (head >= 0)], m)
    out = np.bincount(tail[crossing & (tail >= 0)], topology.bandwidth[crossing & (tail >= 0)], m)
    members = np.bincount(groups[:n], minlength=m)
    needs_in, needs_out = _needs(collective, members, n, size, int(groups[root]))
    worst = max(float((needs_in / into).max()), float((needs_out / out).max()))
    if collective is Collective.ALL_REDUCE:
        worst = max(worst, 2 * (m - 1) * size / float(into.sum()))
    return worst


def _needs(collective: Collective, members: Integers, n: int, size: float, rooted: int) -> tuple[Floats, Floats]:
    """What each group takes in and gives out at least, bytes."""
    ones = np.full(len(members), float(size))
    others = size * (n - members) / n
    if collective is Collective.ALL_REDUCE:
        return ones, ones
    if collective is Collective.ALL_GATHER:
        return others, size * members / n
    if collective is Collective.REDUCE_SCATTER:
        return size * members / n, others
    if collective is Collective.ALL_TO_ALL:
        return others * members, others * members
    root = np.zeros(len(members))
    root[rooted] = size
    rest = ones - root
    return (rest, root) if collective is Collective.BROADCAST else (root, rest)
