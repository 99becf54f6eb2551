"""Three ways to say how long a product takes, and a quick one to choose by.

device   from event to event, with a cold L2, in turns (warplab.gpu.stopwatch)
offline  by the host's clock, from the call until the GPU is done, with a cold L2, in turns
server   requests at exponentially distributed gaps, one at a time in the order of their arrival: from the arrival until
         the GPU is done, whatever the L2 has

The last two time the launch too. So each candidate is measured as its interface is called from Python, and once more
as a CUDA graph of one product, which is the same launch for all.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, EventOptions, Stream

from warplab.errors import WarplabError
from warplab.gpu import trusted
from warplab.gpu.executor import checked
from warplab.gpu.stopwatch import HIDE_MICROSECONDS, TICK_CYCLES, ColdCache, TurnTimes

TURNS = 16  # of the host's clock
REQUESTS = 25  # of one turn of a server, at most
SERVER_SECONDS = 0.03  # of one turn, about: large products get fewer requests
GAP = 2.0  # times as long as the slowest candidate takes: the server is busy half of the time, at most
# Launches, and how far behind the best one may be to go on
ROUNDS = ((3, 1.3), (6, 1.08), (12, 1.04), (24, 1.03), (48, 1.02), (96, 1.0))


class Graph:
    """One launch of a candidate as a CUDA graph, a candidate too. Raises DeviceError if it cannot be recorded."""

    def __init__(self, candidate: Any, stream: Stream) -> None:
        self.launches = candidate.launches
        self._stream = driver.CUstream(int(stream.handle))
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        checked(driver.cuStreamBeginCapture(self._stream, mode))
        try:
            candidate.launch()
        finally:
            ended = driver.cuStreamEndCapture(self._stream)
        checked(ended)
        made = driver.cuGraphInstantiate(ended[1], 0)
        checked(made)
        self._graph, self._made = ended[1], made[1]

    def launch(self) -> None:
        """Queue the graph."""
        checked(driver.cuGraphLaunch(self._made, self._stream))

    def close(self) -> None:
        """Free the graph."""
        driver.cuGraphExecDestroy(self._made)
        driver.cuGraphDestroy(self._graph)


def graphs_of(candidates: Mapping[str, Any], stream: Stream) -> dict[str, Graph]:
    """The candidates as graphs; whose launch cannot be recorded is said and left out."""
    graphs = {}
    for name, candidate in candidates.items():
        try:
            graphs[name] = Graph(candidate, stream)
        except (RuntimeError, WarplabError) as error:
            print(f"{name} cannot be recorded as a graph: {error}", file=sys.stderr, flush=True)
    return graphs


def choose(candidates: Mapping[str, Any], stream: Stream, cold: ColdCache, random: Random) -> dict[str, float]:
    """Microseconds of each candidate on the device, with a cold L2, in shuffled turns.

    After each of ROUNDS only those go on that are near the best: the others' times are medians of fewer launches.
    """
    begin, end = (Device().create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    left = list(candidates)
    for launches, near in ROUNDS:
        for _ in range(launches):
            random.shuffle(left)
            for name in left:
                candidate = candidates[name]
                cold.sweep()
                trusted.spin(stream, HIDE_MICROSECONDS * (1 + candidate.launches), random.randrange(TICK_CYCLES))
                stream.record(begin)
                candidate.launch()
                stream.record(end)
                end.sync()
                samples[name].append((end - begin) * 1e3)
        best = min(median(samples[name]) for name in left)
        left = [name for name in left if median(samples[name]) <= near * best]
    return {name: median(times) for name, times in samples.items()}


def offline(candidates: Mapping[str, Any], stream: Stream, cold: ColdCache) -> TurnTimes:
    """Milliseconds by the host's clock."""
    times = TurnTimes({name: [] for name in candidates})
    with _undisturbed():
        for turn in range(-2, TURNS):
            for name in _order(candidates, turn):
                cold.sweep()
                stream.sync()
                began = perf_counter()
                candidates[name].launch()
                stream.sync()
                taken = perf_counter() - began
                if turn >= 0:
                    times.samples[name].append(taken * 1e3)
    return times


def server(candidates: Mapping[str, Any], stream: Stream, slowest: float, random: Random) -> TurnTimes:
    """Milliseconds from a request's arrival until its product is there, the mean of a turn's requests.

    `slowest` is the slowest candidate's time in milliseconds; all candidates of a turn get the same arrivals.
    """
    gap = GAP * slowest / 1e3
    requests = int(min(REQUESTS, max(5, SERVER_SECONDS / gap)))
    times = TurnTimes({name: [] for name in candidates})
    with _undisturbed():
        for turn in range(TURNS):
            arrivals = np.cumsum([random.expovariate(1 / gap) for _ in range(requests)])
            for name in _order(candidates, turn):
                launch, waited = candidates[name].launch, 0.0
                stream.sync()
                start = perf_counter()
                for arrival in arrivals:
                    while perf_counter() - start < arrival:
                        pass
                    launch()
                    stream.sync()
                    waited += perf_counter() - start - arrival
                times.samples[name].append(waited / requests * 1e3)
    return times


def _order(candidates: Mapping[str, Any], turn: int) -> list[str]:
    names = list(candidates)
    return names if turn % 2 else names[::-1]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without Python's collector of garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
