"""The occupancy calculator against the driver's own, for 1,000 random kernels on the GPU that is here."""

from __future__ import annotations

import random

import pytest

from warplab.hardware.device import architecture_of, present
from warplab.plan.limits import limits_of
from warplab.plan.occupancy import occupancy

KERNELS = 1000
COMPILED = 80  # each asked about with several block sizes and dynamic sizes

# VALUES floats that stay in registers, and SHARED bytes of static shared memory.
SOURCE = r"""
template <int VALUES, int SHARED>
__global__ void holder(const float* in, float* out) {
    __shared__ char tile[SHARED];
    float value[VALUES], sum = 0;
    #pragma unroll
    for (int i = 0; i < VALUES; ++i) asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(value[i]) : "l"(in + i));
    tile[threadIdx.x % SHARED] = (char)threadIdx.x;
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < VALUES; ++i) sum += value[i] * tile[(threadIdx.x * 7) % SHARED];
    out[threadIdx.x] = sum;
}
"""


@pytest.mark.gpu
def test_blocks_per_sm_are_the_driver_s() -> None:
    import cupy
    from cuda.bindings import driver

    device = present()
    assert device is not None
    architecture = architecture_of(device)
    most = limits_of(architecture).block_shared
    rng = random.Random(20261120)
    names = [f"holder<{rng.randint(1, 238)}, {rng.choice((1, rng.randint(2, 49152)))}>" for _ in range(COMPILED)]
    module = cupy.RawModule(code=SOURCE, options=("-std=c++17",), name_expressions=names)
    limiters, wrong = set(), []
    for number in range(KERNELS):
        kernel = module.get_function(names[number % COMPILED])
        static = kernel.shared_size_bytes
        threads = rng.choice((rng.randint(1, 1024), 32 * rng.randint(1, 32)))
        dynamic = rng.choice((0, rng.randint(0, most - static)))
        kernel.max_dynamic_shared_size_bytes = dynamic
        kernel.preferred_shared_memory_carveout = 100
        handle = driver.CUfunction(kernel.kernel.ptr)
        error, blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, threads, dynamic)
        assert int(error) == 0
        ours = occupancy(architecture, threads, kernel.num_regs, static, dynamic)
        if ours.blocks != blocks:
            wrong.append((threads, kernel.num_regs, static, dynamic, ours.blocks, blocks))
        limiters.update(ours.limiters)
    assert not wrong, f"{len(wrong)}; first (threads, registers, static, dynamic, ours, the driver's): {wrong[0]}"
    assert len(limiters) == 4  # every resource was the limit of some kernel
