# expect: traffic: over budget: 32 lanes read a column of the tile from one bank
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(const float* a, float* out, int m, int n) {
    __shared__ float tile[32][32];
    int i = blockIdx.y * 32 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    if (i < m && j < n) tile[threadIdx.y][threadIdx.x] = a[i * n + j];
    __syncthreads();
    i = blockIdx.y * 32 + threadIdx.x, j = blockIdx.x * 32 + threadIdx.y;
    if (i < m && j < n) out[j * m + i] = tile[threadIdx.x][threadIdx.y];
}
""",
    "kernel",
)


def transpose(a, out):
    m, n = a.shape
    kernel(((n + 31) // 32, (m + 31) // 32), (32, 32), (a, out, np.int32(m), np.int32(n)))
