"""Runs in a worker process: loads that keep the GPU busy, and probes that measure what is left of it.

A Worker calls the functions by name. One process may have both roles, each with its own arrays and streams.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from warplab.gpu.statistics import median_interval

COPIED = 1 << 28  # bytes that a copy reads, and writes
SIDE = 4096  # of the product
STORMED = 1 << 21  # words that the storm adds to: 8 MiB
EACH = 64  # atomics per thread of the storm
SWEPT = 50 << 20  # bytes that the sweep reads: as many as an H200's L2 cache has
RING = 1 << 16  # lines of 128 bytes that the dependent loads go through: 8 MiB
LINE = 32  # words
SAMPLES, HOPS = 256, 16  # of one chase, as kernels.cu has it
GRID = 8 * 132, 256
QUEUED = 0.012  # seconds of work in one graph of a load
WINDOWS, WINDOW = 5, 0.12  # of a rate; seconds
LATENCY_SECONDS, LATENCIES = 0.9, 2000  # launches of the small kernel: for so long, and at most so many
CHASES = 40  # launches of the dependent loads
COPY, PRODUCT, STORM, SWEEP = "copy", "product", "atomics", "L2 sweep"
LOADS = COPY, PRODUCT, STORM, SWEEP
SMALL, CHAIN = "small kernel", "dependent loads in L2"
PROBES = COPY, PRODUCT, SMALL, CHAIN
PROBE, LOAD = "probe", "load"  # roles


def source() -> str:
    """The text of the kernels."""
    return Path(__file__).with_name("kernels.cu").read_text(encoding="utf-8")


def ring(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """uint32 words with, at the first word of each line, the index of the next line's; and the order of the lines."""
    order = random.permutation(RING).astype(np.uint32)
    words = np.zeros(RING * LINE, np.uint32)
    words[order * LINE] = np.roll(order, -1) * LINE
    return words, order


class Graph:
    """Several calls of one piece of work as a CUDA graph, launched on a stream of its own."""

    def __init__(self, work: Callable[[], Any], calls: int) -> None:
        import cupy
        import torch

        self.calls, self._torch, self._stream = calls, torch, torch.cuda.Stream()
        with torch.cuda.stream(self._stream), cupy.cuda.ExternalStream(self._stream.cuda_stream):
            work()  # what compiles or allocates does so before the capture
            self._stream.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with (
            torch.cuda.graph(self._graph, stream=self._stream),
            cupy.cuda.ExternalStream(self._stream.cuda_stream),
        ):
            for _ in range(calls):
                work()
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Queue the graph."""
        with self._torch.cuda.stream(self._stream):
            self._graph.replay()

    def mark(self) -> Any:
        """An event after all queued work."""
        event = self._torch.cuda.Event()
        event.record(self._stream)
        return event

    def wait(self) -> None:
        """Wait until the stream is empty."""
        self._stream.synchronize()

    def keep_launching(self, goes_on: Callable[[], bool]) -> int:
        """Launch, with two graphs in flight, while `goes_on()`, then wait. Returns the number of calls that ran."""
        before, launched = None, 0
        while goes_on():
            self.launch()
            event = self.mark()
            if before is not None:
                before.synchronize()
            before, launched = event, launched + 1
        self.wait()
        return launched * self.calls


class Tenant:
    """The arrays of a role, its kernels, and the thread of its load while one runs."""

    def __init__(self) -> None:
        import cupy
        import torch

        self.cupy, self.torch = cupy, torch
        module = cupy.RawModule(code=source())
        self.kernel = module.get_function
        generator = torch.Generator("cuda").manual_seed(1)
        self.x = cupy.arange(COPIED // 4, dtype=cupy.float32)
        self.out = cupy.zeros_like(self.x)
        self.a, self.b = (
            torch.randn(SIDE, SIDE, generator=generator, device="cuda", dtype=torch.float16) for _ in range(2)
        )
        self.c = torch.zeros_like(self.a)
        self.words = cupy.zeros(STORMED, cupy.uint32)
        self.swept = cupy.zeros(SWEPT // 4, cupy.float32)
        words, self.order = ring(np.random.default_rng(1))
        self.ring = cupy.asarray(words)
        self.place = cupy.full(1, int(self.order[0]) * LINE, cupy.uint32)
        self.taken, self.whole = cupy.zeros(SAMPLES, cupy.int64), cupy.zeros(2, cupy.int64)
        self.count = cupy.zeros(1, cupy.uint32)
        self.running = threading.Event()  # until `stop`
        self.thread: threading.Thread | None = None
        torch.cuda.synchronize()
        self.graphs: dict[str, Graph] = {}

    def copy(self) -> None:
        """Queue a copy of COPIED bytes."""
        fours = self.x.size // 4
        self.kernel("copy")(((fours + 255) // 256,), (256,), (self.x, self.out, np.int32(fours)))

    def product(self) -> None:
        """Queue a product in float16 by PyTorch."""
        self.torch.mm(self.a, self.b, out=self.c)

    def storm(self) -> None:
        """Queue EACH atomic additions per thread, to words of STORMED that look random."""
        blocks, threads = GRID
        self.kernel("storm")((blocks,), (threads,), (self.words, np.uint32(STORMED - 1), np.int32(EACH)))

    def sweep(self) -> None:
        """Queue sixteen reads of an array as large as the L2 cache."""
        self._read(self.swept, 16)

    def _read(self, array: Any, times: int) -> None:
        blocks, threads = GRID
        fours = array.nbytes // 16
        self.kernel("sweep")((blocks,), (threads,), (array, self.out, np.int32(fours), np.int32(times)))

    def tiny(self) -> None:
        """Queue a kernel of one warp."""
        self.kernel("tiny")((1,), (32,), (self.count,))

    def chase(self) -> None:
        """Queue a read of the ring, which brings it into L2, and dependent loads through part of it."""
        self._read(self.ring, 2)
        self.kernel("chase")((1,), (1,), (self.ring, self.place, np.int32(HOPS), self.taken, self.whole))

    def graph(self, name: str, seconds: float = QUEUED) -> Graph:
        """A load or a probe as a graph, captured at the first call.

        Loads and rates have as many calls as take about `seconds`, latencies have one.
        """
        if name not in self.graphs:
            works = {COPY: self.copy, PRODUCT: self.product, STORM: self.storm, SWEEP: self.sweep}
            calls, work = 1, works.get(name) or {SMALL: self.tiny, CHAIN: self.chase}[name]
            if name in works:
                one = Graph(work, 1)
                begin = time.perf_counter()
                one.launch()
                one.wait()
                calls = max(1, round(seconds / (time.perf_counter() - begin)))
            self.graphs[name] = Graph(work, calls)
        return self.graphs[name]


@cache
def tenant(role: str) -> Tenant:
    """This process's tenant of a role."""
    return Tenant()


def prepare(role: str) -> dict[str, Any]:
    """Compile, allocate, check and capture all that a role runs. Raises ValueError for a wrong result.

    Returns whether the process is a client of MPS, and its GPU's name.
    """
    from warplab.hardware import present

    own = tenant(role)
    check(own)
    for name in LOADS if role == LOAD else PROBES:
        own.graph(name, QUEUED if role == LOAD else QUEUED / 6)
    device = present()
    return {"mps": bool(device and device.mps), "gpu": device.name if device else "none"}


def check(own: Tenant) -> None:
    """Compare each kernel's result with a known one. Raises ValueError for a wrong result."""
    for work in (own.copy, own.product, own.sweep):
        work()
    own.cupy.cuda.Device().synchronize()
    if not bool((own.x == own.out).all()):
        raise ValueError("The copy is wrong.")
    rows = own.a[:8].double() @ own.b.double()
    if not own.torch.allclose(rows, own.c[:8].double(), rtol=2e-3, atol=0.2):
        raise ValueError("The product is wrong.")
    own.words.fill(0)
    own.storm()
    if int(own.words.sum(dtype=own.cupy.uint64)) != GRID[0] * GRID[1] * EACH:
        raise ValueError("The storm lost additions.")
    own.place.fill(int(own.order[0]) * LINE)
    own.chase()
    if int(own.place[0]) != int(own.order[SAMPLES * HOPS]) * LINE:
        raise ValueError("The dependent loads read wrong addresses.")
    own.cupy.cuda.Device().synchronize()


def start(load: str) -> None:
    """Keep the GPU busy with a load until `stop`."""
    own = tenant(LOAD)
    graph = own.graph(load)
    own.running.set()
    own.thread = threading.Thread(target=graph.keep_launching, args=(own.running.is_set,), daemon=True)
    own.thread.start()
    time.sleep(0.1)


def stop() -> None:
    """End the running load, if any, and wait for it."""
    own = tenant(LOAD)
    own.running.clear()
    if own.thread is not None:
        own.thread.join()
    own.thread = None


def rate(name: str) -> list[float]:
    """Calls per second of a probe, back to back, in each of WINDOWS windows."""
    graph, found = tenant(PROBE).graph(name), []
    for _ in range(WINDOWS):
        begin = time.perf_counter()
        calls = graph.keep_launching(partial(_before, begin + WINDOW))
        found.append(calls / (time.perf_counter() - begin))
    return found


def _before(end: float) -> bool:
    return time.perf_counter() < end


def latencies() -> list[float]:
    """Seconds from each launch of a kernel of one warp until the host sees its end."""
    graph = tenant(PROBE).graph(SMALL)
    found: list[float] = []
    end = time.perf_counter() + LATENCY_SECONDS
    while len(found) < LATENCIES and time.perf_counter() < end:
        begin = time.perf_counter()
        graph.launch()
        graph.wait()
        found.append(time.perf_counter() - begin)
    return found


def chases() -> list[np.ndarray]:
    """An array for each of CHASES launches: nanoseconds per load for each sample of HOPS dependent loads."""
    own, found = tenant(PROBE), []
    graph = own.graph(CHAIN)
    for _ in range(CHASES):
        graph.launch()
        graph.wait()
        nanoseconds, cycles = own.whole.get()
        found.append(own.taken.get() * (nanoseconds / cycles / HOPS))
    return found


def probe(name: str) -> dict[str, float]:
    """A probe's figures, by name.

    For a rate, in bytes or operations per second: the median, the least and the greatest of the windows. For a latency
    (the small kernel in seconds, dependent loads in nanoseconds): the median with its 95% interval, the 99th
    percentile, the mean and the greatest.
    """
    if name in (COPY, PRODUCT):
        of_one = 2 * COPIED if name == COPY else 2 * SIDE**3
        values = sorted(of_one * calls for calls in rate(name))
        return {"value": values[len(values) // 2], "low": values[0], "high": values[-1], "samples": len(values)}
    if name == SMALL:
        samples = np.array(latencies())
        middle = median_interval(samples.tolist())
    else:  # samples of one launch depend on each other, so the interval is over launches
        launches = chases()
        samples = np.concatenate(launches)
        middle = median_interval([float(np.median(launch)) for launch in launches])
    tail = {"p99": float(np.percentile(samples, 99)), "mean": float(samples.mean()), "most": float(samples.max())}
    return {"value": middle.value, "low": middle.low, "high": middle.high, "samples": len(samples)} | tail


def write_unmapped(role: str) -> str:
    """Write to an unmapped address, on a stream of its own. Returns the first line of the error that follows."""
    own = tenant(role)
    stream = own.torch.cuda.Stream()
    try:
        with own.cupy.cuda.ExternalStream(stream.cuda_stream):
            own.kernel("fault")((1,), (1,), ())
        stream.synchronize()
    except Exception as error:  # CuPy's or PyTorch's: either may see the error first
        return str(error).splitlines()[0]
    return ""


def still_works(role: str) -> bool:
    """Whether this process can still launch a kernel and gets its result."""
    own = tenant(role)
    try:
        own.count.fill(0)
        own.tiny()
        return int(own.count[0]) == 32
    except Exception:  # CuPy's or PyTorch's: either may see the error first
        return False
