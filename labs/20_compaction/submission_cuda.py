"""Lab 20_compaction: the elements of x above a limit, in their order, in CUDA C++."""

import cupy
import numpy as np

BLOCK = 256

module = cupy.RawModule(
    code=r"""
extern "C" __global__ void
compact_kernel(const float* __restrict__ x, int limit, float* out, int* count, int n)
{
    // x and out have n elements, count has one. Keep this block's share of x here.
}
"""
)
compact_kernel = module.get_function("compact_kernel")


def compact(x, limit, out, count):
    """The elements of x above limit, in their order, at the start of out; count[0]: how many they are."""
    blocks = (x.size + BLOCK - 1) // BLOCK
    compact_kernel((blocks,), (BLOCK,), (x, np.int32(limit), out, count, np.int32(x.size)))
