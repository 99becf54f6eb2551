"""Blocks that wait for each other: cooperative grids, grid barriers written by hand, flags, and what cannot work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from tests.emulator.tensor import tensor_memory
from warplab.emulator import crew, execute, executor, profile
from warplab.plan.archive import dumps, loads
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Plan, Role

pytestmark = pytest.mark.processes  # PTX of cooperative groups names the folders of its headers

SOURCE = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void cooperative(const int* a, int* part, int* out)
{
    cg::grid_group grid = cg::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < 3; ++round) {
        part[i] = a[i] + round;
        grid.sync();
        // The whole grid's values: those of the block across.
        int across = (gridDim.x - 1 - blockIdx.x) * blockDim.x + threadIdx.x;
        out[round * gridDim.x * blockDim.x + i] = part[across];
        grid.sync();
    }
}

extern "C" __global__ void by_hand(const int* a, unsigned* arrived, int* part, int* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[i] = a[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (*(volatile unsigned*)arrived < gridDim.x) { }
    }
    __syncthreads();
    out[i] = *(volatile int*)(part + (gridDim.x - 1 - blockIdx.x) * blockDim.x + threadIdx.x);
}

extern "C" __global__ void wide_tile(const int* a, int* out)
{
    auto tile = cg::tiled_partition<128>(cg::this_thread_block());
    __shared__ int values[256];
    values[threadIdx.x] = a[threadIdx.x];
    tile.sync();
    out[threadIdx.x] = values[threadIdx.x ^ 127];
}
"""
THREADS = 64


def plan(kernel: str, blocks: int, rounds: int, cooperative: bool) -> tuple[Plan, np.ndarray]:
    """A launch of a kernel with so many blocks, and its input."""
    a = np.random.default_rng(blocks).integers(0, 1000, blocks * THREADS).astype(np.int32)
    arrays = {"a": (a, Role.INPUT), "part": (np.zeros_like(a), Role.SCRATCH)}
    arrays["out"] = (np.zeros(rounds * a.size, np.int32), Role.OUTPUT)
    names = ["a", "part", "out"]
    if kernel == "by_hand":
        arrays["arrived"] = (np.zeros(1, np.uint32), Role.INOUT)
        names.insert(1, "arrived")
    made = cuda_plan(SOURCE, kernel, arrays, tuple(names), (blocks,), (THREADS,))
    return replace(made, launches=(replace(made.launches[0], cooperative=cooperative),)), a


def run(made: Plan, a: np.ndarray, **options) -> Execution:
    inputs = {"a": a}
    if "arrived" in made.buffers:
        inputs["arrived"] = np.zeros(1, np.uint32)
    return execute(made, inputs, **options)


def across(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1, THREADS)[::-1].ravel()


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("blocks", [1, 7, 132])
def test_a_cooperative_grid(blocks, seed) -> None:
    made, a = plan("cooperative", blocks, 3, True)
    result = run(loads(dumps(made)), a, seed=seed)
    assert result.findings == () and not any(name.startswith("races") for name in result.notes), (
        "all of it is searched for races"
    )
    assert np.array_equal(result.outputs["out"].reshape(3, -1), [across(a) + n for n in range(3)])


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("blocks", [2, 100, 200])
def test_a_grid_barrier_written_by_hand(blocks, cooperative, seed) -> None:
    """200 blocks are more than are started at a time where nothing waits."""
    made, a = plan("by_hand", blocks, 1, cooperative)
    result = run(made, a, seed=seed)
    assert result.findings == ()
    assert np.array_equal(result.outputs["out"], across(a))


@pytest.mark.slow
def test_more_blocks_than_the_gpu_holds() -> None:
    """An SM of an H200 holds 32 blocks of 64 threads."""
    made, a = plan("cooperative", 32 * 132 + 1, 3, True)
    result = run(made, a)
    assert [f.kind for f in result.findings] == [FindingKind.LAUNCH_FAILURE]
    assert "needs its 4225 blocks on the GPU at one time" in result.findings[0].message
    made, a = plan("by_hand", 32 * 132 + 1, 1, False)
    result = run(made, a, instruction_budget=20_000_000)
    assert [f.kind for f in result.findings] == [FindingKind.ENDLESS]


def test_more_blocks_than_the_emulator_has_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "MAX_RESIDENT", 1 << 20)
    made, a = plan("cooperative", 500, 3, True)
    (finding,) = run(made, a).findings
    assert finding.kind is FindingKind.LAUNCH_FAILURE and "the emulator has memory for" in finding.message


def test_tensor_memory_takes_less_than_a_mebibyte_and_a_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter is the data; the search for hazards keeps every thread that reads a cell."""
    for limit, fits in ((3 << 19, True), (1 << 18, False)):
        monkeypatch.setattr(executor, "MAX_RESIDENT", limit)
        findings = tensor_memory.run("").findings
        assert (findings == ()) is fits, findings


def test_a_grid_barrier_in_a_launch_that_is_not_cooperative() -> None:
    made, a = plan("cooperative", 2, 3, False)
    (finding,) = run(made, a).findings
    assert finding.kind is FindingKind.TRAP and "cooperative launch" in finding.message


def test_a_block_of_a_cooperative_grid_is_recorded() -> None:
    made, a = plan("cooperative", 5, 3, True)
    recorded = profile(made, {"a": a}, block=(3, 0, 0))
    assert recorded.execution.findings == ()
    chart = recorded.timeline()
    assert {issue.warp for issue in chart.issues} == {0, 1}


def test_a_tile_of_several_warps_finds_its_reserved_memory() -> None:
    a = np.arange(256, dtype=np.int32)
    arrays = {"a": (a, Role.INPUT), "out": (np.zeros_like(a), Role.OUTPUT)}
    result = execute(cuda_plan(SOURCE, "wide_tile", arrays, ("a", "out"), (1,), (256,)), {"a": a})
    assert FindingKind.UNINITIALISED not in {f.kind for f in result.findings}
    assert np.array_equal(result.outputs["out"], a ^ 127)
