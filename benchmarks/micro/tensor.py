"""Tensor cores: operations a cycle by type and instruction, what power leaves of them, and how data changes power."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cupy
import numpy as np
import pynvml

from benchmarks.micro import card
from warplab.results import Record


@dataclass(frozen=True)
class Kind:
    """A type of numbers: how random bits become some of them (near 1 in size), and the K of one instruction."""

    name: str
    mma: str  # the struct in tensor.cu
    wgmma: str  # the suffix of the kernel
    keep: int
    set: int
    mma_k: int
    wgmma_k: int


KINDS = (
    Kind("float16", "MmaF16", "f16", 0x83FF83FF, 0x3C003C00, 16, 16),
    Kind("bfloat16", "MmaBF16", "bf16", 0x807F807F, 0x3F803F80, 16, 16),
    Kind("tfloat32", "MmaTF32", "tf32", 0x807FE000, 0x3F800000, 8, 8),
    Kind("float8_e4m3", "MmaE4M3", "e4m3", 0x87878787, 0x38383838, 32, 32),
    Kind("int8", "MmaS8", "s8", 0xFFFFFFFF, 0, 32, 32),
)
SETTLING, SUSTAINED = 0.4, 1.2  # seconds of load before and while the clock is read
SIDE = 8192


def records() -> Iterator[Record]:
    """Every measurement of this file, in turn."""
    for kind in KINDS:
        yield _rate(kind.name, "mma.sync", f"mma_sync<{kind.mma}>", 512, 16 * 32 * 2 * 16 * 8 * kind.mma_k, kind, 1000)
    yield _rate("float64", "mma.sync", "mma_f64", 512, 16 * 32 * 2 * 16 * 8 * 16, None, 200)
    for kind in KINDS:
        yield _rate(kind.name, "wgmma", f"wgmma_{kind.wgmma}", 384, 3 * 4 * 2 * 64 * 256 * kind.wgmma_k, kind, 2000)
    for kind in KINDS:
        yield _sustained(kind, "random")
    yield _sustained(KINDS[0], "zeros")
    yield from products()


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
    """What a GPU does under a load that lasts."""

    seconds: float  # for one launch
    watts: float
    sm_clock: float  # as NVML reads it, Hz


def under_load(launch: Callable[[], None]) -> Load:
    """Repeats a launch for SETTLING seconds, then for SUSTAINED while events time it and NVML reads power."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    for _ in range(3):
        launch()
    end.record()
    end.synchronize()
    one = cupy.cuda.get_elapsed_time(begin, end) / 3e3
    for _ in range(int(SETTLING / one)):
        launch()
    count = int(SUSTAINED / one)
    begin.record()
    for _ in range(count):
        launch()
    end.record()
    time.sleep(SETTLING + 0.7 * SUSTAINED)
    watts, clock = _power_and_clock()
    end.synchronize()
    return Load(cupy.cuda.get_elapsed_time(begin, end) / 1e3 / count, watts, clock)


def _power_and_clock() -> tuple[float, float]:
    """Watts and the SM clock in Hz at this moment, as the driver's management library has them; 0 where it has none."""
    try:
        pynvml.nvmlInit()
        device = cupy.cuda.Device()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id.encode())
        watts = pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3
        return watts, pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6
    except pynvml.NVMLError:
        return 0.0, 0.0


def _sustained(kind: Kind, data: str) -> Record:
    steps, sms = 20_000, card.sms()
    ticks = cupy.zeros(2 * sms, dtype=cupy.uint64)
    keep, base, count = _arguments(kind, steps) if data == "random" else (np.uint32(0), np.uint32(0), np.int32(steps))
    run = card.kernel("tensor", f"wgmma_{kind.wgmma}")
    load = under_load(lambda: run((sms,), (384,), (keep, base, count, ticks, card.sink())))
    seen = ticks.get().astype(np.int64).reshape(-1, 2)
    clock = float(np.median(seen[:, 1] - seen[:, 0])) / load.seconds
    work = 3 * 4 * 2 * 64 * 256 * kind.wgmma_k * steps * sms
    return Record(
        "tensor core sustained", "rate", work / load.seconds, "FLOP/s", variant=data, dtype=kind.name,
        conditions=f"wgmma from shared memory on all SMs, after {SETTLING} s of the same",
        extra={"sm_clock": clock, "watts": load.watts},
    )  # fmt: skip


def products() -> Iterator[Record]:
    """torch.matmul of the same shape on zeros, on ones and on random numbers: the same work, another power."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(0)
    makers = {
        "zeros": lambda: torch.zeros(SIDE, SIDE, dtype=torch.float16, device="cuda"),
        "ones": lambda: torch.ones(SIDE, SIDE, dtype=torch.float16, device="cuda"),
        "N(0, 1)": lambda: torch.randn(SIDE, SIDE, device="cuda", generator=generator).half(),
    }
    c = torch.empty(SIDE, SIDE, dtype=torch.float16, device="cuda")
    stream = torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr)
    for data, make in makers.items():
        a, b = make(), make()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            load = under_load(lambda a=a, b=b: torch.matmul(a, b, out=c))
        yield Record(
            "matmul", "rate", 2.0 * SIDE**3 / load.seconds, "FLOP/s", variant=data, shape=(SIDE, SIDE, SIDE),
            dtype="float16", conditions=f"torch.matmul (cuBLAS), after {SETTLING} s of the same",
            extra={"sm_clock": load.sm_clock, "watts": load.watts},
        )  # fmt: skip
