"""transpose as a beginner writes it in CUDA C++."""

import cupy
import numpy as np

TILE = 32
ROWS = 8

transpose_kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void transpose_kernel(const float* a, float* out, int m, int n)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) {
        if (y + k < m && x < n) tile[threadIdx.y + k][threadIdx.x] = a[(y + k) * n + x];
    }
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) {
        if (y + k < n && x < m) out[(y + k) * m + x] = tile[threadIdx.x][threadIdx.y + k];
    }
}
""",
    "transpose_kernel",
)


def transpose(a, out):
    """out[j, i] = a[i, j]."""
    m, n = a.shape
    blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
    transpose_kernel(blocks, (TILE, ROWS), (a, out, np.int32(m), np.int32(n)))
