"""Lab 01_axpy: out = alpha * x + y, in CUDA C++."""

import cupy
import numpy as np

BLOCK = 256

axpy_kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void axpy_kernel(float alpha, const float* __restrict__ x, const float* __restrict__ y,
                                       float* __restrict__ out, long long n)
{
    // x, y and out have n elements. Compute this thread's share of them here.
}
""",
    "axpy_kernel",
)


def axpy(alpha, x, y, out):
    """out = alpha * x + y. alpha is a Python float; x, y and out are float32 vectors of one length, at least 1."""
    blocks = (out.size + BLOCK - 1) // BLOCK  # enough blocks for one thread an element
    axpy_kernel((blocks,), (BLOCK,), (np.float32(alpha), x, y, out, np.int64(out.size)))
