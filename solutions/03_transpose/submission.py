"""Lab 03_transpose: out[j, i] = a[i, j]."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from numba import cuda, float32, uint64

# STARTER:
# STARTER: TILE = 32
# STARTER: ROWS = 8
TILE = 64  # 8 elements a thread: enough bytes on the way to keep the memory busy
LANES, ROWS = 32, 16
# END SOLUTION


# BEGIN SOLUTION
@cuda.jit(device=True, forceinline=True)
def place(row, column):
    """Where column `column` of a row of the tile lies in shared memory.

    A row is permuted within itself; the elements of a column, which would all lie in one bank, lie in 32 of them.
    """
    return column ^ (row & uint64(31))


# END SOLUTION
@cuda.jit
def transpose_kernel(a, out):
    # BEGIN SOLUTION
    # STARTER: # a has m x n elements of float32, out has n x m. Move this block's tile here.
    # STARTER: pass
    tile = cuda.shared.array((TILE, TILE), float32)
    m, n = uint64(a.shape[0]), uint64(a.shape[1])
    # Numba's integers are signed and 64 bits wide, so an index may be negative and is checked for that. These are not.
    x, y = uint64(cuda.threadIdx.x), uint64(cuda.threadIdx.y)
    row0, col0 = uint64(cuda.blockIdx.x) * uint64(TILE), uint64(cuda.blockIdx.y) * uint64(TILE)
    if row0 + uint64(TILE) <= m and col0 + uint64(TILE) <= n:
        for r in range(0, TILE, ROWS):
            for s in range(0, TILE, LANES):
                i, j = y + uint64(r), x + uint64(s)
                tile[i, place(i, j)] = a[row0 + i, col0 + j]
        cuda.syncthreads()
        for r in range(0, TILE, ROWS):
            for s in range(0, TILE, LANES):
                i, j = x + uint64(s), y + uint64(r)
                out[col0 + j, row0 + i] = tile[i, place(i, j)]
    else:  # a tile over the edge
        for r in range(0, TILE, ROWS):
            for s in range(0, TILE, LANES):
                i, j = y + uint64(r), x + uint64(s)
                if row0 + i < m and col0 + j < n:
                    tile[i, place(i, j)] = a[row0 + i, col0 + j]
        cuda.syncthreads()
        for r in range(0, TILE, ROWS):
            for s in range(0, TILE, LANES):
                i, j = x + uint64(s), y + uint64(r)
                if col0 + j < n and row0 + i < m:
                    out[col0 + j, row0 + i] = tile[i, place(i, j)]
    # END SOLUTION


def transpose(a, out):
    """out[j, i] = a[i, j]. a is an m x n matrix of float32, out an n x m one; both in C order."""
    m, n = a.shape
    # BEGIN SOLUTION
    # STARTER: blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
    # STARTER: transpose_kernel[blocks, (TILE, ROWS)](a, out)
    blocks = ((m + TILE - 1) // TILE, (n + TILE - 1) // TILE)  # neighbouring blocks write along the same rows of out
    transpose_kernel[blocks, (LANES, ROWS)](a, out)
    # END SOLUTION
