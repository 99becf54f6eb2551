"""tiled_gemm, rung 3: tiles of a and b in shared memory, each element used 32 times by the block.

Global memory is no longer the limit, shared memory is: two reads of it for one multiply-add.
"""

from numba import cuda, float32

TILE = 32


@cuda.jit
def gemm_kernel(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32, alignment=16)  # lets the compiler read four of a row at once
    tile_b = cuda.shared.array((TILE, TILE), float32)
    m, n = c.shape
    k = a.shape[1]
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * TILE + y, cuda.blockIdx.x * TILE + x

    total = float32(0)
    for p0 in range(0, k, TILE):
        # Zeros beyond the edge add nothing, so the sum below needs no conditions.
        tile_a[y, x] = float32(a[i, p0 + x]) if i < m and p0 + x < k else float32(0)
        tile_b[y, x] = float32(b[p0 + y, j]) if p0 + y < k and j < n else float32(0)
        cuda.syncthreads()  # the tile is complete
        for p in range(TILE):
            total += tile_a[y, p] * tile_b[p, x]
        cuda.syncthreads()  # everyone has finished reading it
    if i < m and j < n:
        c[i, j] = total


def tiled_gemm(a, b, c):
    """c = a @ b."""
    m, n = c.shape
    gemm_kernel[((n + TILE - 1) // TILE, (m + TILE - 1) // TILE), (TILE, TILE)](a, b, c)
