# expect: safety: passed: CUDA C++ with fragments that the compiler lays out, a warp to 16 x 16 outputs
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void kernel(const half* a, const half* b, half* c, int m, int n, int k)
{
    __shared__ half tile_a[256], tile_b[256];
    __shared__ float sums[256];
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> part_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> part_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> total;
    wmma::fill_fragment(total, 0.0f);
    for (int p = 0; p < k; p += 16) {
        __syncwarp();
        for (int i = threadIdx.x; i < 256; i += 32) {
            int r = i / 16, q = i % 16;
            tile_a[i] = row + r < m && p + q < k ? a[(size_t)(row + r) * k + p + q] : __float2half(0.0f);
            tile_b[i] = p + r < k && col + q < n ? b[(size_t)(p + r) * n + col + q] : __float2half(0.0f);
        }
        __syncwarp();
        wmma::load_matrix_sync(part_a, tile_a, 16);
        wmma::load_matrix_sync(part_b, tile_b, 16);
        wmma::mma_sync(total, part_a, part_b, total);
    }
    wmma::store_matrix_sync(sums, total, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        if (row + i / 16 < m && col + i % 16 < n) c[(size_t)(row + i / 16) * n + col + i % 16] = __float2half(sums[i]);
}
""",
    "kernel",
)


def hgemm(a, b, c):
    m, n = c.shape
    sizes = np.int32(m), np.int32(n), np.int32(a.shape[1])
    kernel(((n + 15) // 16, (m + 15) // 16), (32,), (a, b, c, *sizes))
