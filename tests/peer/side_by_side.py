"""The kernels of benchmarks/peer on the emulator, which has one device: blocks play the ranks.

A rank's blocks get that rank's buffers and call the functions that a GPU's kernels call. The calls of one launch follow
each other within the kernel, so that a rank may be a call ahead of another, as it may be on another GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from systems.peer.kernels import CPP_NAMES, INCLUDE, KINDS, SOURCE, Layout
from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.execution import Execution
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan, Pointer, Role, Structure, Value

KERNELS = r"""
struct Side { u64 stride, patience; u32 blocks, lines, units, launched, calls; };

// The team of the rank that this block plays, and which of the rank's blocks it is.
__device__ Team team_of(char* memory, State* state, const Side& side, u32& block) {
    Team team;
    team.rank = blockIdx.x / side.launched;
    block = blockIdx.x % side.launched;
    team.blocks = side.blocks, team.lines = side.lines, team.units = side.units, team.patience = side.patience;
    team.state = state + team.rank * KINDS * side.blocks;
    for (int p = 0; p < MOST_RANKS; ++p) team.memory[p] = memory + p * side.stride;
    return team;
}

#define CALLS_OF(KERNEL, FUNCTION)                                                                                     \
    template <class T, int RANKS>                                                                                      \
    __global__ void KERNEL(char* memory, State* state, Side side, const T* in, T* out, u32 count, u32 apart) {         \
        u32 block;                                                                                                     \
        Team team = team_of(memory, state, side, block);                                                               \
        for (u32 call = 0; call < side.calls; ++call) {                                                                \
            u64 skipped = (u64)(call * RANKS + team.rank) * apart;                                                     \
            FUNCTION<T, RANKS>(team, block, side.launched, in + skipped, out + skipped, count);                        \
            __syncthreads();                                                                                           \
        }                                                                                                              \
    }
CALLS_OF(one_shots, one_shot)
CALLS_OF(two_shots, two_shot)
CALLS_OF(two_shots_ll, two_shot_ll)

template <class T, int RANKS>
__global__ void fused_calls(
    char* memory, State* state, Side side, const T* in, const T* residual, const T* weight, T* hidden, T* out, u32 rows,
    u32 width, float epsilon
) {
    u32 block;
    Team team = team_of(memory, state, side, block);
    for (u32 call = 0; call < side.calls; ++call) {
        u64 skipped = (u64)(call * RANKS + team.rank) * rows * width;
        fused<T, RANKS>(team, block, side.launched, in + skipped, residual, weight, hidden + skipped, out + skipped,
                        rows, width, epsilon);
        __syncthreads();
    }
}
"""
SMALL = {"blocks": 2, "lines": 96, "units": 48}  # little to emulate, and all of it is searched for races
PATIENCE = 400_000  # ticks: an instruction each, of all blocks
_WORDS = ("blocks", "lines", "units", "launched", "calls")
SIDE = np.dtype([("stride", "u8"), ("patience", "u8"), *((name, "u4") for name in _WORDS)], align=True)
Arrays = Mapping[str, tuple[np.ndarray, Role]]


@cache
def _ptx(text: str, name: str, architecture: str) -> tuple[str, str]:
    made = compile_cpp(text, SOURCE.name, INCLUDE, (name,), architecture)
    return made.ptx, made.lowered[name]


def same(text: str) -> str:
    """The source as it is."""
    return text


def planned(
    kernel: str,
    dtype: str,
    layout: Layout,
    arrays: Arrays,
    numbers: tuple[np.generic, ...],
    *,
    calls: int = 1,
    launches: int = 1,
    launched: int = 0,
    threads: int = 64,
    ranks: int = 0,
    change: Callable[[str], str] = same,
    before: Execution | None = None,
    patience: int = PATIENCE,
    architecture: str = EMULATED_ARCHITECTURE,
) -> tuple[Plan, dict[str, np.ndarray]]:
    """A plan that launches `kernel` so that blocks play the ranks, all or the first `ranks`; and what it starts with.

    `change` spoils the source. `before` is an execution whose memory and state this one goes on with.
    """
    stride = layout.nbytes
    held = before.outputs["memory"] if before else np.zeros(layout.ranks * stride // 8, np.uint64)
    state = before.outputs["state"] if before else np.zeros(layout.ranks * layout.state_bytes // 4, np.uint32)
    every = {"memory": (held, Role.INOUT), "state": (state, Role.INOUT), **arrays}
    launched = launched or layout.blocks
    side = np.array((stride, patience, layout.blocks, layout.lines, layout.units, launched, calls), SIDE)
    arguments = (Pointer("memory"), Pointer("state"), Structure(side.tobytes()), *(Pointer(name) for name in arrays))
    arguments += tuple(Value(number.dtype.name, number.item()) for number in numbers)
    text = change(SOURCE.read_text("utf-8")) + f"constexpr u32 KINDS = {KINDS};" + KERNELS
    ptx, entry = _ptx(text, f"{kernel}<{CPP_NAMES[dtype]}, {layout.ranks}>", architecture)
    buffers = {name: buffer(name, array, role) for name, (array, role) in every.items()}
    plan = plan_of(ptx, entry, buffers, arguments, ((ranks or layout.ranks) * launched,), (threads,), source=text)
    launch = replace(plan.launches[0], cooperative=True)
    kernels = {name: replace(one, ptx={architecture: ptx}) for name, one in plan.kernels.items()}
    inputs = {name: array for name, (array, role) in every.items() if role is not Role.OUTPUT}
    return replace(plan, kernels=kernels, launches=(launch,) * launches), inputs


def run(
    kernel: str,
    dtype: str,
    layout: Layout,
    arrays: Arrays,
    numbers: tuple[np.generic, ...],
    *,
    seed: int | None = None,
    **options: Any,
) -> Execution:
    """What `planned` plans, on the emulator; a seed draws the order of warps and blocks."""
    plan, inputs = planned(kernel, dtype, layout, arrays, numbers, **options)
    return execute(plan, inputs, seed=seed)
