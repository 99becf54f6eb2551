"""How long a schedule takes on a topology, with contention, and which links it wears out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from systems.network.collectives import bus_bandwidth
from systems.network.schedules.model import Schedule
from systems.network.simulation import events, waves
from systems.network.simulation.traffic import classify, exclusive, lay, link_bytes
from systems.network.topology import Topology


@dataclass(frozen=True, eq=False)
class Simulated:
    """The result: when each rank is done (s), the bytes over each link, and how it was found.

    `method` is "waves" where no two transfers can share a link, else "events". `classes` is the number of classes of
    ranks that had to be told apart.
    """

    schedule: Schedule
    topology: Topology
    size: float
    done: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    method: str
    classes: int

    @property
    def seconds(self) -> float:
        """Until the last rank is done."""
        return float(self.done.max())

    @property
    def bus_bandwidth(self) -> float:
        """Bytes/s as nccl-tests' busbw."""
        return bus_bandwidth(self.schedule.collective, self.schedule.ranks, self.size, self.seconds)

    def busiest(self, number: int = 5) -> list[tuple[str, float]]:
        """The links with the most to do, each with the share of the time that its bytes alone take."""
        share = self.link_bytes / self.topology.bandwidth / self.seconds
        order = np.argsort(-share, kind="stable")[:number]
        names, tails, heads = self.topology.names, self.topology.tails, self.topology.heads
        return [(f"{names[int(tails[i])]} to {names[int(heads[i])]}", float(share[i])) for i in order if share[i] > 0]


def simulate(schedule: Schedule, topology: Topology, size: float) -> Simulated:
    """Run a schedule for `size` bytes (as `collectives` counts them).

    Reductions and copies within a GPU take no time; each transfer pays its path's latency once it may begin. Raises
    NetworkError if the ranks do not fit, the schedule has a deadlock, or it is too irregular for its size.
    """
    traffic = lay(schedule, topology, size)
    carried = link_bytes(traffic)
    if exclusive(traffic):
        done = waves.run(traffic)
        return Simulated(schedule, topology, size, done, carried, "waves", schedule.ranks)
    classes = classify(traffic)
    done = events.run(traffic, classes)
    return Simulated(schedule, topology, size, done, carried, "events", int(classes.rank.max()) + 1)
