"""Lab 03_transpose: out[j, i] = a[i, j], in CUDA C++."""

import cupy
import numpy as np

# BEGIN SOLUTION
# STARTER: TILE = 32
# STARTER: ROWS = 8
TILE = 64  # 8 elements a thread: enough bytes on the way to keep the memory busy
LANES = 32
ROWS = 16
# END SOLUTION

transpose_kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void transpose_kernel(const float* __restrict__ a, float* __restrict__ out, int m, int n)
{
    // BEGIN SOLUTION
    // STARTER: // a has m x n elements, out has n x m. Move this block's tile here.
    constexpr int TILE = 64, LANES = 32, ROWS = 16;
    // Column c of row r lies at c ^ (r % 32). A row is permuted within itself; the elements of a column, which would
    // all lie in one bank, lie in 32 of them. Nothing is padded.
    __shared__ float tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row0 = blockIdx.x * TILE, col0 = blockIdx.y * TILE;
    bool whole = row0 + TILE <= m && col0 + TILE <= n;
#pragma unroll
    for (int r = 0; r < TILE; r += ROWS) {
#pragma unroll
        for (int s = 0; s < TILE; s += LANES) {
            int i = y + r, j = x + s;
            bool inside = whole || (row0 + i < m && col0 + j < n);
            if (inside) tile[i][j ^ (i % 32)] = a[(long long)(row0 + i) * n + col0 + j];
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < TILE; r += ROWS) {
#pragma unroll
        for (int s = 0; s < TILE; s += LANES) {
            int i = x + s, j = y + r;
            bool inside = whole || (col0 + j < n && row0 + i < m);
            if (inside) out[(long long)(col0 + j) * m + row0 + i] = tile[i][j ^ (i % 32)];
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
    # BEGIN SOLUTION
    # STARTER: blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
    # STARTER: transpose_kernel(blocks, (TILE, ROWS), (a, out, np.int32(m), np.int32(n)))
    blocks = ((m + TILE - 1) // TILE, (n + TILE - 1) // TILE)  # neighbouring blocks write along the same rows of out
    transpose_kernel(blocks, (LANES, ROWS), (a, out, np.int32(m), np.int32(n)))
    # END SOLUTION
