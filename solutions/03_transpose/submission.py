"""Lab 03_transpose: out[j, i] = a[i, j]."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from numba import cuda, float32

# STARTER:
# STARTER: TILE = 32
TILE = 64  # 16 elements a thread: enough bytes on the way to keep the memory busy
PADDED = TILE + 1  # a column of the tile lies in as many banks as it has elements
LANES = 32
# END SOLUTION
ROWS = 8


@cuda.jit
def transpose_kernel(a, out):
    # BEGIN SOLUTION
    # STARTER: # a has m x n elements of float32, out has n x m. Move this block's tile here.
    # STARTER: pass
    tile = cuda.shared.array((TILE, PADDED), float32)
    m, n = a.shape
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row0, col0 = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    if row0 + TILE <= m and col0 + TILE <= n:
        for r in range(0, TILE, ROWS):
            for half in range(0, TILE, LANES):
                tile[y + r, x + half] = a[row0 + y + r, col0 + x + half]
        cuda.syncthreads()
        for r in range(0, TILE, ROWS):
            for half in range(0, TILE, LANES):
                out[col0 + y + r, row0 + x + half] = tile[x + half, y + r]
    else:  # a tile over the edge
        for r in range(y, TILE, ROWS):
            for s in range(x, TILE, LANES):
                if row0 + r < m and col0 + s < n:
                    tile[r, s] = a[row0 + r, col0 + s]
        cuda.syncthreads()
        for r in range(y, TILE, ROWS):
            for s in range(x, TILE, LANES):
                if col0 + r < n and row0 + s < m:
                    out[col0 + r, row0 + s] = tile[s, r]
    # END SOLUTION


def transpose(a, out):
    """out[j, i] = a[i, j]. a is an m x n matrix of float32, out an n x m one; both in C order."""
    m, n = a.shape
    blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
    # BEGIN SOLUTION
    # STARTER: transpose_kernel[blocks, (TILE, ROWS)](a, out)
    transpose_kernel[blocks, (LANES, ROWS)](a, out)
    # END SOLUTION
