"""Lab 01_axpy: out = alpha * x + y, in CUDA C++."""

import cupy
import numpy as np

BLOCK = 256

axpy_kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void axpy_kernel(float alpha, const float* __restrict__ x, const float* __restrict__ y,
                                       float* __restrict__ out, long long n)
{
    // BEGIN SOLUTION
    // STARTER: // x, y and out have n elements. Compute this thread's share of them here.
    // One 128-bit access moves four elements. Vectors begin on a 16-byte boundary, so only the end needs care.
    long long first = 4 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);
    if (first + 4 <= n) {
        float4 xs = *reinterpret_cast<const float4*>(x + first);
        float4 ys = *reinterpret_cast<const float4*>(y + first);
        float4 result = make_float4(alpha * xs.x + ys.x, alpha * xs.y + ys.y, alpha * xs.z + ys.z, alpha * xs.w + ys.w);
        *reinterpret_cast<float4*>(out + first) = result;
    } else {
#pragma unroll 1
        for (long long i = first; i < n; ++i) out[i] = alpha * x[i] + y[i];
    }
    // END SOLUTION
}
""",
    "axpy_kernel",
)


def axpy(alpha, x, y, out):
    """out = alpha * x + y. alpha is a Python float; x, y and out are float32 vectors of one length, at least 1."""
    # BEGIN SOLUTION
    # STARTER: blocks = (out.size + BLOCK - 1) // BLOCK  # enough blocks for one thread an element
    blocks = (out.size + 4 * BLOCK - 1) // (4 * BLOCK)
    # END SOLUTION
    axpy_kernel((blocks,), (BLOCK,), (np.float32(alpha), x, y, out, np.int64(out.size)))
