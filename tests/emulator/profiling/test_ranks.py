"""What crosses the link of two ranks on one GPU: by the half of the grid and of each array, request by request."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.hardware.chips import H200
from warplab.plan.model import Role

pytestmark = pytest.mark.processes

SOURCE = """
__device__ int spare[64];

// 2 blocks of 32 threads per rank; a has 256 elements, 128 of each rank.
extern "C" __global__ void own(const int* a, int* out) {
    int i = blockIdx.x * 32 + threadIdx.x;
    out[2 * i] = a[2 * i] + a[2 * i + 1];
}
extern "C" __global__ void push(const int* a, int* out) {
    int rank = blockIdx.x / 2, i = blockIdx.x % 2 * 32 + threadIdx.x;
    out[(1 - rank) * 128 + i] = a[rank * 128 + i];
}
extern "C" __global__ void pull(const int* a, int* out) {
    int rank = blockIdx.x / 2, i = blockIdx.x % 2 * 32 + threadIdx.x;
    out[rank * 128 + i] = a[(1 - rank) * 128 + i];
}
extern "C" __global__ void add(const int* a, int* out) {
    int rank = blockIdx.x / 2, i = blockIdx.x % 2 * 32 + threadIdx.x;
    atomicAdd(out + (1 - rank) * 128 + i, a[rank * 128 + i]);
}
extern "C" __global__ void through_the_module(const int* a, int* out) {
    int i = blockIdx.x % 2 * 32 + threadIdx.x;
    spare[i] = a[blockIdx.x / 2 * 128 + i];
}
extern "C" __global__ void twice(const int* a, int* out) {
    int rank = blockIdx.x / 2, i = blockIdx.x % 2 * 32 + threadIdx.x;
    for (int turn = 0; turn < 2; ++turn) ((volatile int*)out)[(1 - rank) * 128 + i] = a[rank * 128 + i];
}
"""


def crossed(entry: str, grid: tuple[int, ...] = (4,), copied: frozenset[str] = frozenset()) -> tuple[int, int]:
    """Sectors that are read and written over the link."""
    a = np.arange(256, dtype=np.int32)
    arrays = {"a": (a, Role.INPUT), "out": (np.zeros(256, np.int32), Role.INOUT)}
    plan = cuda_plan(SOURCE, entry, arrays, ("a", "out"), grid, (32,))
    inputs = {"a": a, "out": np.zeros(256, np.int32)}
    launch = execute(plan, inputs, sanitize=False, caches=H200, copied=copied).launches[0]
    assert launch.caches is not None
    return launch.caches.link_read_sectors, launch.caches.link_written_sectors


@pytest.mark.parametrize(
    ("entry", "read", "written"),
    [
        ("own", 0, 0),
        ("push", 0, 16),  # 4 warps of 128 bytes
        ("pull", 16, 0),
        ("add", 0, 16),
        ("through_the_module", 0, 16),  # neither rank's memory
        ("twice", 0, 32),
    ],
)
def test_requests_of_the_other_half_cross(entry, read, written):
    assert crossed(entry) == (read, written)


def test_arrays_that_each_rank_has_a_copy_of_do_not_cross():
    assert crossed("pull", copied=frozenset({"a"})) == (0, 0)


def test_ranks_are_halves_of_all_blocks_in_order():
    """By x all blocks are the first, which works on rank 0's memory; the last two are rank 1's."""
    for grid in ((1, 4), (1, 1, 4)):
        assert crossed("own", grid=grid) == (32, 16)
