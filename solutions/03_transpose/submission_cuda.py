"""Lab 03_transpose: out[j, i] = a[i, j], in CUDA C++."""

import cupy
import numpy as np

# BEGIN SOLUTION
# STARTER: TILE = 32
TILE = 64
LANES = 32
# END SOLUTION
ROWS = 8

transpose_kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void transpose_kernel(const float* __restrict__ a, float* __restrict__ out, int m, int n)
{
    // BEGIN SOLUTION
    // STARTER: // a has m x n elements, out has n x m. Move this block's tile here.
    constexpr int TILE = 64, LANES = 32, ROWS = 8;
    __shared__ float tile[TILE][TILE + 1];  // the spare column spreads a column of the tile over all banks
    int x = threadIdx.x, y = threadIdx.y;
    int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
    bool whole = row0 + TILE <= m && col0 + TILE <= n;
#pragma unroll
    for (int r = 0; r < TILE; r += ROWS) {
#pragma unroll
        for (int s = 0; s < TILE; s += LANES) {
            int i = row0 + y + r, j = col0 + x + s;
            if (whole || (i < m && j < n)) tile[y + r][x + s] = a[(long long)i * n + j];
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < TILE; r += ROWS) {
#pragma unroll
        for (int s = 0; s < TILE; s += LANES) {
            int j = col0 + y + r, i = row0 + x + s;
            if (whole || (j < n && i < m)) out[(long long)j * m + i] = tile[x + s][y + r];
        }
    }
    // END SOLUTION
}
""",
    "transpose_kernel",
)


def transpose(a, out):
    """out[j, i] = a[i, j]. a is an m x n matrix of float32, out an n x m one; both in C order."""
    m, n = a.shape
    blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
    # BEGIN SOLUTION
    # STARTER: transpose_kernel(blocks, (TILE, ROWS), (a, out, np.int32(m), np.int32(n)))
    transpose_kernel(blocks, (LANES, ROWS), (a, out, np.int32(m), np.int32(n)))
    # END SOLUTION
