"""Tensor cores: operations a cycle by type and instruction, what power leaves of them, and how data changes power."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cupy
import numpy as np
import pynvml

from benchmarks.micro import card
from course.results import Record


@dataclass(frozen=True)
class Kind:
    """A type of numbers: how random bits become some of them (near 1 in size), and the K of one instruction."""

    name: str
    mma: str  # the struct in tensor.cu; "" where Hopper has no such instruction
    wgmma: str  # the suffix of the kernel
    keep: int
    set: int
    mma_k: int
    wgmma_k: int


KINDS = (
    Kind("float16", "MmaF16", "f16", 0x83FF83FF, 0x3C003C00, 16, 16),
    Kind("bfloat16", "MmaBF16", "bf16", 0x807F807F, 0x3F803F80, 16, 16),
    Kind("tfloat32", "MmaTF32", "tf32", 0x807FE000, 0x3F800000, 8, 8),
    Kind("float8_e4m3", "", "e4m3", 0x87878787, 0x38383838, 32, 32),
    Kind("int8", "MmaS8", "s8", 0xFFFFFFFF, 0, 32, 32),
)
# NVML's nvmlClocksEventReasons.
_REASONS = {
    0x01: "idle",
    0x02: "clocks set by an application",
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
SEGMENTS, SEGMENT = 5, 0.25  # a load is timed so many times in a row, seconds each; the last one counts
SIDE = 8192


def records() -> Iterator[Record]:
    """Every measurement of this file, in turn."""
    for kind in KINDS:
        if kind.mma:
            yield _rate(
                kind.name, "mma.sync", f"mma_sync<{kind.mma}>", 512, 16 * 32 * 2 * 16 * 8 * kind.mma_k, kind, 1000
            )
    yield _rate("float64", "mma.sync", "mma_f64", 512, 16 * 32 * 2 * 16 * 8 * 16, None, 200)
    for kind in KINDS:
        yield _rate(kind.name, "wgmma", f"wgmma_{kind.wgmma}", 384, 3 * 4 * 2 * 64 * 256 * kind.wgmma_k, kind, 2000)
    yield _sustained(KINDS[0], "zeros")
    for kind in KINDS:
        yield _sustained(kind, "random")


def _arguments(kind: Kind | None, steps: int) -> tuple:
    keep, base = (kind.keep, kind.set) if kind else (0x3FFFFFFF, 1)
    return (np.uint32(keep), np.uint32(base), np.int32(steps))


def _rate(dtype: str, variant: str, name: str, block: int, work: int, kind: Kind | None, steps: int) -> Record:
    took = card.cycles("tensor", name, card.sms(), block, _arguments(kind, steps), readers=0)
    return Record(
        "tensor core", "rate", work * steps / float(np.median(took)), "FLOP/cycle/SM", variant=variant, dtype=dtype,
        conditions=f"all SMs, {block // 32} warps each, operands that stay where they are, random bits",
    )  # fmt: skip


@dataclass(frozen=True)
class Load:
    """What a GPU does under a load that lasts, in the last of SEGMENTS."""

    seconds: float  # for one launch
    course: tuple[float, ...]  # the same in each segment
    watts: float
    clock: float  # of the SMs as NVML reads it, Hz
    held_by: str  # what the driver says holds the clock down


def under_load(launch: Callable[[], None]) -> Load:
    """Repeats a launch for SEGMENTS x SEGMENT seconds between events; NVML is read during the last segment."""
    for _ in range(3):
        launch()
    events = [cupy.cuda.Event() for _ in range(SEGMENTS + 1)]
    events[0].record()
    for _ in range(4):
        launch()
    events[1].record()
    events[1].synchronize()
    one = cupy.cuda.get_elapsed_time(events[0], events[1]) / 4e3
    count = min(max(4, int(SEGMENT / one)), 1000)  # lest a mistaken event queue minutes of work
    events[0].record()
    for event in events[1:]:
        for _ in range(count):
            launch()
        event.record()
    events[-2].synchronize()
    time.sleep(SEGMENT / 2)
    state = _state()
    events[-1].synchronize()
    course = tuple(
        cupy.cuda.get_elapsed_time(before, after) / 1e3 / count
        for before, after in zip(events, events[1:], strict=False)
    )
    return Load(course[-1], course, *state)


def _state() -> tuple[float, float, str]:
    """Watts, the SM clock in Hz and what limits it at this moment, by NVML; zeros and nothing where it is not there."""
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device().pci_bus_id.encode())
        watts = pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3
        clock = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6
        active = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError:
        return 0.0, 0.0, ""
    return watts, clock, ", ".join(name for bit, name in _REASONS.items() if active & bit)


def _sustained(kind: Kind, data: str) -> Record:
    steps, sms = 10_000, card.sms()
    ticks = cupy.zeros(2 * sms, dtype=cupy.uint64)
    keep, base, count = _arguments(kind, steps) if data == "random" else (np.uint32(0), np.uint32(0), np.int32(steps))
    run = card.kernel("tensor", f"wgmma_{kind.wgmma}")
    load = under_load(lambda: run((sms,), (384,), (keep, base, count, ticks, card.sink())))
    seen = ticks.get().astype(np.int64).reshape(-1, 2)
    clock = float(np.median(seen[:, 1] - seen[:, 0])) / load.seconds
    work = 3 * 4 * 2 * 64 * 256 * kind.wgmma_k * steps * sms
    return Record(
        "tensor core sustained", "rate", work / load.seconds, "FLOP/s", variant=data, dtype=kind.name,
        conditions=f"wgmma from shared memory on all SMs, after {SEGMENT * (SEGMENTS - 1):g} s of the same",
        extra={"sm_clock": clock, "watts": load.watts, "held_by": load.held_by,
               "course": [work / t for t in load.course]},
    )  # fmt: skip
