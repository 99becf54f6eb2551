"""tiled_gemm, rung 5: 8 x 8 outputs a thread, read as vectors.

64 multiply-adds for 16 elements, which four 128-bit reads of shared memory bring. For that the tile of a is stored
transposed, so that a thread's elements of a column of a are neighbours. Global memory is read four float16 at a time,
through a view of 64-bit words; sizes that are not whole tiles go the way of rung 4.
"""

import numpy as np
from numba import cuda, float32, int16, uint64
from numba.cuda import libdevice

BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 8
PITCH_A = BLOCK_M + 4
THREADS = 256
TILE, DEPTH, SIDE, EACH = 64, 16, 16, 4


@cuda.jit(device=True, forceinline=True)
def half_of(word, e):
    """The e-th of the four float16 in a 64-bit word, as a float32."""
    return libdevice.half2float(int16(word >> uint64(16 * e)))


@cuda.jit
def whole_tiles_kernel(a4, b4, c, k):
    """c = a @ b for whole tiles; a4 (m, k / 4) and b4 (k, n / 4) hold four float16 in a 64-bit word."""
    tile_a = cuda.shared.array((BLOCK_K, PITCH_A), float32, alignment=16)
    tile_b = cuda.shared.array((BLOCK_K, BLOCK_N), float32, alignment=16)
    total = cuda.local.array((8, 8), float32)
    part_a = cuda.local.array(8, float32)
    part_b = cuda.local.array(8, float32)
    for i in range(8):
        for j in range(8):
            total[i, j] = float32(0)

    t = uint64(cuda.threadIdx.x)
    row0, col0 = uint64(cuda.blockIdx.y) * uint64(BLOCK_M), uint64(cuda.blockIdx.x) * uint64(BLOCK_N)
    warp, lane = t >> uint64(5), t & uint64(31)
    row = (warp >> uint64(1)) * uint64(32) + (lane >> uint64(3)) * uint64(4)
    col = (warp & uint64(1)) * uint64(64) + (lane & uint64(7)) * uint64(4)
    row_a, word_a = t >> uint64(1), t & uint64(1)
    row_b, word_b = t >> uint64(5), t & uint64(31)

    for p0 in range(0, k, BLOCK_K):
        words = a4[row0 + row_a, uint64(p0) // uint64(4) + word_a]
        for e in range(4):
            tile_a[word_a * uint64(4) + uint64(e), row_a] = half_of(words, e)
        words = b4[uint64(p0) + row_b, col0 // uint64(4) + word_b]
        for e in range(4):
            tile_b[row_b, word_b * uint64(4) + uint64(e)] = half_of(words, e)
        cuda.syncthreads()
        for p in range(BLOCK_K):
            for i in range(4):
                part_a[i] = tile_a[p, row + uint64(i)]
                part_a[i + 4] = tile_a[p, row + uint64(i + 16)]
                part_b[i] = tile_b[p, col + uint64(i)]
                part_b[i + 4] = tile_b[p, col + uint64(i + 32)]
            for i in range(8):
                for j in range(8):
                    total[i, j] += part_a[i] * part_b[j]
        cuda.syncthreads()

    for i in range(8):
        for j in range(8):
            c[row0 + row + uint64(i % 4 + i // 4 * 16), col0 + col + uint64(j % 4 + j // 4 * 32)] = total[i, j]


@cuda.jit
def gemm_kernel(a, b, c):
    """Any size: the kernel of rung 4."""
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
    k = a.shape[1]
    if m % BLOCK_M == 0 and n % BLOCK_N == 0 and k % BLOCK_K == 0:
        blocks = (n // BLOCK_N, m // BLOCK_M)
        whole_tiles_kernel[blocks, THREADS](a.view(np.uint64), b.view(np.uint64), c, k)
    else:
        blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
        gemm_kernel[blocks, THREADS](a, b, c)
