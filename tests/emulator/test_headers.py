"""Headers that CUDA C++ programs include and NVRTC lacks: what they declare is there, and right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulator.captured import grab, run
from warplab.plan.capture.failure import CaptureFailure

pytestmark = pytest.mark.stored

TEXT = r'''
CODE = r"""
#include <cuda.h>
#include <stdio.h>
#include <cassert>
#include <stdint.h>
#include <cstdint>
#include <cfloat>
#include <climits>
#include <limits>
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>
#include <cooperative_groups.h>
#include <cub/cub.cuh>

template <typename T, std::enable_if_t<std::is_same<T, float>::value, int> = 0>
__device__ T same(T v) { return std::move(v); }

extern "C" __global__ void k(float* y, uint8_t a, std::int64_t b) {
    using Reduce = cub::BlockReduce<int, 64>;
    using Scan = cub::BlockScan<int, 64>;
    __shared__ union { typename Reduce::TempStorage reduce; typename Scan::TempStorage scan; } room;
    int i = threadIdx.x, before, sum = Reduce(room.reduce).Sum(i);
    cooperative_groups::this_thread_block().sync();
    Scan(room.scan).ExclusiveSum(i, before);
    assert(b > 0);
    y[i] = before;
    if (i == 0) {
        printf("%d\n", sum);
        y[i] = same(std::min(2.0f, FLT_MAX)) + std::max<int>(a, -1) + (std::numeric_limits<int>::max() == INT_MAX)
             + 16 * (sizeof(uint64_t) == 8 && SIZE_MAX == UINT64_MAX) + b;
    }
}
"""
k = cp.RawKernel(CODE, "k")

def f(y):
    k((1,), (64,), (y, 250, 1000))
'''


@pytest.mark.processes  # its folder is in the PTX
def test_headers_of_c_and_cub(tmp_path: Path) -> None:
    execution = run(TEXT, tmp_path)
    expected = np.cumsum(np.arange(64)) - np.arange(64)
    expected[0] = 2 + 250 + 1 + 16 + 1000
    assert np.array_equal(execution.outputs["y"], expected) and execution.stdout == f"{sum(range(64))}\n"


@pytest.mark.parametrize(
    ("header", "statement"),
    [
        ("cub/device/device_reduce.cuh", ""),
        ("cub/cub.cuh", "size_t bytes = 0; cub::DeviceReduce::Sum((void*)0, bytes, y, y, 1);"),
        ("thrust/device_vector.h", ""),
    ],
)
def test_what_cub_and_thrust_launch_themselves_is_refused(header: str, statement: str, tmp_path: Path) -> None:
    code = f'#include <{header}>\nextern "C" __global__ void k(float* y) {{ {statement} }}'
    with pytest.raises(CaptureFailure) as caught:
        grab(f'k = cp.RawKernel(r"""{code}""", "k")\ndef f(y):\n    k((1,), (1,), (y,))\n', tmp_path)
    assert "call cub::BlockReduce and its like in a kernel of yours" in caught.value.message
