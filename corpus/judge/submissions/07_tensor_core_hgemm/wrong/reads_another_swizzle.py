# expect: correctness: wrong answer: the tiles are filled swizzled and read as they are
from numba import cuda
from numba.cuda import types

from warplab import ptx

TILE, DEPTH = 64, 64  # outputs along each side of a block's tile; its depth along k
ELEMENTS, PIECES = TILE * DEPTH, TILE * DEPTH // 8
THREADS = 128
f16, f32, u32 = types.float16, types.float32, types.uint32

product = ptx.mma("f16", k=16)


@cuda.jit(device=True)
def place(row, col):
    """Where an element of a tile lies in shared memory."""
    return row * DEPTH + ((((col >> 3) ^ row) & 7) << 3 | col & 7)


@cuda.jit(device=True)
def fill(tile, matrix, row0, col0):
    """Copy a tile of 64 x 64 elements, eight at once if rows begin at multiples of 16 bytes; zeros beyond the edges."""
    rows, cols = matrix.shape
    for i in range(cuda.threadIdx.x, PIECES, THREADS):
        row, col = i // (DEPTH // 8), i % (DEPTH // 8) * 8
        to = row * DEPTH + col
        if cols % 8 == 0 and row0 + row < rows and col0 + col < cols:
            words = ptx.load_global_16(ptx.address(matrix, (row0 + row) * cols + col0 + col))
            ptx.store_shared_16(ptx.shared_address(tile, to), words)
        else:
            for e in range(8):
                inside = row0 + row < rows and col0 + col + e < cols
                tile[to + e] = matrix[row0 + row, col0 + col + e] if inside else f16(0)


@cuda.jit(device=True)
def add(sums, first, a, b0, b1):
    """One product of 16 x 8 outputs, whose sums lie from `first` on."""
    d = product(a, (b0, b1), (sums[first], sums[first + 1], sums[first + 2], sums[first + 3]))
    for i in range(4):
        sums[first + i] = d[i]


@cuda.jit(device=True)
def store(c, row, col, left, right):
    """Store two neighbours of a row, as far as they lie inside of c."""
    if row < c.shape[0]:
        if col < c.shape[1]:
            c[row, col] = left
        if col + 1 < c.shape[1]:
            c[row, col + 1] = right


@cuda.jit
def gemm_kernel(a, b, c):
    tile_a = cuda.shared.array(ELEMENTS, f16, alignment=128)
    tile_b = cuda.shared.array(ELEMENTS, f16, alignment=128)
    k = a.shape[1]
    lane, warp = cuda.threadIdx.x & 31, cuda.threadIdx.x >> 5
    row0, col0 = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    warp_row, warp_col = (warp >> 1) * 32, (warp & 1) * 32
    read_row, read_col = lane & 15, 8 * (lane >> 4)  # of the eight elements whose address this lane gives to ldmatrix

    sums = cuda.local.array(32, f32)  # only ever indexed by constants, so it lives in registers
    for s in range(32):
        sums[s] = f32(0)
    for p0 in range(0, k, DEPTH):
        fill(tile_a, a, row0, p0)
        fill(tile_b, b, p0, col0)
        cuda.syncthreads()
        for p in range(0, DEPTH, 16):
            a0 = ptx.ldmatrix_x4(ptx.shared_address(tile_a, place(warp_row + read_row, p + read_col)))
            a1 = ptx.ldmatrix_x4(ptx.shared_address(tile_a, place(warp_row + 16 + read_row, p + read_col)))
            for j in range(2):
                at = place(p + read_row, warp_col + 16 * j + read_col)
                b0 = ptx.ldmatrix_x4_trans(ptx.shared_address(tile_b, at))
                add(sums, 8 * j, a0, b0[0], b0[1])
                add(sums, 8 * j + 4, a0, b0[2], b0[3])
                add(sums, 8 * j + 16, a1, b0[0], b0[1])
                add(sums, 8 * j + 20, a1, b0[2], b0[3])
        cuda.syncthreads()

    for i in range(2):
        for j in range(4):
            s = 16 * i + 4 * j
            row, col = row0 + warp_row + 16 * i + (lane >> 2), col0 + warp_col + 8 * j + 2 * (lane & 3)
            store(c, row, col, sums[s], sums[s + 1])
            store(c, row + 8, col, sums[s + 2], sums[s + 3])


def hgemm(a, b, c):
    """c = a @ b."""
    m, n = c.shape
    blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
    gemm_kernel[blocks, THREADS](a, b, c)
