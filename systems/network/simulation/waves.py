"""The exact time of a schedule whose transfers never share a link: step by step, all ranks at once."""

from __future__ import annotations

import numpy as np

from systems.network.simulation.traffic import Floats, Integers, Traffic


def run(traffic: Traffic) -> Floats:
    """When each rank is done, in seconds. The traffic must be `exclusive`.

    A transfer begins when both ends have come to its step and takes its latency and its bytes over the narrowest link;
    a rank leaves a step with the last of its transfers.
    """
    narrowest = np.where(traffic.uses >= 0, traffic.bandwidth[traffic.uses], np.inf).min(1)
    lasts = traffic.latency + traffic.bytes / narrowest
    ready = np.zeros(traffic.ranks)
    for phase, repeats in enumerate(traffic.repeats):
        mine = np.flatnonzero(traffic.phase == phase)
        steps = [mine[traffic.step[mine] == step] for step in np.unique(traffic.step[mine])]
        waves = [(traffic.source[at], traffic.destination[at], lasts[at], _once(traffic, at)) for at in steps]
        for _ in range(repeats):
            for source, destination, takes, once in waves:
                end = np.maximum(ready[source], ready[destination]) + takes
                if once:  # every rank sends and receives at most once: what it leaves with is the later of two
                    ready[source] = end
                    ready[destination] = np.maximum(ready[destination], end)
                else:
                    np.maximum.at(ready, source, end)
                    np.maximum.at(ready, destination, end)
    return ready


def _once(traffic: Traffic, at: Integers) -> bool:
    source, destination = traffic.source[at], traffic.destination[at]
    return len(np.unique(source)) == len(source) and len(np.unique(destination)) == len(destination)
