"""The model of L1, L2 and DRAM on accesses whose traffic can be said by hand."""

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.emulator.model.caches import residency
from warplab.hardware.chips import H200
from warplab.plan.model import Launch, Role

pytestmark = pytest.mark.stored

SOURCE = """
extern "C" __global__ void strided(const float* a, float* out, int stride)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i * stride];
}
extern "C" __global__ void again(const float* a, float* out, int span)
{
    float sum = 0;
    for (int t = 0; t < 4; ++t)
        for (int i = threadIdx.x; i < span; i += blockDim.x) sum += a[i];
    out[threadIdx.x] = sum;
}
extern "C" __global__ void count(unsigned* bins)
{
    atomicAdd(bins + threadIdx.x, 1u);
}
"""


def traffic(entry, n, out, scalar=(), grid=(1,), block=(256,), role=Role.OUTPUT):
    arrays = {"a": (np.ones(n, "f4"), Role.INPUT), "out": (np.zeros(out, "f4"), role)}
    plan = cuda_plan(SOURCE, entry, arrays, ("a", "out", *scalar), grid, block)
    return execute(plan, {"a": arrays["a"][0]}, caches=H200).launches[0].caches


def test_a_copy_asks_for_every_sector_once():
    caches = traffic("strided", 65536, 65536, (np.int32(1),), (256,))
    assert (caches.l2_read_sectors, caches.l2_write_sectors) == (8192, 8192)
    assert (caches.dram_read_sectors, caches.l1_load_hits, caches.dram_write_sectors) == (8192, 0, 0)


def test_dram_is_read_in_pairs_of_sectors():
    caches = traffic("strided", 65536 * 16, 65536, (np.int32(16),), (256,))
    assert caches.l2_read_sectors == 65536
    assert caches.dram_read_sectors == 2 * 65536


def test_what_fits_l1_is_read_once():
    caches = traffic("again", 16384, 256, (np.int32(16384),))
    assert caches.l1_load_sectors == 4 * 2048
    assert caches.l1_load_hits == 3 * 2048
    assert caches.dram_read_sectors == 2048


def test_what_does_not_fit_l1_is_read_from_l2():
    n = 131072  # 512 KiB, twice an L1
    caches = traffic("again", n, 256, (np.int32(n),))
    assert caches.l1_load_hits < 0.2 * caches.l1_load_sectors
    assert caches.dram_read_sectors == n // 8


def test_atomics_go_to_l2():
    arrays = {"bins": (np.zeros(256, "u4"), Role.INOUT)}
    plan = cuda_plan(SOURCE, "count", arrays, ("bins",), (10,), (256,))
    caches = execute(plan, {"bins": arrays["bins"][0]}, caches=H200).launches[0].caches
    assert caches.l2_atomic_sectors == 10 * 32
    assert caches.dram_read_sectors == 32


def test_nothing_is_modelled_unless_asked_for():
    arrays = {"bins": (np.zeros(256, "u4"), Role.INOUT)}
    plan = cuda_plan(SOURCE, "count", arrays, ("bins",), (1,), (256,))
    assert execute(plan, {"bins": arrays["bins"][0]}).launches[0].caches is None


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "expected"),
    [
        (256, 32, 0, (8, 256)),  # all warps of an SM, no shared memory
        (256, 32, 48 * 1024, (4, 60)),  # four blocks of 49 KiB need 196 KiB
        (1024, 64, 1024, (1, 248)),  # registers for one block: 2 KiB, of which the least size is 8
    ],
)
def test_residency(threads, registers, shared, expected):
    launch = Launch("kernel", (1, 1, 1), (threads, 1, 1), (), shared)
    blocks, l1 = residency("sm_90a", launch, registers, 0)
    assert (blocks, l1 // 1024) == expected


def most_read(entry, n, out, scalar, grid):
    arrays = {"a": (np.ones(n, "f4"), Role.INPUT), "out": (np.zeros(out, "f4"), Role.OUTPUT)}
    plan = cuda_plan(SOURCE, entry, arrays, ("a", "out", *scalar), grid, (256,))
    launch = execute(plan, {"a": arrays["a"][0]}, sanitize=False, caches=H200, reads_only=True).launches[0]
    assert launch.caches is not None and launch.caches.l2_sectors == 0
    return launch.caches.most_read_by_an_sm


def test_the_busiest_sm_has_a_block_more():
    n = 256 * (H200.sms + 1)
    assert most_read("strided", n, n, (np.int32(1),), (H200.sms + 1,)) == 2 * 32
    assert most_read("strided", n, n, (np.int32(1),), (H200.sms,)) == 32


def test_what_an_sm_reads_again_counts_once():
    assert most_read("again", 16384, 256, (np.int32(16384),), (1,)) == 2048
