"""The time estimate: its bound on kernels made to have one, and what it says about itself."""

from dataclasses import replace

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.emulator.model.estimate import START, estimate
from warplab.errors import PlanError
from warplab.hardware.chips import H200, RTX_4090
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

SOURCE = """
extern "C" __global__ void copy(const float4* a, float4* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i];
}
extern "C" __global__ void sines(float* out, int n)
{
    float v = threadIdx.x;
    for (int i = 0; i < n; ++i) v = __sinf(v);
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
extern "C" __global__ void conflicts(float* out, int n)
{
    __shared__ float tile[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = i;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += ((volatile float*)tile)[threadIdx.x * 32 & 1023];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def run(entry, arrays, arguments, blocks, chip=H200):
    plan = cuda_plan(SOURCE, entry, arrays, arguments, (blocks,), (256,))
    inputs = {name: array for name, (array, role) in arrays.items() if role is not Role.OUTPUT}
    return execute(plan, inputs, caches=chip, sanitize=False)


def copy(blocks):
    n = 1024 * blocks
    return run(
        "copy", {"a": (np.ones(n, "f4"), Role.INPUT), "out": (np.ones(n, "f4"), Role.OUTPUT)}, ("a", "out"), blocks
    )


def loop(entry, steps):
    return run(entry, {"out": (np.ones(1056 * 256, "f4"), Role.OUTPUT)}, ("out", np.int32(steps)), 1056)


def test_a_copy_is_not_faster_than_dram():
    blocks = 8192
    modelled = estimate(copy(blocks), H200)
    assert modelled.seconds > START + blocks * 4096 / H200.bandwidth
    assert modelled.launches[0].bound.name in ("L2", "DRAM", "latency")


def test_a_chip_with_half_the_bandwidth_takes_longer():
    execution = copy(8192)
    slower = replace(H200, bandwidth=H200.bandwidth / 8)
    assert estimate(execution, slower).launches[0].bound.name == "DRAM"
    assert estimate(execution, slower).seconds > 1.5 * estimate(execution, H200).seconds


@pytest.mark.parametrize(("entry", "bound"), [("sines", "special functions"), ("conflicts", "L1 and shared memory")])
@pytest.mark.slow
def test_the_busiest_part_is_the_bound(entry, bound):
    short, long = (estimate(loop(entry, steps), H200) for steps in (100, 200))
    assert long.launches[0].bound.name == bound
    work = [e.launches[0].bound.seconds for e in (short, long)]
    assert work[1] == pytest.approx(2 * work[0], rel=0.1)


def test_special_functions_run_at_16_lanes_a_clock():
    (launch,) = estimate(loop("sines", 200), H200).launches
    clocks = 1056 * 8 * 200 * 32 / 16 / 132
    assert launch.bound.seconds == pytest.approx(clocks / H200.boost_clock, rel=0.01)


def test_it_says_that_it_is_modelled():
    text = repr(estimate(loop("sines", 100), H200))
    assert "modelled, not measured" in text
    assert "bound by special functions" in text
    assert H200.name in text


def test_a_chip_that_is_not_known_well_enough_is_refused():
    execution = loop("sines", 1)
    with pytest.raises(PlanError, match="cannot be estimated"):
        estimate(execution, replace(RTX_4090, boost_clock=None))
    with pytest.raises(PlanError, match="cannot be estimated"):
        estimate(execution, replace(H200, compute_capability=(3, 0)))
