"""What the host pays for a launch, and what the GPU does between two kernels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import cupy
import numpy as np
from cuda.bindings import driver

from benchmarks.micro import card
from course.results import Record

LAUNCHES = 1000


def records() -> Iterator[Record]:
    """Every measurement of this file, in turn."""
    stream = cupy.cuda.Stream(non_blocking=True)
    function = driver.CUfunction(card.kernel("memory", "nothing").kernel.ptr)

    def launch() -> None:
        (error,) = driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream.ptr, 0, 0)
        if int(error):
            raise RuntimeError(f"cuLaunchKernel: {error}")

    for _ in range(100):
        launch()
    stream.synchronize()
    begin = time.perf_counter()
    for _ in range(LAUNCHES):
        launch()
    queued = (time.perf_counter() - begin) / LAUNCHES
    stream.synchronize()
    done = (time.perf_counter() - begin) / LAUNCHES
    note = "an empty kernel, cuLaunchKernel from Python"
    yield Record("launch", "time", queued, "s", variant="host, queued", conditions=f"{note}; {LAUNCHES} in a row, each")
    yield Record("launch", "time", done, "s", variant="host, finished", conditions=f"{note}; {LAUNCHES} in a row, each")
    yield Record(
        "launch", "time", _round_trip(launch, stream), "s", variant="round trip", conditions=f"{note}, then wait"
    )
    yield Record(
        "launch", "time", _spacing(launch, stream), "s", variant="between kernels",
        conditions="empty kernels that were all queued before the first could run; GPU time each",
    )  # fmt: skip
    yield Record(
        "launch", "time", _graph(launch, stream), "s", variant="in a graph",
        conditions="a CUDA graph of empty kernels, one after the other; GPU time each",
    )  # fmt: skip


def _round_trip(launch, stream: cupy.cuda.Stream) -> float:
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        launch()
        stream.synchronize()
        times.append(time.perf_counter() - begin)
    return median(times)


def _spacing(launch, stream: cupy.cuda.Stream, count: int = 400) -> float:
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    with stream:
        card.kernel("memory", "wait")((1,), (1,), (np.uint64(20_000_000),))
        begin.record(stream)
        for _ in range(count):
            launch()
        end.record(stream)
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) / 1e3 / count


def _graph(launch, stream: cupy.cuda.Stream, count: int = 400) -> float:
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    with stream:
        stream.begin_capture()
        for _ in range(count):
            launch()
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
        begin.record(stream)
        graph.launch(stream)
        end.record(stream)
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) / 1e3 / count
