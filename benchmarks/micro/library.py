"""A whole matrix product of the library on data that takes more power or less: torch.matmul, which calls cuBLAS."""

from __future__ import annotations

from collections.abc import Iterator

import cupy
import torch

from benchmarks.micro.tensor import SEGMENT, SEGMENTS, under_load
from course.results import Record

SIDE = 8192


def records() -> Iterator[Record]:
    """The rate of the same product on zeros, on ones and on random numbers."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    makers = {
        "zeros": lambda: torch.zeros(SIDE, SIDE, dtype=torch.float16, device="cuda"),
        "ones": lambda: torch.ones(SIDE, SIDE, dtype=torch.float16, device="cuda"),
        "N(0, 1)": lambda: torch.randn(SIDE, SIDE, device="cuda", generator=generator).half(),
    }
    c = torch.empty(SIDE, SIDE, dtype=torch.float16, device="cuda")
    stream = cupy.cuda.Stream(non_blocking=True)
    for data, make in makers.items():
        a, b = make(), make()
        torch.cuda.synchronize()
        with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            load = under_load(lambda a=a, b=b: torch.matmul(a, b, out=c))  # type: ignore[misc]
        yield Record(
            "matmul", "rate", 2.0 * SIDE**3 / load.seconds, "FLOP/s", variant=data, shape=(SIDE, SIDE, SIDE),
            dtype="float16", conditions=f"torch.matmul (cuBLAS), after {SEGMENT * (SEGMENTS - 1):g} s of the same",
            extra={
                "sm_clock": load.clock, "watts": load.watts, "held_by": load.held_by,
                "course": [2.0 * SIDE**3 / t for t in load.course],
            },
        )  # fmt: skip
