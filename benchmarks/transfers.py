"""Measures copies between host and GPU, their overlap with kernels, CUDA graphs, and what a pair of events times.

Run as `python -m benchmarks.transfers` on a machine with a GPU. Writes benchmarks/results/transfers.json.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from course import results
from course.results import Record
from warplab.errors import WarplabError
from warplab.hardware.device import present

FILE = results.DIRECTORY / "transfers.json"
COMMAND = "python -m benchmarks.transfers"
SIZES = tuple(1 << power for power in range(12, 29, 2))  # bytes of a copy
WHOLE = 1 << 28  # bytes of the array that is cut into chunks
CHUNKS = (1, 2, 4, 8, 16, 32, 64)
DRAWN = 8  # chunks of the run whose timeline is kept
STREAMS = 3
LAUNCHES = (1, 10, 100, 1000)
TURNS = 9
UP, DOWN = "host to device", "device to host"
_SOURCE = r"""
extern "C" __global__ void chain(float* x, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
        for (int step = 0; step < steps; ++step) value = value * 0.999f + 0.001f;
        x[i] = value;
    }
}
"""


class _Machine:
    """A GPU with an array on both sides: pinned, pageable, and in its own memory."""

    def __init__(self) -> None:
        import cupy
        import cupyx

        self.cupy = cupy
        self.count = WHOLE // 4
        self.pinned = {UP: cupyx.empty_pinned(self.count, np.float32), DOWN: cupyx.empty_pinned(self.count, np.float32)}
        self.pageable = {UP: np.ones(self.count, np.float32), DOWN: np.ones(self.count, np.float32)}
        for array in self.pinned.values():
            array.fill(1)
        self.there = {UP: cupy.zeros(self.count, np.float32), DOWN: cupy.zeros(self.count, np.float32)}
        self.kernel = cupy.RawKernel(_SOURCE, "chain")
        self.streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]

    def copy(self, way: str, host: np.ndarray, stream: Any, first: int = 0, count: int | None = None) -> None:
        """Queue a copy of `count` elements from `first` on; from or to pageable memory it may wait."""
        last = self.count if count is None else first + count
        device, host = self.there[way][first:last], host[first:last]
        if way == UP:
            device.set(host, stream=stream)
        else:
            device.get(stream=stream, out=host, blocking=False)

    def compute(self, stream: Any, steps: int, first: int = 0, count: int | None = None) -> None:
        """Queue the kernel on a part of what was copied to the GPU."""
        part = self.there[UP][first : self.count if count is None else first + count]
        with stream:
            self.kernel(((part.size + 255) // 256,), (256,), (part, np.int32(part.size), np.int32(steps)))

    def seconds(self, work: Callable[[], None]) -> float:
        """The host's clock from an idle GPU to an idle GPU, the median of TURNS."""
        taken = []
        work()
        for _ in range(TURNS):
            self.cupy.cuda.Device().synchronize()
            begin = time.perf_counter()
            work()
            self.cupy.cuda.Device().synchronize()
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken)

    def between(self, stream: Any, work: Callable[[], None], events: Any = None) -> float:
        """Seconds between two events on `events` (default: the work's stream), the median of TURNS."""
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        taken = []
        for _ in range(TURNS):
            self.cupy.cuda.Device().synchronize()
            begin.record(events or stream)
            work()
            end.record(events or stream)
            self.cupy.cuda.Device().synchronize()
            taken.append(self.cupy.cuda.get_elapsed_time(begin, end) / 1e3)
        return statistics.median(taken)


def copies(machine: _Machine) -> list[Record]:
    """Rates of copies by size, direction and kind of memory, and of both directions at once."""
    stream, found = machine.streams[0], []
    for way in (UP, DOWN):
        for size in SIZES:
            rates = {}
            for kind, host in (("pinned", machine.pinned[way]), ("pageable", machine.pageable[way])):
                taken = machine.seconds(partial(machine.copy, way, host, stream, count=size // 4))
                rates[kind] = size / taken
            for kind, rate in rates.items():
                found.append(
                    Record(
                        way,
                        "rate",
                        rate,
                        "B/s",
                        variant=kind,
                        shape=(size,),
                        baseline="pageable memory",
                        baseline_value=rates["pageable"],
                        ratio=rate / rates["pageable"],
                        conditions="by the host's clock, from an idle GPU to an idle GPU",
                    )
                )
    alone = {way: machine.seconds(partial(machine.copy, way, machine.pinned[way], stream)) for way in (UP, DOWN)}

    def both() -> None:
        for way, own in zip((UP, DOWN), machine.streams, strict=False):
            machine.copy(way, machine.pinned[way], own)

    rate, one = 2 * WHOLE / machine.seconds(both), WHOLE / alone[UP]
    found.append(
        Record(
            "both directions", "rate", rate, "B/s", shape=(WHOLE,), baseline=UP, baseline_value=one, ratio=rate / one
        )
    )
    return found


def steps_for(machine: _Machine, seconds: float) -> int:
    """Steps of the kernel that take about so long on the whole array."""
    stream = machine.streams[0]
    few, many = (machine.between(stream, partial(machine.compute, stream, n)) for n in (1000, 3000))
    return max(1, int(1000 + (seconds - few) * 2000 / (many - few)))


def overlap(machine: _Machine) -> list[Record]:
    """A copy there, a kernel and a copy back, in chunks over three streams; the timeline of one such run."""
    stream = machine.streams[0]
    steps = steps_for(machine, machine.seconds(partial(machine.copy, UP, machine.pinned[UP], stream)))
    machine.there[DOWN] = machine.there[UP]  # what was computed is what comes back
    events: list[tuple[str, int, Any, Any]] = []

    def run(chunks: int, keep: bool = False) -> None:
        size = machine.count // chunks
        for chunk in range(chunks):
            own, first = machine.streams[chunk % STREAMS], chunk * size
            parts: dict[str, Callable[[], None]] = {
                UP: partial(machine.copy, UP, machine.pinned[UP], own, first, size),
                "kernel": partial(machine.compute, own, steps, first, size),
                DOWN: partial(machine.copy, DOWN, machine.pinned[DOWN], own, first, size),
            }
            for name, part in parts.items():
                marks = machine.cupy.cuda.Event(), machine.cupy.cuda.Event()
                if keep:
                    marks[0].record(own)
                part()
                if keep:
                    marks[1].record(own)
                    events.append((name, chunk, *marks))

    found, alone = [], 0.0
    for chunks in CHUNKS:
        taken = machine.seconds(partial(run, chunks))
        alone = alone or taken
        found.append(
            Record(
                "copy, compute, copy back",
                "time",
                taken,
                "s",
                shape=(chunks,),
                baseline="one chunk",
                baseline_value=alone,
                ratio=alone / taken,
                conditions=f"{WHOLE >> 20} MiB each way, pinned, {STREAMS} streams, {steps} multiply-adds an element",
            )
        )
    start = machine.cupy.cuda.Event()
    machine.cupy.cuda.Device().synchronize()
    start.record(stream)
    for other in machine.streams[1:]:
        other.wait_event(start)
    run(DRAWN, keep=True)
    machine.cupy.cuda.Device().synchronize()
    for name, chunk, begin, end in events:
        at, until = (machine.cupy.cuda.get_elapsed_time(start, event) / 1e3 for event in (begin, end))
        found.append(Record(name, "begin", at, "s", shape=(DRAWN, chunk), extra={"end": until}))
    return found


def graphs(machine: _Machine) -> list[Record]:
    """Small kernels launched one by one from Python, and as one CUDA graph: seconds per kernel."""
    stream, found = machine.streams[0], []
    for launches in LAUNCHES:

        def loop(launches: int = launches) -> None:
            for _ in range(launches):
                machine.compute(stream, 1, 0, 1024)

        one_by_one = machine.seconds(loop) / launches
        with stream:
            stream.begin_capture()
            loop()
            graph = stream.end_capture()
        graph.upload(stream)
        as_graph = machine.seconds(partial(graph.launch, stream)) / launches
        for variant, taken in (("one by one", one_by_one), ("graph", as_graph)):
            found.append(
                Record(
                    "small kernel",
                    "time",
                    taken,
                    "s",
                    variant=variant,
                    shape=(launches,),
                    baseline="one by one",
                    baseline_value=one_by_one,
                    ratio=one_by_one / taken,
                    conditions="4 blocks of 256 threads, from an idle GPU to an idle GPU",
                )
            )
    return found


def pitfalls(machine: _Machine) -> list[Record]:
    """What two events say of one kernel when they are placed well, and when they are not."""
    stream, other = machine.streams[:2]

    def long() -> None:
        machine.compute(stream, 5000)

    def short() -> None:
        machine.compute(stream, 1, 0, 1024)

    def hundred() -> None:
        for _ in range(100):
            short()

    right = machine.between(stream, long)

    def both() -> None:
        long()
        hundred()  # queued while the long one runs

    in_a_row = machine.between(stream, both) - right
    fresh = machine.cupy.RawKernel(_SOURCE.replace("chain", "another"), "another")
    part = machine.there[UP][:1024]
    fresh.compile()
    events = machine.cupy.cuda.Event(), machine.cupy.cuda.Event()
    events[0].record(stream)
    with stream:
        fresh((4,), (256,), (part, np.int32(1024), np.int32(1)))
    events[1].record(stream)
    machine.cupy.cuda.Device().synchronize()
    first = machine.cupy.cuda.get_elapsed_time(*events) / 1e3
    rows = [
        ("a long kernel", "events on its stream", right, right),
        ("a long kernel", "events on another stream", machine.between(stream, long, other), right),
        ("a small kernel", "one between two events, on an idle GPU", machine.between(stream, short), in_a_row / 100),
        ("a small kernel", "the first launch of its module", first, in_a_row / 100),
        ("a small kernel", "one of 100 in a row", in_a_row / 100, in_a_row / 100),
    ]
    return [
        Record(
            name, "time between events", taken, "s", variant=how, baseline="its own time", baseline_value=own,
            ratio=own / taken,
        )
        for name, how, taken, own in rows
    ]  # fmt: skip


def main() -> int:
    """Exit code 3 without a GPU."""
    if present() is None:
        raise WarplabError("This needs a GPU.")
    machine = _Machine()
    records = [record for part in (copies, overlap, graphs, pitfalls) for record in part(machine)]
    for record in records:
        print(f"{record.name:26} {record.variant:40} {record.shape!s:14} {record.value:.4g} {record.unit}")
    path = results.write(FILE, results.make_header(COMMAND), records, merge=True)
    print(f"Written: {path.name}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WarplabError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
