"""transpose, rung 2: a tile of 32 x 32 is turned in shared memory, so that both sides of global memory go along rows.

The price has moved: lanes that read a column of the tile touch addresses 32 elements apart, all in one of the 32 banks,
and are served one after the other.
"""

from numba import cuda, float32

TILE = 32
ROWS = 8  # rows of the tile that the block moves at a time


@cuda.jit
def transpose_kernel(a, out):
    tile = cuda.shared.array((TILE, TILE), float32)
    m, n = a.shape
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row0, col0 = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    for r in range(y, TILE, ROWS):
        if row0 + r < m and col0 + x < n:
            tile[r, x] = a[row0 + r, col0 + x]
    cuda.syncthreads()
    for r in range(y, TILE, ROWS):
        if col0 + r < n and row0 + x < m:
            out[col0 + r, row0 + x] = tile[x, r]


def transpose(a, out):
    """out[j, i] = a[i, j]."""
    m, n = a.shape
    transpose_kernel[((n + TILE - 1) // TILE, (m + TILE - 1) // TILE), (TILE, ROWS)](a, out)
