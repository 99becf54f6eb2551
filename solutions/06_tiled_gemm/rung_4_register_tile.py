"""tiled_gemm, rung 4: 4 x 4 outputs a thread.

A thread reads 4 elements of a and 4 of b from shared memory and makes 16 multiply-adds of them, in registers: half a
read each instead of two. Its rows and columns are 16 apart, so that the lanes of a warp stay neighbours.
"""

from numba import cuda, float32

TILE = 64  # rows and columns of c a block
DEPTH = 16  # of the tiles along k
SIDE = 16  # threads along each side of the block
EACH = 4  # rows and columns a thread
THREADS = SIDE * SIDE


@cuda.jit
def gemm_kernel(a, b, c):
    tile_a = cuda.shared.array((TILE, DEPTH), float32)
    tile_b = cuda.shared.array((DEPTH, TILE), float32)
    total = cuda.local.array((EACH, EACH), float32)
    m, n = c.shape
    k = a.shape[1]
    row0, col0 = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    t = cuda.threadIdx.x
    x, y = t % SIDE, t // SIDE

    for i in range(EACH):
        for j in range(EACH):
            total[i, j] = float32(0)

    for p0 in range(0, k, DEPTH):
        for r in range(y, TILE, SIDE):
            inside = row0 + r < m and p0 + x < k
            tile_a[r, x] = float32(a[row0 + r, p0 + x]) if inside else float32(0)
        for r in range(t // TILE, DEPTH, THREADS // TILE):
            inside = p0 + r < k and col0 + t % TILE < n
            tile_b[r, t % TILE] = float32(b[p0 + r, col0 + t % TILE]) if inside else float32(0)
        cuda.syncthreads()
        for p in range(DEPTH):
            for i in range(EACH):
                for j in range(EACH):
                    total[i, j] += tile_a[y + i * SIDE, p] * tile_b[p, x + j * SIDE]
        cuda.syncthreads()

    for i in range(EACH):
        for j in range(EACH):
            row, col = row0 + y + i * SIDE, col0 + x + j * SIDE
            if row < m and col < n:
                c[row, col] = total[i, j]


def tiled_gemm(a, b, c):
    """c = a @ b."""
    m, n = c.shape
    gemm_kernel[((n + TILE - 1) // TILE, (m + TILE - 1) // TILE), THREADS](a, b, c)
