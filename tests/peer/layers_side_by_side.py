"""The layer of systems/peer/row_parallel.cu on the emulator: blocks play both ranks, as in side_by_side.

A launch makes both of CALLS calls, so that a rank may be a call ahead of the other; or there is a launch for each, as a
GPU's kernel is made for. Each call has its own A and C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from systems.peer.kernels import INCLUDE
from systems.peer.row_parallel import (
    BOX_A,
    BOX_B,
    BOX_C,
    RANKS,
    SOURCE,
    THREADS,
    Room,
    Size,
    shared_bytes,
    tensor_map,
)
from tests.emulator.plans import buffer, plan_of
from tests.peer.side_by_side import PATIENCE, same
from warplab.emulator import execute
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.execution import Execution
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan, Pointer, Role, TensorMap, Value

CALLS = 2
KERNEL = r"""
// Maps are in memory, where they can be chosen; a copy of a parameter is no place for one.
__device__ const Map& known(const Map* map) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
    return *map;
}

template <int N, int CALLS>
__global__ void __launch_bounds__(THREADS, 1) layers(
    char* memory, State* state, u64 stride, u64 slots, u64 patience, u32 most, u32 launched, int m, int n, int k,
    const Map* b0, const Map* b1, const Map* a00, const Map* a01, const Map* a10, const Map* a11,
    const Map* c00, const Map* c01, const Map* c10, const Map* c11
) {
    u32 rank = blockIdx.x / launched;
    Pair pair = {rank, most, slots, patience, state + rank * launched, {memory, memory + stride}};
    #pragma unroll 1
    for (int call = 0; call < CALLS; ++call) {
        const Map* a = call ? (rank ? a11 : a10) : (rank ? a01 : a00);
        const Map* here = call ? (rank ? c11 : c10) : (rank ? c01 : c00);
        const Map* there = call ? (rank ? c10 : c11) : (rank ? c00 : c01);
        row_parallel<N>(pair, blockIdx.x % launched, launched, known(a), known(rank ? b1 : b0), known(here),
                        known(there), m, n, k);
        if (CALLS > 1) __syncthreads();
    }
}
"""


@dataclass(frozen=True)
class Case:
    """A call's size, its tiles' columns, and the blocks of a rank."""

    size: Size
    width: int = 64
    blocks: int = 2


@cache
def _ptx(text: str, width: int, calls: int, architecture: str) -> tuple[str, str]:
    expression = f"layers<{width}, {calls}>"
    made = compile_cpp(text, SOURCE.name, INCLUDE, (expression,), architecture)
    return made.ptx, made.lowered[expression]


def drawn(size: Size, seed: int, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """A (calls, ranks, m, k) and B (ranks, k, n) as bfloat16 in uint16: N(0, 1); or -1, 0, 1, whose sums are exact."""
    draw = np.random.default_rng(seed)
    shapes = (CALLS, RANKS, size.m, size.k), (RANKS, size.k, size.n)
    made = (draw.integers(-1, 2, shape) if whole else draw.standard_normal(shape) for shape in shapes)
    a, b = ((x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in made)
    return a, b


def planned(
    case: Case,
    a: np.ndarray,
    b: np.ndarray,
    *,
    ranks: int = RANKS,
    launches: int = 1,
    change: Callable[[str], str] = same,
    before: Execution | None = None,
    patience: int = PATIENCE,
    architecture: str = EMULATED_ARCHITECTURE,
) -> tuple[Plan, dict[str, np.ndarray]]:
    """CALLS calls by the first `ranks` ranks, in 1 or CALLS launches, and what they start with: zeros, or what `before`
    left. `change` spoils the source.
    """
    size, room = case.size, Room(case.size.m, case.size.n)
    memory = before.outputs["memory"] if before else np.zeros(RANKS * room.out // 8, np.uint64)
    state = before.outputs["state"] if before else np.zeros(RANKS * case.blocks * 2, np.uint32)
    c = np.zeros((CALLS, RANKS, size.m, size.n), np.uint16)
    every = {
        "memory": (memory, Role.INOUT), "state": (state, Role.INOUT),
        "a": (a, Role.INPUT), "b": (b, Role.INPUT), "c": (c, Role.OUTPUT),
    }  # fmt: skip
    numbers = (np.uint64(room.out), np.uint64(room.slots), np.uint64(patience), np.uint32(room.most),
               np.uint32(case.blocks), np.int32(size.m), np.int32(size.n), np.int32(size.k))  # fmt: skip

    def maps(name: str, rows: int, columns: int, box: tuple[int, int], count: int) -> list[TensorMap]:
        return [tensor_map(name, i * 2 * rows * columns, rows, columns, box) for i in range(count)]

    everywhere = (
        Pointer("memory"), Pointer("state"), *(Value(number.dtype.name, number.item()) for number in numbers),
        *maps("b", size.k, size.n, BOX_B, RANKS),
    )  # fmt: skip
    of_calls = [maps("a", size.m, size.k, BOX_A, CALLS * RANKS), maps("c", size.m, size.n, BOX_C, CALLS * RANKS)]

    def arguments(launch: int) -> tuple:
        """Those of a launch that makes one call have that call's maps twice."""
        at = slice(RANKS * launch, RANKS * (launch + 1))
        return (*everywhere, *(one for all_ in of_calls for one in (all_ if launches == 1 else 2 * all_[at])))

    text = change(SOURCE.read_text("utf-8")) + KERNEL
    ptx, entry = _ptx(text, case.width, CALLS // launches, architecture)
    buffers = {name: buffer(name, array, role) for name, (array, role) in every.items()}
    shared = shared_bytes(case.width)
    plan = plan_of(ptx, entry, buffers, arguments(0), (ranks * case.blocks,), (THREADS,), shared, source=text)
    kernels = {
        key: replace(one, ptx={architecture: ptx}, max_dynamic_shared=shared) for key, one in plan.kernels.items()
    }
    made = [replace(plan.launches[0], arguments=arguments(each), cooperative=True) for each in range(launches)]
    inputs = {name: array for name, (array, role) in every.items() if role is not Role.OUTPUT}
    return replace(plan, kernels=kernels, launches=tuple(made)), inputs


def run(case: Case, a: np.ndarray, b: np.ndarray, *, seed: int | None = None, **options) -> Execution:
    """What `planned` plans, on the emulator; a seed draws the order of blocks, warps and copies."""
    plan, inputs = planned(case, a, b, **options)
    return execute(plan, inputs, seed=seed)
