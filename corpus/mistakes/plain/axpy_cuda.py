"""axpy as a beginner writes it in CUDA C++."""

import cupy
import numpy as np

BLOCK = 256

axpy_kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void axpy_kernel(float alpha, const float* x, const float* y, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = alpha * x[i] + y[i];
    }
}
""",
    "axpy_kernel",
)


def axpy(alpha, x, y, out):
    """out = alpha * x + y."""
    blocks = (out.size + BLOCK - 1) // BLOCK
    axpy_kernel((blocks,), (BLOCK,), (np.float32(alpha), x, y, out, np.int32(out.size)))
