"""What a single launch costs where nothing of it is in a cache: starting, fetching code, the first bytes; barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from benchmarks.micro import card
from course.results import Record
from warplab.gpu.executor import on_stream
from warplab.gpu.stopwatch import time_in_turns

BLOCKS = (1, 132, 1056, 4224, 16896, 67584)
MIB = (1, 4, 16, 64, 256)
BUDGET_SECONDS = 1.0
COLD = "one launch between two events, L2 cold, as the judge times; median"


class Launch:
    """A launch as a candidate of the stopwatch."""

    launches = 1

    def __init__(self, launch: Callable[[], None]) -> None:
        self.launch = launch

    def prepare(self, turn: int) -> None:
        """Nothing to prepare."""

    def check(self, turn: int) -> None:
        """Nothing to check."""


def records() -> Iterator[Record]:
    """Every measurement of this file, in turn."""
    with on_stream() as stream:
        for launches in (dict(starts()), dict(streams()), dict(chains()), dict(scattered_writes())):
            turns = time_in_turns(
                {str(number): Launch(launch) for number, launch in enumerate(launches.values())},
                stream, budget_seconds=BUDGET_SECONDS,
            )  # fmt: skip
            for number, (name, variant, shape) in enumerate(launches):
                time = turns.time(str(number))
                yield Record(
                    name, "time", time.value / 1e3, "s", variant=variant, shape=shape,
                    interval=(time.low / 1e3, time.high / 1e3), conditions=COLD,
                )  # fmt: skip
    yield from barriers()
    yield from scattered()
    steps = 4096
    chain = card.cycles("cold", "products", 1, 32, (np.int32(steps),))[0] / steps
    yield Record("mma.m16n8k16", "latency", chain, "cycles", dtype="float16", conditions="one warp, one chain")
    words = cupy.zeros(1 << 10, dtype=cupy.uint32)
    chain = card.cycles("cold", "chained_atomics", 1, 1, (words, np.int32(steps)))[0] / steps
    yield Record("global atomics", "latency", chain, "cycles", conditions="one thread, each where the last one says")
    yield from bulk_copies()


Key = tuple[str, str, tuple[int, ...]]


def starts() -> Iterator[tuple[Key, Callable[[], None]]]:
    """Launches that do next to nothing: of so many blocks, of one load, of straight code."""
    out = cupy.ones(1 << 20, dtype=cupy.uint32)
    far = cupy.ones(1 << 20, dtype=cupy.uint32)
    for threads in (32, 256, 1024):
        for blocks in BLOCKS:
            yield ("cold blocks", f"{threads} threads", (blocks,)), _launch("empty", blocks, threads)
    yield ("cold word", "", ()), _launch("one_word", 1, 1, far, out)
    for count in card.STRAIGHT:
        yield ("cold code", "one warp", (16 * count,)), _launch(f"straight<{count}>", 1, 32, out)
        yield ("cold code", "a block per SM", (16 * count,)), _launch(f"straight<{count}>", 132, 32, out)
    for blocks in (1, 132):
        for count in card.STRAIGHT:
            yield (
                ("cold code", f"independent, {blocks} blocks", (16 * count,)),
                _launch(f"wide<{count}>", blocks, 32, out),
            )
        for count in card.SKIPS:
            yield ("cold skips", f"{blocks} blocks", (count,)), _launch(f"skips<{count}>", blocks, 32, out)
        for lines in (1, 2, 4, 8):
            zeros = [np.uint64(0)] * 64
            yield (
                ("cold arguments", f"{blocks} blocks", (lines,)),
                _launch(f"arguments_{lines}", blocks, 32, out, *zeros),
            )


def streams() -> Iterator[tuple[Key, Callable[[], None]]]:
    """Launches that read, write or copy so many bytes."""
    source, target = (cupy.zeros(MIB[-1] << 18, dtype=cupy.uint32) for _ in range(2))
    sink = card.sink()
    for mib in MIB:
        size = mib << 20
        yield ("cold fill", "16 bytes per lane", (size,)), _launch("fill", size // 4096, 256, target)
        yield ("cold read", "16 bytes per lane", (size,)), _launch("read", size // 4096, 256, source, sink)
        yield ("cold copy", "16 bytes per lane", (size,)), _launch("copy", size // 4096, 256, source, target)
        yield ("cold copy", "4 bytes per lane", (size,)), _launch("copy_words", size // 1024, 256, source, target)


def chains() -> Iterator[tuple[Key, Callable[[], None]]]:
    """Launches whose lanes load so often, one after the other or at once, from lines that nobody had before."""
    elements = 1 << 26
    values, out = cupy.zeros(elements, dtype=cupy.uint32), cupy.zeros(1 << 20, dtype=cupy.uint32)
    values[...] = 1 << 21  # to the next hop's lines
    for blocks in (1, 64, 1056):
        for count in (1, 2, 4, 8):
            yield (
                ("cold hops", f"{blocks} blocks", (count,)),
                _launch("hops", blocks, 256, values, out, np.int32(count)),
            )
            apart = np.uint64(1 << 21), np.int32(count)
            yield ("cold arrays", f"{blocks} blocks", (count,)), _launch("arrays", blocks, 256, values, out, *apart)


def scattered_writes() -> Iterator[tuple[Key, Callable[[], None]]]:
    """Launches of 2^20 lanes whose stores and atomics do not lie side by side."""
    blocks, out = 4096, cupy.zeros(1 << 26, dtype=cupy.uint32)
    for apart in (2, 4, 8, 16, 32, 64):
        yield ("cold stores", "apart", (apart,)), _launch("stores_apart", blocks, 256, out, np.uint64(apart))
    for words in (1 << 4, 1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 22):
        if words >= 1 << 16:
            yield ("cold stores", "anywhere", (words,)), _launch("stores_anywhere", blocks, 256, out, np.uint32(words))
        yield ("cold atomics", "anywhere", (words,)), _launch("atomics_anywhere", blocks, 256, out, np.uint32(words))


def _launch(name: str, blocks: int, threads: int, *arguments: Any) -> Callable[[], None]:
    function = card.kernel("cold", name)
    return lambda: function((blocks,), (threads,), arguments)


def barriers() -> Iterator[Record]:
    """Cycles from one __syncthreads to the next, by the threads of the block."""
    steps = 4096
    for threads in (32, 128, 256, 512, 1024):
        took = card.cycles("cold", "barriers", 1, threads, (np.int32(steps),))[0] / steps
        yield Record("barrier", "latency", took, "cycles", shape=(threads,), conditions="one block; shape is threads")


def scattered() -> Iterator[Record]:
    """Cycles of a load request that hits L1, by how many lines of 128 bytes its lanes are in."""
    values, steps, warps = cupy.zeros(1 << 12, dtype=cupy.uint32), 1024, 32
    for apart in (1, 2, 4, 8, 16, 32):
        arguments = values, np.int32(apart), np.int32(steps)
        for readers in (1, warps):
            took = card.cycles("cold", "scattered", 1, 32 * readers, arguments, readers=readers)[0] / steps / readers
            yield Record(
                "l1 request", "time", took, "cycles", variant=f"{readers} warps", shape=(apart,),
                conditions="ld.global.ca.u32 of one SM; shape is the lines that the lanes are in",
            )  # fmt: skip


def bulk_copies() -> Iterator[Record]:
    """Cycles from the request of a bulk copy from L2 until its barrier completes, by the bytes of the copy."""
    values, steps = cupy.zeros(1 << 13, dtype=cupy.uint32), 256
    for size in (128, 512, 2048, 8192, 32768):
        took = card.cycles("cold", "bulk_copies", 1, 1, (values, np.uint32(size), np.int32(steps)))[0] / steps
        yield Record(
            "bulk copy", "latency", took, "cycles", shape=(size,), conditions="cp.async.bulk of one thread, in L2"
        )
