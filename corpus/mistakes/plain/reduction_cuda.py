"""total as a beginner writes it in CUDA C++."""

import cupy
import numpy as np

BLOCK = 256

module = cupy.RawModule(
    code=r"""
extern "C" __global__ void zero_kernel(float* out) { out[0] = 0.0f; }

extern "C" __global__ void total_kernel(const float* x, float* out, int n)
{
    __shared__ float sums[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) {
            sums[t] += sums[t + half];
        }
        __syncthreads();
    }
    if (t == 0) atomicAdd(out, sums[0]);
}
"""
)
zero_kernel = module.get_function("zero_kernel")
total_kernel = module.get_function("total_kernel")


def total(x, out):
    """out[0] is the sum of x."""
    blocks = (x.size + BLOCK - 1) // BLOCK
    zero_kernel((1,), (1,), (out,))
    total_kernel((blocks,), (BLOCK,), (x, out, np.int32(x.size)))
