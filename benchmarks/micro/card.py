"""The GPU as these measurements use it: kernels from the .cu files beside this one, ticks of SM clocks, events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import cupy
import numpy as np

FOLDER = Path(__file__).resolve().parent
ARCHITECTURE = "-arch=sm_90a"

# C++ names of what is instantiated from templates, by file.
OPERATIONS = ("FmaF32", "FmaF64", "FmaF16x2", "MadS32", "Exp2F32", "PopcB32", "ShuffleB32", "FmaThree")
CHAINS = (1, 2, 4, 8)
HELD = (20, 54, 84, 118, 180, 240)
AHEAD = (1, 2, 4, 8)
STRAIGHT = (256, 1024, 4096)  # instructions
SKIPS = (1, 4, 16)  # stretches of code
MMA = ("MmaF16", "MmaBF16", "MmaTF32", "MmaS8")
TEMPLATES = {
    "sm": [f"chains<{op}, {n}>" for op in OPERATIONS for n in CHAINS] + [f"hold<{n}>" for n in HELD],
    "memory": [
        "chase<ThroughL1>",
        "chase<ThroughL2>",
        *(f"read_slices<{way}, {n}>" for way in ("ReadL1", "ReadL2") for n in AHEAD),
    ],
    "cold": [f"{kind}<{n}>" for kind in ("straight", "wide") for n in STRAIGHT] + [f"skips<{n}>" for n in SKIPS],
    "tensor": [f"mma_sync<{op}>" for op in MMA],
}


def source(file: str) -> str:
    """The text of sm.cu, memory.cu, cold.cu or tensor.cu, whole."""
    text = (FOLDER / f"{file}.cu").read_text(encoding="utf-8")
    return wgmma_macros() + text if file == "tensor" else text


def wgmma_macros() -> str:
    """One wgmma instruction of each type, m64n256 with 32 bytes of K: too many operands to write by hand."""
    registers = ",".join(f"%{i}" for i in range(128))
    text = ""
    for name, types, k, letter, flags in (
        ("f16", "f32.f16.f16", 16, "f", ", 1, 1, 0, 0"),
        ("bf16", "f32.bf16.bf16", 16, "f", ", 1, 1, 0, 0"),
        ("tf32", "f32.tf32.tf32", 8, "f", ", 1, 1"),
        ("e4m3", "f32.e4m3.e4m3", 32, "f", ", 1, 1"),
        ("s8", "s32.s8.s8", 32, "r", ""),
    ):
        outputs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(128))
        text += (
            f"#define WGMMA_{name}(d, a, b) asm volatile("
            f'"wgmma.mma_async.sync.aligned.m64n256k{k}.{types} {{{registers}}}, %128, %129, 1{flags};"'
            f' : {outputs} : "l"(a), "l"(b))\n'
        )
    return text


@cache
def _module(file: str) -> cupy.RawModule:
    options = ("-std=c++17", ARCHITECTURE)
    return cupy.RawModule(code=source(file), options=options, name_expressions=TEMPLATES[file])


@cache
def kernel(file: str, name: str) -> Any:
    """A kernel of a file, by its C++ name."""
    return _module(file).get_function(name)


@cache
def sink() -> cupy.ndarray:
    """Where kernels would write a result that nobody needs."""
    return cupy.zeros(4, dtype=cupy.uint64)


def sms() -> int:
    """SMs of this GPU, as the driver says."""
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])


def cycles(
    file: str, name: str, grid: int, block: int, arguments: Sequence[Any], readers: int = 1, cluster: int = 1
) -> list[int]:
    """Launches once untimed and three times more; the best run's cycles.

    A kernel's last arguments are `ticks` and a sink. With `readers` warps of one block writing begin and end, it is
    one number: from the first begin to the last end. With readers = 0 every cluster writes its own pair: a number each.
    """
    pairs = readers or grid // cluster
    ticks = cupy.zeros(2 * pairs, dtype=cupy.uint64)
    best: list[int] = []
    for _ in range(4):
        kernel(file, name)((grid,), (block,), (*arguments, ticks, sink()))
        seen = ticks.get().astype(np.int64).reshape(pairs, 2)
        took = [int(seen[:, 1].max() - seen[:, 0].min())] if readers else (seen[:, 1] - seen[:, 0]).tolist()
        if not best or median(took) < median(best):
            best = took
    return best


def seconds(work: Callable[[], None], repeats: int = 5, before: Callable[[], None] | None = None) -> float:
    """Median of the times of `work` between CUDA events, after one run that does not count."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    work()
    times = []
    for _ in range(repeats):
        if before:
            before()
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return median(times)


@cache
def _foreign() -> cupy.ndarray:
    return cupy.zeros(256 << 18, dtype=cupy.uint32)


def flush() -> None:
    """Fill L2 with lines that nobody else uses."""
    _foreign().sum()
