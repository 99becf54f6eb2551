"""Lab 07_tensor_core_hgemm: c = a @ b on tensor cores, float16 in and out, added up in float32."""

# BEGIN SOLUTION
# STARTER: # Parts 1 to 3 are yours, one after the other; each earns points by itself. README.md says what each is.
# STARTER:
# STARTER: from numba import cuda
# STARTER: from numba.cuda import types
# STARTER:
# STARTER: from warplab import ptx
# STARTER:
# STARTER: M, N, K = 16, 8, 16  # of one product, which a warp makes
# STARTER: f32 = types.float32
# STARTER: product = ptx.mma("f16", k=K)  # d = product(a, b, d): 16 x 8 sums, four a lane
# STARTER:
# STARTER:
# STARTER: @cuda.jit(device=True)
# STARTER: def element(matrix, row, col):
# STARTER:     """An element of a matrix, or zero outside of it."""
# STARTER:     if row < matrix.shape[0] and col < matrix.shape[1]:
# STARTER:         return f32(matrix[row, col])
# STARTER:     return f32(0)
# STARTER:
# STARTER:
# STARTER: @cuda.jit(device=True)
# STARTER: def fragment_a(a, row, p, g, q):
# STARTER:     """What lane 4 g + q holds of the 16 x 16 elements of a from (row, p) on: four pairs of neighbours."""
# STARTER:     first = ptx.pack_f16(element(a, row + g, p + 2 * q), element(a, row + g, p + 2 * q + 1))
# STARTER:     # Part 1: the other three: row g + 8, and both rows again eight columns further on.
# STARTER:     return first, first, first, first
# STARTER:
# STARTER:
# STARTER: @cuda.jit(device=True)
# STARTER: def fragment_b(b, p, col, g, q):
# STARTER:     """What it holds of the 16 x 8 elements of b from (p, col) on: two pairs along k, of column g."""
# STARTER:     nothing = ptx.pack_f16(f32(0), f32(0))
# STARTER:     # Part 1: rows 2 q and 2 q + 1, and the same eight further on.
# STARTER:     return nothing, nothing
from numba import cuda
from numba.cuda import types

from warplab import ptx

# Whole tiles: a block computes 128 x 256 outputs with eight warps of 64 x 64. Four tiles of a and b wait in shared
# memory, and the fragments of the next 16 steps of k are loaded while the current ones are multiplied.
TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4
GROUP = 8  # rows of tiles that are computed together, so that what they share of b stays in L2
WARPS_N, THREADS = 4, 256
A_BYTES, B_BYTES = 2 * TILE_M * TILE_K, 2 * TILE_K * TILE_N
STAGE_BYTES = A_BYTES + B_BYTES
A_CHUNKS, B_CHUNKS = TILE_K // 8, TILE_N // 8  # pieces of 16 bytes in a row
A_ROWS, B_ROWS = THREADS // A_CHUNKS, THREADS // B_CHUNKS  # rows that the block copies at once
WARP_BYTES = 2 * 64 * 64  # of a warp's results
SUMS = 128  # float32 a thread: 4 x 8 products of 16 x 8
TILE, DEPTH, EDGE_THREADS = 64, 64, 128  # any size: a block computes 64 x 64 outputs with four warps
ELEMENTS, PIECES = TILE * DEPTH, TILE * DEPTH // 8
f16, f32, u32, u64 = types.float16, types.float32, types.uint32, types.uint64

product = ptx.mma("f16", k=16)
wait_for_next_stage = ptx.cp_async_wait_group(STAGES - 2)

# A row of a tile is a whole number of 128 bytes, so rows would meet in the same banks: the 16-byte piece q of row r
# lies at place q ^ (r % 8) instead, which spreads the eight rows that ldmatrix reads at once.


@cuda.jit(device=True)
def fetch(stage, from_a, from_b, to_a, to_b, stride_a, stride_b):
    """Start the copies of one tile of a and one of b."""
    for i in range(TILE_M // A_ROWS):
        ptx.cp_async_16(stage + to_a + u32(i * A_ROWS * TILE_K * 2), from_a + u64(i) * stride_a, 16)
    for i in range(TILE_K // B_ROWS):
        ptx.cp_async_16(stage + to_b + u32(i * B_ROWS * TILE_N * 2), from_b + u64(i) * stride_b, 16)


@cuda.jit(device=True)
def load_a(stage, row, half, k):
    """The fragments of a's 64 rows for 16 steps of k."""
    at = stage + row * u32(2 * TILE_K) + (((u32(2 * k) + half) ^ (row & u32(7))) << u32(4))
    return (
        ptx.ldmatrix_x4(at),
        ptx.ldmatrix_x4(at + u32(16 * TILE_K * 2)),
        ptx.ldmatrix_x4(at + u32(32 * TILE_K * 2)),
        ptx.ldmatrix_x4(at + u32(48 * TILE_K * 2)),
    )


@cuda.jit(device=True)
def load_b(stage, row, chunk, k):
    """The fragments of b's 64 columns for 16 steps of k."""
    at = stage + u32(A_BYTES) + (row + u32(16 * k)) * u32(2 * TILE_N)
    turn = row & u32(7)
    return (
        ptx.ldmatrix_x4_trans(at + ((chunk ^ turn) << u32(4))),
        ptx.ldmatrix_x4_trans(at + (((chunk + u32(2)) ^ turn) << u32(4))),
        ptx.ldmatrix_x4_trans(at + (((chunk + u32(4)) ^ turn) << u32(4))),
        ptx.ldmatrix_x4_trans(at + (((chunk + u32(6)) ^ turn) << u32(4))),
    )


@cuda.jit(device=True)
def add(sums, first, a, b0, b1):
    """One product of 16 x 8 outputs, whose sums lie from `first` on."""
    d = product(a, (b0, b1), (sums[first], sums[first + 1], sums[first + 2], sums[first + 3]))
    sums[first] = d[0]
    sums[first + 1] = d[1]
    sums[first + 2] = d[2]
    sums[first + 3] = d[3]


@cuda.jit(device=True)
def add_row(sums, first, a, b):
    """16 x 64 outputs from the left to the right: all share a fragment of a, which stays near the tensor core."""
    add(sums, first, a, b[0][0], b[0][1])
    add(sums, first + 4, a, b[0][2], b[0][3])
    add(sums, first + 8, a, b[1][0], b[1][1])
    add(sums, first + 12, a, b[1][2], b[1][3])
    add(sums, first + 16, a, b[2][0], b[2][1])
    add(sums, first + 20, a, b[2][2], b[2][3])
    add(sums, first + 24, a, b[3][0], b[3][1])
    add(sums, first + 28, a, b[3][2], b[3][3])


@cuda.jit(device=True)
def add_row_back(sums, first, a, b):
    """The same from the right to the left, so that the first one shares its fragment of b with the last one before."""
    add(sums, first + 28, a, b[3][2], b[3][3])
    add(sums, first + 24, a, b[3][0], b[3][1])
    add(sums, first + 20, a, b[2][2], b[2][3])
    add(sums, first + 16, a, b[2][0], b[2][1])
    add(sums, first + 12, a, b[1][2], b[1][3])
    add(sums, first + 8, a, b[1][0], b[1][1])
    add(sums, first + 4, a, b[0][2], b[0][3])
    add(sums, first, a, b[0][0], b[0][1])


@cuda.jit(device=True)
def multiply(sums, a, b):
    """64 x 64 outputs and 16 steps of k: 32 products."""
    add_row(sums, 0, a[0], b)
    add_row_back(sums, 32, a[1], b)
    add_row(sums, 64, a[2], b)
    add_row_back(sums, 96, a[3], b)


@ptx.large_shared
@cuda.jit
def whole_tiles_kernel(a, b, c):
    m, k = a.shape
    n = b.shape[1]
    base = ptx.shared_address(cuda.shared.array(0, types.float16), 0)
    t = cuda.threadIdx.x
    lane, warp = t & 31, t >> 5
    warp_row, warp_col = (warp // WARPS_N) * 64, (warp % WARPS_N) * 64
    tiles_m, tiles_n = m // TILE_M, n // TILE_N
    first = cuda.blockIdx.x // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    place = cuda.blockIdx.x % (GROUP * tiles_n)
    row0, col0 = (first + place % height) * TILE_M, place // height * TILE_N

    sums = cuda.local.array(SUMS, types.float32)  # only ever indexed by constants, so it lives in registers
    for i in range(SUMS):
        sums[i] = types.float32(0)

    row_a, chunk_a, row_b, chunk_b = t // A_CHUNKS, t % A_CHUNKS, t // B_CHUNKS, t % B_CHUNKS
    from_a = ptx.address(a, (row0 + row_a) * k + chunk_a * 8)
    from_b = ptx.address(b, row_b * n + col0 + chunk_b * 8)
    to_a = u32(2 * row_a * TILE_K + ((chunk_a ^ (row_a & 7)) << 4))
    to_b = u32(A_BYTES + 2 * row_b * TILE_N + ((chunk_b ^ (row_b & 7)) << 4))
    stride_a, stride_b = u64(2 * A_ROWS * k), u64(2 * B_ROWS * n)
    step_a, step_b = u64(2 * TILE_K), u64(2 * TILE_K * n)
    end = base + u32(STAGES * STAGE_BYTES)
    write = base
    for _ in range(STAGES - 1):
        fetch(write, from_a, from_b, to_a, to_b, stride_a, stride_b)
        ptx.cp_async_commit()
        from_a += step_a
        from_b += step_b
        write += u32(STAGE_BYTES)

    read_row, read_half = u32(warp_row + (lane & 15)), u32(lane >> 4)
    b_row, b_chunk = u32(lane & 15), u32((warp_col >> 3) + (lane >> 4))
    wait_for_next_stage()
    cuda.syncthreads()
    read = base
    a0, b0 = load_a(read, read_row, read_half, 0), load_b(read, b_row, b_chunk, 0)
    steps = k // TILE_K
    step = 0
    while step < steps:
        a1, b1 = load_a(read, read_row, read_half, 1), load_b(read, b_row, b_chunk, 1)
        multiply(sums, a0, b0)
        a0, b0 = load_a(read, read_row, read_half, 2), load_b(read, b_row, b_chunk, 2)
        if step + STAGES - 1 < steps:  # into the stage that everybody finished reading before the last barrier
            fetch(write, from_a, from_b, to_a, to_b, stride_a, stride_b)
        ptx.cp_async_commit()  # an empty group keeps the count of the wait right
        from_a += step_a
        from_b += step_b
        write += u32(STAGE_BYTES)
        if write == end:
            write = base
        multiply(sums, a1, b1)
        a1, b1 = load_a(read, read_row, read_half, 3), load_b(read, b_row, b_chunk, 3)
        multiply(sums, a0, b0)
        wait_for_next_stage()
        cuda.syncthreads()
        read += u32(STAGE_BYTES)
        if read == end:
            read = base
        a0, b0 = load_a(read, read_row, read_half, 0), load_b(read, b_row, b_chunk, 0)
        multiply(sums, a1, b1)
        step += 1

    # A warp's results, put into rows of 128 bytes where its operands were, leave 16 bytes a lane. Stored from where the
    # sums are, they would be 16 bytes of each of eight rows at once: half of what a sector holds.
    cuda.syncthreads()
    mine = base + u32(warp * WARP_BYTES)
    g, q = u32(lane >> 2), u32(lane & 3)
    to_row = mine + g * u32(128) + q * u32(4)
    for i in range(4):
        for j in range(8):
            s = 32 * i + 4 * j
            at = to_row + u32(16 * i * 128) + ((u32(j) ^ g) << u32(4))
            ptx.store_shared_4(at, ptx.pack_f16(sums[s], sums[s + 1]))
            ptx.store_shared_4(at + u32(8 * 128), ptx.pack_f16(sums[s + 2], sums[s + 3]))
    cuda.syncwarp()
    row, chunk = u32(lane >> 3), u32(lane & 7)
    to = ptx.address(c, (row0 + warp_row + (lane >> 3)) * n + col0 + warp_col + (lane & 7) * 8)
    for i in range(16):
        turned = chunk ^ ((row + u32(4 * i)) & u32(7))
        words = ptx.load_shared_16(mine + (row + u32(4 * i)) * u32(128) + (turned << u32(4)))
        ptx.store_global_16(to, words)
        to += u64(8 * n)


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
def store(c, row, col, left, right):
    """Store two neighbours of a row, as far as they lie inside of c."""
    if row < c.shape[0]:
        if col < c.shape[1]:
            c[row, col] = left
        if col + 1 < c.shape[1]:
            c[row, col + 1] = right


# END SOLUTION


@cuda.jit
def gemm_kernel(a, b, c):
    # BEGIN SOLUTION
    # STARTER: # a is m x k, b is k x n, c is m x n. A block is one warp, and makes 16 x 8 elements of c.
    # STARTER: g, q = cuda.threadIdx.x // 4, cuda.threadIdx.x % 4
    # STARTER: # Part 2: where this block's elements begin.
    # STARTER: row, col = 0, 0
    # STARTER: d = f32(0), f32(0), f32(0), f32(0)
    # STARTER: # Part 3: all steps of k.
    # STARTER: d = product(fragment_a(a, row, 0, g, q), fragment_b(b, 0, col, g, q), d)
    # STARTER: for i in range(4):
    # STARTER:     out_row, out_col = row + g + 8 * (i // 2), col + 2 * q + i % 2
    # STARTER:     if out_row < c.shape[0] and out_col < c.shape[1]:
    # STARTER:         c[out_row, out_col] = d[i]
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
    # END SOLUTION


def hgemm(a, b, c):
    """c = a @ b. a is m x k, b is k x n and c is m x n, all float16 and in C order."""
    m, n = c.shape
    # BEGIN SOLUTION
    # STARTER: blocks = (1, 1)  # Part 2: along n, along m
    # STARTER: gemm_kernel[blocks, 32](a, b, c)
    k = a.shape[1]
    if m % TILE_M == 0 and n % TILE_N == 0 and k % TILE_K == 0 and k >= STAGES * TILE_K:
        tiles = m // TILE_M * (n // TILE_N)
        whole_tiles_kernel[tiles, THREADS, 0, STAGES * STAGE_BYTES](a, b, c)
    else:
        blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
        gemm_kernel[blocks, EDGE_THREADS](a, b, c)
    # END SOLUTION
