# expect: traffic: over budget: the same tile of 64 x 64 for every shape: few SMs have any, and sums are long
# tests: seeds
import cupy
import numpy as np

TILE = 64
kernel = cupy.RawKernel(
    r"""
#include <mma.h>
using namespace nvcuda;

constexpr int TILE = 64, PITCH = TILE + 8;  // rows that begin in different banks

extern "C" __global__ void __launch_bounds__(128)
kernel(const half* a, const half* b, half* c, int m, int n, int k)
{
    __shared__ __align__(128) half tile_a[TILE * PITCH], tile_b[TILE * PITCH];
    __shared__ float sums[4][16 * 16];
    int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int high = warp / 2 * 32, wide = warp % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> total[2][2];
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(total[i / 2][i % 2], 0.0f);
    for (int p0 = 0; p0 < k; p0 += TILE) {
        for (int i = threadIdx.x; i < TILE * TILE / 8; i += 128) {
            int r = i / 8, q = i % 8 * 8;
            uint4 none = {0, 0, 0, 0};
            *(uint4*)(tile_a + r * PITCH + q) =
                row0 + r < m && p0 + q < k ? *(const uint4*)(a + (size_t)(row0 + r) * k + p0 + q) : none;
            *(uint4*)(tile_b + r * PITCH + q) =
                p0 + r < k && col0 + q < n ? *(const uint4*)(b + (size_t)(p0 + r) * n + col0 + q) : none;
        }
        __syncthreads();
        for (int p = 0; p < TILE; p += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> part_a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> part_b[2];
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(part_a[i], tile_a + (high + 16 * i) * PITCH + p, PITCH);
                wmma::load_matrix_sync(part_b[i], tile_b + p * PITCH + wide + 16 * i, PITCH);
            }
            for (int i = 0; i < 4; ++i)
                wmma::mma_sync(total[i / 2][i % 2], part_a[i / 2], part_b[i % 2], total[i / 2][i % 2]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        wmma::store_matrix_sync(sums[warp], total[i / 2][i % 2], 16, wmma::mem_row_major);
        __syncwarp();
        for (int e = 2 * lane; e < 256; e += 64) {
            int row = row0 + high + i / 2 * 16 + e / 16, col = col0 + wide + i % 2 * 16 + e % 16;
            if (row < m && col < n) {
                *(half2*)(c + (size_t)row * n + col) = __floats2half2_rn(sums[warp][e], sums[warp][e + 1]);
            }
        }
        __syncwarp();
    }
}
""",
    "kernel",
)


def hgemm(a, b, c):
    m, n = c.shape
    sizes = np.int32(m), np.int32(n), np.int32(a.shape[1])
    kernel((-(-n // TILE), -(-m // TILE)), (128,), (a, b, c, *sizes))
