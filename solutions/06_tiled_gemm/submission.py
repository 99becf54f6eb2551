"""Lab 06_tiled_gemm: c = a @ b on CUDA cores, float16 inputs, float32 accumulation and result."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
import numpy as np
from numba import cuda, float32, int16, uint64
from numba.cuda import libdevice

# STARTER:
# STARTER: BLOCK = 16  # threads along each side of a block
BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 8  # the tile of c that a block computes, and its depth along k
STAGES = 2 * BLOCK_K  # rows of shared memory: one tile is filled while the other is used
AT_A, AT_B = 4, 4 + BLOCK_M  # columns of shared memory where a row of a's tile and of b's begin
PITCH = AT_B + BLOCK_N  # four columns stay unused, so that rows 4 apart, which a warp stores at once, use other banks
THREADS = 256  # 8 warps, 4 x 2, of 32 x 64 outputs each; a warp is 4 x 8 threads of 8 x 8 outputs each


# Numba's integers are 64 bits wide and signed, so an index may be negative and is checked for that. Unsigned ones are
# not, and `base + uint64(constant)` tells the compiler which elements are neighbours: it then reads four at once.


@cuda.jit(device=True, forceinline=True)
def half_of(word, e):
    """The e-th of the four float16 in a 64-bit word, as a float32."""
    return libdevice.half2float(int16(word >> uint64(16 * e)))


@cuda.jit(device=True, forceinline=True)
def fill(tile, stage, row_a, col_a, row_b, col_b, word_a, word_b):
    """Store four elements of a, transposed, and four of b."""
    for e in range(4):
        tile[stage + col_a + uint64(e), row_a + uint64(AT_A)] = half_of(word_a, e)
    for e in range(4):
        tile[stage + row_b, col_b + uint64(AT_B + e)] = half_of(word_b, e)


@cuda.jit(device=True, forceinline=True)
def multiply(tile, p, row, col, total):
    """Add the outer product of column p of a and row p of b: four 128-bit reads for 64 multiply-adds."""
    part_a = cuda.local.array(8, float32)
    part_b = cuda.local.array(8, float32)
    for i in range(4):
        part_a[i] = tile[p, row + uint64(AT_A + i)]
        part_a[i + 4] = tile[p, row + uint64(AT_A + i + 16)]
        part_b[i] = tile[p, col + uint64(AT_B + i)]
        part_b[i + 4] = tile[p, col + uint64(AT_B + i + 32)]
    for i in range(8):
        for j in range(8):
            total[i, j] += part_a[i] * part_b[j]


@cuda.jit(max_registers=128)  # two blocks of 256 threads an SM
def whole_tiles_kernel(a4, b4, c, k):
    """c = a @ b for whole tiles; a4 (m, k / 4) and b4 (k, n / 4) hold four float16 in a 64-bit word."""
    tile = cuda.shared.array((STAGES, PITCH), float32, alignment=16)  # a's rows are its columns: it is transposed
    total = cuda.local.array((8, 8), float32)  # only ever indexed by constants, so it lives in registers
    for i in range(8):
        for j in range(8):
            total[i, j] = float32(0)

    t = uint64(cuda.threadIdx.x)
    row0, col0 = uint64(cuda.blockIdx.y) * uint64(BLOCK_M), uint64(cuda.blockIdx.x) * uint64(BLOCK_N)
    warp, lane = t >> uint64(5), t & uint64(31)
    row = (warp >> uint64(1)) * uint64(32) + (lane >> uint64(3)) * uint64(4)  # of this thread's outputs in the tile
    col = (warp & uint64(1)) * uint64(64) + (lane & uint64(7)) * uint64(4)
    row_a, word_a = t >> uint64(1), t & uint64(1)  # the word of a and of b that this thread fetches
    row_b, word_b = t >> uint64(5), t & uint64(31)
    col_a, col_b = word_a * uint64(4), word_b * uint64(4)
    from_a, from_b = row0 + row_a, col0 // uint64(4) + word_b

    fill(tile, uint64(0), row_a, col_a, row_b, col_b, a4[from_a, word_a], b4[row_b, from_b])
    cuda.syncthreads()
    stage = uint64(0)
    for p0 in range(BLOCK_K, k + BLOCK_K, BLOCK_K):
        # Ask for the next tile now and store it after the arithmetic, which hides the wait. The last round fetches its
        # own tile again instead of none: a condition here would let the compiler move the loads behind the arithmetic.
        p = uint64(min(p0, k - BLOCK_K))
        next_a = a4[from_a, p // uint64(4) + word_a]
        next_b = b4[p + row_b, from_b]
        multiply(tile, stage, row, col, total)
        multiply(tile, stage + uint64(1), row, col, total)
        multiply(tile, stage + uint64(2), row, col, total)
        multiply(tile, stage + uint64(3), row, col, total)
        multiply(tile, stage + uint64(4), row, col, total)
        multiply(tile, stage + uint64(5), row, col, total)
        multiply(tile, stage + uint64(6), row, col, total)
        multiply(tile, stage + uint64(7), row, col, total)
        stage ^= uint64(BLOCK_K)
        fill(tile, stage, row_a, col_a, row_b, col_b, next_a, next_b)
        cuda.syncthreads()  # one barrier a tile: the other half of the memory is free since the last one

    for i in range(8):
        for j in range(8):
            c[row0 + row + uint64(i % 4 + i // 4 * 16), col0 + col + uint64(j % 4 + j // 4 * 32)] = total[i, j]


TILE, DEPTH, SIDE, EACH = 64, 16, 16, 4
# END SOLUTION


@cuda.jit
def gemm_kernel(a, b, c):
    # BEGIN SOLUTION
    # STARTER: # a is m x k, b is k x n, c is m x n. Compute this block's tile of c here; add up in float32.
    # STARTER: pass
    # Any size: 4 x 4 outputs a thread, zeros beyond the edges.
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
    # END SOLUTION


def tiled_gemm(a, b, c):
    """c = a @ b. a is m x k and b is k x n, both float16; c is m x n, float32; all in C order."""
    m, n = c.shape
    # BEGIN SOLUTION
    # STARTER: blocks = ((n + BLOCK - 1) // BLOCK, (m + BLOCK - 1) // BLOCK)
    # STARTER: gemm_kernel[blocks, (BLOCK, BLOCK)](a, b, c)
    k = a.shape[1]
    if m % BLOCK_M == 0 and n % BLOCK_N == 0 and k % BLOCK_K == 0:
        blocks = (n // BLOCK_N, m // BLOCK_M)
        whole_tiles_kernel[blocks, THREADS](a.view(np.uint64), b.view(np.uint64), c, k)
    else:
        blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
        gemm_kernel[blocks, THREADS](a, b, c)
    # END SOLUTION
