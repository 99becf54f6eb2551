"""The cases: each follows from a seed and a number alone, so that any of them can be had again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from corpus.fuzzing import kernels
from corpus.fuzzing.mutate import damaged_bytes, damaged_text
from warplab.plan.archive import dumps, loads
from warplab.plan.model import Buffer, Dim3, Kernel, Language, Launch, Parameter, Plan, Pointer, Role, TensorMap

ARCHITECTURE = "sm_90a"
TRITON = Path(__file__).resolve().parents[1] / "triton" / "data"
PARAMETERS = (Parameter("a", 8, 8), Parameter("b", 8, 8), Parameter("map", 128, 64))
LARGEST_GRID = 4  # blocks along each axis of a launch of damaged PTX: what was meant for the kernel is of no use


@dataclass(frozen=True)
class Case:
    """One case: `plan()` gives what is to be executed, or raises what a damaged file is refused with.

    `material` is what a reader needs to look at it: PTX, or the bytes of a file.
    """

    kind: str
    material: bytes
    plan: Callable[[], Plan]
    seed: int | None  # of the execution
    workers: int


@cache
def _triton() -> tuple[Plan, ...]:
    from corpus.triton.cases import CASES
    from corpus.triton.recorded import plan_of

    plans = (plan_of(case, TRITON) for case in CASES)
    return tuple(p for p in plans if sum(len(t) for k in p.kernels.values() for t in k.ptx.values()) < 30_000)


def _hostile(rng: random.Random) -> Plan:
    """A plan for a kernel of `kernels`."""
    cluster: Dim3 = rng.choice(((1, 1, 1), (1, 1, 1), (2, 1, 1), (2, 2, 1)))
    grid = (cluster[0] * rng.choice((1, 2)), cluster[1], 1)
    block = (rng.choice((1, 7, 32, 33, 64, 128)), 1, 1)
    swizzle = rng.choice((0, 32, 64, 128))
    columns = (swizzle or 128) // 4
    tensor = TensorMap(
        "a", 0, "float32", (columns, 4096 // (4 * columns)), (4 * columns,), (columns, 8), (1, 1), swizzle
    )
    shared = rng.choice((0, 0, 16, 4096, 40_000))
    buffers = {
        "a": Buffer("a", Role.INPUT, "uint8", (kernels.A_BYTES,), (1,)),
        "b": Buffer("b", Role.SCRATCH, "uint8", (kernels.B_BYTES,), (1,), rng.random() < 0.5),
    }
    ptx = kernels.kernel(rng)
    kernel = Kernel("fuzz", "fuzz", Language.NUMBA, PARAMETERS, {ARCHITECTURE: ptx})
    arguments = (Pointer("a"), Pointer("b"), tensor)
    return Plan("host", {"fuzz": kernel}, buffers, (Launch("fuzz", grid, block, arguments, shared, cluster),))


def _with_text(plan: Plan, change: Callable[[str], str]) -> Plan:
    """The plan with the PTX of its kernels changed, and small grids."""
    kernels_ = {
        name: replace(k, ptx={architecture: change(text) for architecture, text in k.ptx.items()})
        for name, k in plan.kernels.items()
    }
    launches = tuple(replace(launch, grid=_smaller(launch)) for launch in plan.launches)
    return replace(plan, kernels=kernels_, launches=launches)


def _smaller(launch: Launch) -> Dim3:
    x, y, z = (
        min(extent, max(LARGEST_GRID // of * of, of)) for extent, of in zip(launch.grid, launch.cluster, strict=True)
    )
    return x, y, z


def _ptx(plan: Plan) -> bytes:
    return "\n".join(text for kernel in plan.kernels.values() for text in kernel.ptx.values()).encode(
        "utf-8", "replace"
    )


def make(seed: int, number: int) -> Case:
    """The case of that number."""
    rng = random.Random(f"{seed} {number}")
    kind = rng.choices(("memory", "damaged memory", "damaged Triton", "damaged file"), (50, 20, 20, 10))[0]
    execution = rng.choice((None, None, rng.getrandbits(30)))
    workers = rng.choice((1, 1, 2))
    if kind == "damaged file":
        # A kernel's text is most of a file; without it the rest is hit as well.
        plan = _hostile(rng)
        if rng.random() < 0.5:
            plan = _with_text(plan, lambda _: kernels.EMPTY)
        data = damaged_bytes(rng, dumps(plan))
        return Case(kind, data, lambda: loads(data), execution, workers)
    plan = rng.choice(_triton()) if kind == "damaged Triton" else _hostile(rng)
    if kind != "memory":
        plan = _with_text(plan, lambda text: damaged_text(rng, text))
    return Case(kind, _ptx(plan), lambda: plan, execution, workers)


def inputs(plan: Plan) -> dict[str, np.ndarray]:
    """What the plan asks for: small numbers, for every type."""
    given = {}
    for name, buffer in plan.buffers.items():
        if buffer.role in (Role.INPUT, Role.INOUT):
            given[name] = np.resize(np.arange(251), buffer.shape or (1,)).astype(buffer.dtype).reshape(buffer.shape)
    return given
