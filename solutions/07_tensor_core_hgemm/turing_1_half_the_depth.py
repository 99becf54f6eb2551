"""hgemm, for a T4 (sm_75): products of half the depth, tiles through registers.

Turing's tensor cores have `mma` of 16 x 8 x 8, so that a product of 16 steps of k is two instructions; they have
`ldmatrix` as well. They have no `cp.async`: what a tile will hold is loaded into registers while the tile before it is
multiplied, and stored to shared memory before the barrier. Two stages take 48 of a block's 64 KiB.
Newer GPUs run it too.
"""

from numba import cuda
from numba.cuda import types

from warplab import ptx

# Whole tiles: a block computes 128 x 256 outputs with eight warps of 64 x 64.
TILE_M, TILE_N, TILE_K = 128, 256, 32
GROUP = 8  # rows of tiles that are computed together, so that what they share of b stays in L2
WARPS_N, THREADS = 4, 256
A_ROW, B_ROW = 2 * TILE_K, 2 * TILE_N  # bytes
A_BYTES, B_BYTES = TILE_M * A_ROW, TILE_K * B_ROW
STAGE_BYTES = A_BYTES + B_BYTES
A_PIECES, B_PIECES = TILE_K // 8, TILE_N // 8  # of 16 bytes in a row
A_ROWS, B_ROWS = THREADS // A_PIECES, THREADS // B_PIECES  # rows that the block copies at once
SUMS = 128  # float32 a thread: 4 x 8 products of 16 x 8
HALF = 32 * 64  # float16 of half of a warp's results
TILE, DEPTH, EDGE_THREADS = 64, 64, 128  # any size: a block computes 64 x 64 outputs with four warps
ELEMENTS, PIECES = TILE * DEPTH, TILE * DEPTH // 8
f16, f32, u32, u64 = types.float16, types.float32, types.uint32, types.uint64

product = ptx.mma("f16", k=8)

# The eight rows that ldmatrix reads at once must lie in different banks. A row of b's tile is a whole number of 128
# bytes: piece q of row r lies at place q ^ (r % 8). Two rows of a's tile are 128 bytes: place q ^ (r / 2 % 4).


@cuda.jit(device=True)
def load_tile(from_a, from_b, stride_a, stride_b):
    """What a thread brings of one tile of a and one of b: six pieces of 16 bytes, on their way into registers."""
    return (
        ptx.load_global_16(from_a),
        ptx.load_global_16(from_a + stride_a),
        ptx.load_global_16(from_b),
        ptx.load_global_16(from_b + stride_b),
        ptx.load_global_16(from_b + u64(2) * stride_b),
        ptx.load_global_16(from_b + u64(3) * stride_b),
    )


@cuda.jit(device=True)
def store_tile(to_a, to_b, pieces):
    """Put them into shared memory."""
    ptx.store_shared_16(to_a, pieces[0])
    ptx.store_shared_16(to_a + u32(A_ROWS * A_ROW), pieces[1])
    ptx.store_shared_16(to_b, pieces[2])
    ptx.store_shared_16(to_b + u32(B_ROWS * B_ROW), pieces[3])
    ptx.store_shared_16(to_b + u32(2 * B_ROWS * B_ROW), pieces[4])
    ptx.store_shared_16(to_b + u32(3 * B_ROWS * B_ROW), pieces[5])


@cuda.jit(device=True)
def load_a(stage, row, k):
    """The fragments of a's 64 rows for 8 steps of k."""
    at = stage + row * u32(A_ROW) + ((u32(k) ^ ((row >> u32(1)) & u32(3))) << u32(4))
    return ptx.ldmatrix_x4(at), ptx.ldmatrix_x4(at + u32(32 * A_ROW))


@cuda.jit(device=True)
def load_b(stage, row, piece, k):
    """The fragments of b's 64 columns for 8 steps of k."""
    at = stage + u32(A_BYTES) + (row + u32(8 * k)) * u32(B_ROW)
    return ptx.ldmatrix_x4_trans(at + ((piece ^ row) << u32(4))), ptx.ldmatrix_x4_trans(
        at + (((piece + u32(4)) ^ row) << u32(4))
    )


@cuda.jit(device=True)
def add(sums, first, a0, a1, b):
    """One product of 16 x 8 outputs and 8 steps of k, whose sums lie from `first` on."""
    d = product((a0, a1), b, (sums[first], sums[first + 1], sums[first + 2], sums[first + 3]))
    sums[first] = d[0]
    sums[first + 1] = d[1]
    sums[first + 2] = d[2]
    sums[first + 3] = d[3]


@cuda.jit(device=True)
def add_row(sums, first, a0, a1, b):
    """16 x 64 outputs: all share a fragment of a."""
    add(sums, first, a0, a1, b[0][0])
    add(sums, first + 4, a0, a1, b[0][1])
    add(sums, first + 8, a0, a1, b[0][2])
    add(sums, first + 12, a0, a1, b[0][3])
    add(sums, first + 16, a0, a1, b[1][0])
    add(sums, first + 20, a0, a1, b[1][1])
    add(sums, first + 24, a0, a1, b[1][2])
    add(sums, first + 28, a0, a1, b[1][3])


@cuda.jit(device=True)
def multiply(sums, a, b):
    """64 x 64 outputs and 8 steps of k: 32 products."""
    add_row(sums, 0, a[0][0], a[0][1], b)
    add_row(sums, 32, a[0][2], a[0][3], b)
    add_row(sums, 64, a[1][0], a[1][1], b)
    add_row(sums, 96, a[1][2], a[1][3], b)


@cuda.jit
def whole_tiles_kernel(a, b, c):
    m, k = a.shape
    n = b.shape[1]
    memory = cuda.shared.array(0, f16)
    base = ptx.shared_address(memory, 0)
    t = cuda.threadIdx.x
    lane, warp = t & 31, t >> 5
    warp_row, warp_col = (warp // WARPS_N) * 64, (warp % WARPS_N) * 64
    tiles_m, tiles_n = m // TILE_M, n // TILE_N
    first = cuda.blockIdx.x // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    place = cuda.blockIdx.x % (GROUP * tiles_n)
    row0, col0 = (first + place % height) * TILE_M, place // height * TILE_N

    sums = cuda.local.array(SUMS, f32)  # only ever indexed by constants, so it lives in registers
    for i in range(SUMS):
        sums[i] = f32(0)

    row_a, piece_a, row_b, piece_b = t // A_PIECES, t % A_PIECES, t // B_PIECES, t % B_PIECES
    from_a = ptx.address(a, (row0 + row_a) * k + piece_a * 8)
    from_b = ptx.address(b, row_b * n + col0 + piece_b * 8)
    to_a = base + u32(A_ROW * row_a + ((piece_a ^ ((row_a >> 1) & 3)) << 4))
    to_b = base + u32(A_BYTES + B_ROW * row_b + ((piece_b ^ row_b) << 4))
    stride_a, stride_b = u64(2 * A_ROWS * k), u64(2 * B_ROWS * n)
    step_a, step_b = u64(2 * TILE_K), u64(2 * TILE_K * n)
    store_tile(to_a, to_b, load_tile(from_a, from_b, stride_a, stride_b))
    cuda.syncthreads()

    read_row = u32(warp_row + lane)
    b_row, b_piece = u32(lane & 7), u32((warp_col >> 3) + (lane >> 3))
    other = u32(STAGE_BYTES)  # how far the stage that is filled lies from the one that is read; back again as -other
    read, fill = base, other
    a0, b0 = load_a(read, read_row, 0), load_b(read, b_row, b_piece, 0)
    for _ in range(k // TILE_K - 1):
        from_a += step_a
        from_b += step_b
        pieces = load_tile(from_a, from_b, stride_a, stride_b)
        a1, b1 = load_a(read, read_row, 1), load_b(read, b_row, b_piece, 1)
        multiply(sums, a0, b0)
        a0, b0 = load_a(read, read_row, 2), load_b(read, b_row, b_piece, 2)
        multiply(sums, a1, b1)
        a1, b1 = load_a(read, read_row, 3), load_b(read, b_row, b_piece, 3)
        multiply(sums, a0, b0)
        # Everybody has read the stage that is filled here: the last barrier came after its last fragments.
        store_tile(to_a + fill, to_b + fill, pieces)
        cuda.syncthreads()
        read = base + fill
        fill = other - fill
        a0, b0 = load_a(read, read_row, 0), load_b(read, b_row, b_piece, 0)
        multiply(sums, a1, b1)
    a1, b1 = load_a(read, read_row, 1), load_b(read, b_row, b_piece, 1)
    multiply(sums, a0, b0)
    a0, b0 = load_a(read, read_row, 2), load_b(read, b_row, b_piece, 2)
    multiply(sums, a1, b1)
    a1, b1 = load_a(read, read_row, 3), load_b(read, b_row, b_piece, 3)
    multiply(sums, a0, b0)
    multiply(sums, a1, b1)

    # Half of a warp's results at a time, put into rows of 128 bytes where its operands were, leaves 16 bytes a lane.
    # Stored from where the sums are, they would be 16 bytes of each of eight rows at once: half of what a sector holds.
    cuda.syncthreads()
    mine = warp * HALF
    g, q = lane >> 2, lane & 3
    from_row, piece = lane >> 3, lane & 7
    to = ptx.address(c, (row0 + warp_row + from_row) * n + col0 + warp_col + piece * 8)
    for half in range(2):
        for i in range(2):
            for j in range(8):
                s = 64 * half + 32 * i + 4 * j
                at = mine + (16 * i + g) * 64 + ((j ^ g) << 3) + 2 * q
                memory[at] = f16(sums[s])
                memory[at + 1] = f16(sums[s + 1])
                memory[at + 8 * 64] = f16(sums[s + 2])
                memory[at + 8 * 64 + 1] = f16(sums[s + 3])
        cuda.syncwarp()
        for i in range(8):
            row = from_row + 4 * i
            words = ptx.load_shared_16(base + u32(2 * (mine + row * 64 + ((piece ^ (row & 7)) << 3))))
            ptx.store_global_16(to, words)
            to += u64(8 * n)
        cuda.syncwarp()


@cuda.jit(device=True)
def swizzled(row, col):
    """Where an element of a 64 x 64 tile lies in shared memory."""
    return row * DEPTH + ((((col >> 3) ^ row) & 7) << 3 | col & 7)


@cuda.jit(device=True)
def fill_tile(tile, matrix, row0, col0):
    """Copy a tile of 64 x 64 elements, eight at once if rows begin at multiples of 16 bytes; zeros beyond the edges."""
    rows, cols = matrix.shape
    for i in range(cuda.threadIdx.x, PIECES, EDGE_THREADS):
        row, col = i // (DEPTH // 8), i % (DEPTH // 8) * 8
        to = swizzled(row, col)
        if cols % 8 == 0 and row0 + row < rows and col0 + col < cols:
            words = ptx.load_global_16(ptx.address(matrix, (row0 + row) * cols + col0 + col))
            ptx.store_shared_16(ptx.shared_address(tile, to), words)
        else:
            for e in range(8):
                inside = row0 + row < rows and col0 + col + e < cols
                tile[to + e] = matrix[row0 + row, col0 + col + e] if inside else f16(0)


@cuda.jit(device=True)
def add_two(sums, first, a, b0, b1):
    """16 x 8 outputs and 16 steps of k: two products."""
    add(sums, first, a[0], a[1], b0)
    add(sums, first, a[2], a[3], b1)


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
    # Any size: zeros beyond the edges.
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
        fill_tile(tile_a, a, row0, p0)
        fill_tile(tile_b, b, p0, col0)
        cuda.syncthreads()
        for p in range(0, DEPTH, 16):
            a0 = ptx.ldmatrix_x4(ptx.shared_address(tile_a, swizzled(warp_row + read_row, p + read_col)))
            a1 = ptx.ldmatrix_x4(ptx.shared_address(tile_a, swizzled(warp_row + 16 + read_row, p + read_col)))
            for j in range(2):
                at = swizzled(p + read_row, warp_col + 16 * j + read_col)
                b0 = ptx.ldmatrix_x4_trans(ptx.shared_address(tile_b, at))
                add_two(sums, 8 * j, a0, b0[0], b0[1])
                add_two(sums, 8 * j + 4, a0, b0[2], b0[3])
                add_two(sums, 8 * j + 16, a1, b0[0], b0[1])
                add_two(sums, 8 * j + 20, a1, b0[2], b0[3])
        cuda.syncthreads()

    for i in range(2):
        for j in range(4):
            s = 16 * i + 4 * j
            row, col = row0 + warp_row + 16 * i + (lane >> 2), col0 + warp_col + 8 * j + 2 * (lane & 3)
            store(c, row, col, sums[s], sums[s + 1])
            store(c, row + 8, col, sums[s + 2], sums[s + 3])


def hgemm(a, b, c):
    """c = a @ b. a is m x k, b is k x n and c is m x n, all float16 and in C order."""
    m, n = c.shape
    k = a.shape[1]
    if m % TILE_M == 0 and n % TILE_N == 0 and k % TILE_K == 0:
        whole_tiles_kernel[m // TILE_M * (n // TILE_N), THREADS, 0, 2 * STAGE_BYTES](a, b, c)
    else:
        blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
        gemm_kernel[blocks, EDGE_THREADS](a, b, c)
