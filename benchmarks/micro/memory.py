"""What lies outside the registers: L1, L2 and HBM by latency and by bandwidth, translation, strides, atomics."""

from __future__ import annotations

from collections.abc import Iterator

import cupy
import numpy as np

from benchmarks.micro import card
from course.results import Record

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LINE = 128
PAGE = 2 * MIB
CHASED = (
    *(KIB << n for n in range(8)),
    *(KIB * n for n in (192, 208, 224, 240, 256, 384, 512)),
    *(MIB * n for n in (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 256, 512)),
    *(GIB * n for n in (1, 2, 4)),
)
PAGES = (*(1 << n for n in range(16)), *(n << 9 for n in (72, 80, 96, 112)))  # to 64 GiB by powers of two, to 112 GiB
SLICES = tuple(
    KIB * n for n in (16, 32, 64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 2048, 4096, 8192, 16384)
)
TRAFFIC = 12 * GIB  # that one measurement of bandwidth moves


def records() -> Iterator[Record]:
    """Every measurement of this file, in turn."""
    yield from latency_by_working_set()
    yield from translation()
    yield from l2_lines()
    yield from bandwidth_by_working_set()
    yield from bytes_in_flight()
    yield from strides()
    yield from atomics()
    cupy.get_default_memory_pool().free_all_blocks()


def ring(buffer: cupy.ndarray, at: cupy.ndarray) -> int:
    """Links the places `at` (byte offsets) of a buffer in that order; the address of the first."""
    nodes = at.size
    card.kernel("memory", "link")((-(-nodes // 256),), (256,), (buffer, at, np.uint64(nodes)))
    return buffer.data.ptr + int(at[0])


def _chase(load: str, start: int, warm: int, hops: int) -> float:
    hops = -(-hops // 16) * 16
    ticks = cupy.zeros(2, dtype=cupy.uint64)
    card.kernel("memory", f"chase<{load}>")(
        (1,), (1,), (np.uint64(start), np.int32(warm), np.int32(hops), ticks, card.sink())
    )
    begin, end = (int(v) for v in ticks.get())
    return (end - begin) / hops


def latency_by_working_set() -> Iterator[Record]:
    """Cycles of a dependent load in a ring of 128-byte lines in random order, by the size of the ring."""
    buffer = cupy.zeros(max(CHASED), dtype=cupy.uint8)
    l2 = int(cupy.cuda.Device().attributes["L2CacheSize"])
    for size in CHASED:
        order = cupy.random.RandomState(size % 2**31).permutation(size // LINE).astype(cupy.uint64)
        start = ring(buffer, order * LINE)
        nodes = size // LINE
        if size > 2 * l2:
            card.flush()
        card.kernel("memory", "touch")((1,), (1,), (buffer, np.uint64(size), np.uint64(PAGE), card.sink()))
        warm = max(nodes, 4096) if size <= 2 * l2 else 512  # once around, where that leaves anything in a cache
        took = _chase("ThroughL1", start, warm, 4096)
        yield Record(
            "dependent load", "latency", took, "cycles", shape=(size,),
            conditions="one thread, 64-bit pointers, a random ring of 128-byte lines; shape is its size in bytes",
        )  # fmt: skip
    start = ring(buffer, cupy.arange(32, dtype=cupy.uint64) * LINE)
    yield Record(
        "l1", "latency", _chase("ThroughL1", start, 64, 4096), "cycles", conditions="a ring of 4 KiB, ld.global.ca"
    )
    order = cupy.random.RandomState(7).permutation(4 * MIB // LINE).astype(cupy.uint64)
    took = _chase("ThroughL2", ring(buffer, order * LINE), order.size, 4096)
    yield Record("l2", "latency", took, "cycles", conditions="a ring of 4 MiB, walked once before, ld.global.cg")
    order = cupy.random.RandomState(7).permutation(512 * MIB // LINE).astype(cupy.uint64)
    start = ring(buffer, order * LINE)
    card.flush()
    took = _chase("ThroughL2", start, 512, 4096)
    yield Record("hbm", "latency", took, "cycles", conditions="a ring of 512 MiB, L2 flushed, ld.global.cg")


def translation() -> Iterator[Record]:
    """Latency of loads that hit L2 but each lie in a page of their own, by the number of pages."""
    free = cupy.cuda.Device().mem_info[0]
    pages = [n for n in PAGES if n * PAGE < 0.85 * free]
    buffer = cupy.cuda.alloc(max(pages) * PAGE)
    array = cupy.ndarray((max(pages) * PAGE,), cupy.uint8, buffer)
    rng = np.random.default_rng(0)
    for count in pages:
        lines = rng.integers(0, PAGE // LINE, count, dtype=np.uint64) * LINE
        at = rng.permutation(count).astype(np.uint64) * PAGE + lines
        start = ring(array, cupy.asarray(at))
        took = _chase("ThroughL2", start, 2 * count + 64, min(max(count, 256), 4096))
        yield Record(
            "translation", "latency", took, "cycles", shape=(count * PAGE,),
            conditions="ld.global.cg, one line in L2 a page of 2 MiB; shape is the reach in bytes",
        )  # fmt: skip
    del array, buffer
    cupy.get_default_memory_pool().free_all_blocks()


def l2_lines(lines: int = 512) -> Iterator[Record]:
    """Latency of each of many L2 lines from each SM: the near and the far half of the cache."""
    buffer = cupy.zeros(16 * MIB, dtype=cupy.uint8)
    at = np.sort(np.random.default_rng(1).permutation(16 * MIB // LINE)[:lines]).astype(np.uint64) * LINE
    on_card = cupy.asarray(at)
    own = cupy.asarray(buffer.data.ptr + at)
    view = buffer.view(cupy.uint64)
    view[(on_card // 8).astype(cupy.int64)] = own
    cycles = np.zeros((card.sms(), lines))
    for sm in range(card.sms()):
        seen = cupy.zeros(lines, dtype=cupy.uint32)
        for _ in range(3):  # blocks need not be spread over all SMs
            card.kernel("memory", "line_latency")(
                (2 * card.sms(),), (1,), (np.uint32(sm), own, np.int32(lines), seen, card.sink())
            )
            if int(seen.min()):
                break
        cycles[sm] = seen.get() / 16
    cycles = cycles[cycles.min(axis=1) > 0]
    centred = cycles - cycles.mean(axis=1, keepdims=True)
    side = np.sign(centred @ centred[0])  # SMs that see the same lines near have profiles that agree
    ordered = np.sort(cycles, axis=1)
    near, far = ordered[:, : lines // 2].mean(), ordered[:, lines // 2 :].mean()
    first = cycles[0]
    edges = np.arange(np.floor(cycles.min() / 4) * 4, cycles.max() + 5, 4)
    note = f"{lines} lines of 16 MiB from each SM alone, ld.global.cg, best of three rounds of 16 loads"
    yield Record(
        "l2 half", "latency", float(near), "cycles", variant="near", conditions=f"{note}; each SM's nearer half",
        extra={
            "histogram_from": float(edges[0]),
            "histogram_step": 4,
            "one_sm": np.histogram(first, edges)[0].tolist(),
            "all_sms": np.histogram(cycles, edges)[0].tolist(),
            "sms_like_the_first": int((side > 0).sum()),
            "sms_unlike": int((side < 0).sum()),
            "sms_measured": len(cycles),
            "correlation": _agreement(centred, side),
        },
    )  # fmt: skip
    yield Record(
        "l2 half", "latency", float(far), "cycles", variant="far", conditions=f"{note}; mean of the farther half"
    )


def _agreement(centred: np.ndarray, side: np.ndarray) -> dict[str, float]:
    table = np.corrcoef(centred)
    same = np.equal.outer(side, side)
    off = ~np.eye(len(side), dtype=bool)
    return {
        "within a group": round(float(table[same & off].mean()), 3),
        "between groups": round(float(table[~same].mean()), 3) if (~same).any() else 0.0,
    }


def bandwidth_by_working_set() -> Iterator[Record]:
    """Bytes a second that all SMs read, each a slice of its own, by the size of all slices together."""
    sms = card.sms()
    data = cupy.zeros(max(SLICES) * sms // 4, dtype=cupy.uint32)
    ticks = cupy.zeros(2 * sms, dtype=cupy.uint64)
    found = {}
    for variant, read in (("through L1", "ReadL1"), ("past L1", "ReadL2")):
        for size in SLICES:
            ahead = next(n for n in (8, 4, 2, 1) if size % (n * 16 * KIB) == 0)
            repeats = max(1, TRAFFIC // (size * sms))
            arguments = (data, np.uint64(size // 16), np.int32(repeats), ticks, card.sink())
            found[variant, size] = _rate(
                variant, f"read_slices<{read}, {ahead}>", size * sms, size * sms * repeats, arguments, ticks
            )
            yield found[variant, size]
    inside = max(found["through L1", size].extra["bytes_per_cycle_per_sm"] for size in SLICES if size <= 128 * KIB)
    yield Record("l1", "bandwidth", inside, "B/cycle/SM", conditions="the best slice of up to 128 KiB, ld.global.ca")
    chip = max(found["past L1", size].value for size in SLICES if 32 * KIB <= size <= 192 * KIB)
    yield Record("l2", "bandwidth", chip, "B/s", conditions="the best of 4 to 25 MiB in slices, ld.global.cg")
    far = found["past L1", SLICES[-1]].value
    yield Record("hbm", "bandwidth", far, "B/s", conditions="2.2 GB in slices of 16 MiB, ld.global.cg")


def _rate(variant: str, name: str, size: int, moved: int, arguments: tuple, ticks: cupy.ndarray) -> Record:
    sms = card.sms()
    time = card.seconds(lambda: card.kernel("memory", name)((sms,), (1024,), arguments), repeats=3)
    seen = ticks.get().astype(np.int64).reshape(-1, 2)
    cycles = float(np.median(seen[:, 1] - seen[:, 0]))
    return Record(
        "read", "bandwidth", moved / time, "B/s", variant=variant, shape=(size,),
        conditions="132 blocks of 1,024 threads, 16 bytes a lane; shape is the working set in bytes",
        extra={"bytes_per_cycle_per_sm": moved / sms / cycles, "sm_clock": cycles / time},
    )  # fmt: skip


def bytes_in_flight() -> Iterator[Record]:
    """HBM bandwidth by warps an SM and loads that each has on its way: Little's law."""
    sms, size = card.sms(), 8 * MIB
    data = cupy.zeros(size * sms // 4, dtype=cupy.uint32)
    ticks = cupy.zeros(2 * sms, dtype=cupy.uint64)
    for ahead in card.AHEAD:
        for warps in (1, 2, 4, 8, 16, 32):
            arguments = (data, np.uint64(size // 16), np.int32(1), ticks, card.sink())
            run = card.kernel("memory", f"read_slices<ReadL2, {ahead}>")
            time = card.seconds(
                lambda r=run, w=warps, a=arguments: r((sms,), (32 * w,), a), repeats=3, before=card.flush
            )
            yield Record(
                "bytes in flight", "bandwidth", size * sms / time, "B/s", variant=f"{ahead} loads", shape=(warps,),
                conditions="one block an SM reads 8 MiB from HBM, 16 bytes a lane; shape is the warps of the block",
                extra={"in_flight_per_sm": warps * 32 * 16 * ahead},
            )  # fmt: skip


def strides() -> Iterator[Record]:
    """Bytes a second that a kernel uses when its lanes read floats that are apart."""
    count = 1 << 26
    data = cupy.zeros(count * 32, dtype=cupy.float32)
    for stride in (1, 2, 4, 8, 16, 32):
        arguments = (data, np.uint32(stride), card.sink())
        run = card.kernel("memory", "read_strided")
        time = card.seconds(lambda r=run, a=arguments: r((count // 1024,), (256,), a), before=card.flush)
        yield Record(
            "strided read", "bandwidth", 4 * count / time, "B/s", shape=(stride,),
            conditions="2^26 floats, cold L2; bytes that were asked for; shape is the stride in floats",
            extra={"sectors_per_request": min(32, 4 * stride), "bytes_moved": 4 * count * min(8, stride) / time},
        )  # fmt: skip


def atomics() -> Iterator[Record]:
    """Additions a second to global memory."""
    sms, steps = card.sms(), 64
    words = cupy.zeros(1 << 20, dtype=cupy.uint32)
    for variant, mask in (("one word", 0), ("one line", 31), ("a word each", (1 << 20) - 1)):
        blocks = sms * 2
        arguments = (words, np.uint32(mask), np.uint32(1), np.int32(steps))
        run = card.kernel("memory", "global_atomics")
        time = card.seconds(lambda r=run, a=arguments, b=blocks: r((b,), (1024,), a), repeats=3)
        yield Record(
            "global atomics", "rate", blocks * 1024 * steps / time, "1/s", variant=variant,
            conditions="red.global.add.u32, 264 blocks of 1,024 threads",
        )  # fmt: skip
