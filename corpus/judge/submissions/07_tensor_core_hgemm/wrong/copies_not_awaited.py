# expect: safety: race: the tiles are read while cp.async is still filling them
from numba import cuda
from numba.cuda import types

from warplab import ptx

TILE_M, TILE_N, TILE_K, STAGES = 128, 128, 64, 3
WARPS_N, THREADS = 2, 128
A_BYTES, B_BYTES = 2 * TILE_M * TILE_K, 2 * TILE_K * TILE_N
STAGE_BYTES = A_BYTES + B_BYTES
A_CHUNKS, B_CHUNKS = TILE_K // 8, TILE_N // 8  # pieces of 16 bytes in a row
A_ROWS, B_ROWS = THREADS // A_CHUNKS, THREADS // B_CHUNKS  # rows that the block copies at once
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
def add_columns(sums, first, a, b):
    """64 x 16 outputs: down one column of products and up the next, so that each step keeps an operand."""
    add(sums, first, a[0], b[0], b[1])
    add(sums, first + 32, a[1], b[0], b[1])
    add(sums, first + 64, a[2], b[0], b[1])
    add(sums, first + 96, a[3], b[0], b[1])
    add(sums, first + 100, a[3], b[2], b[3])
    add(sums, first + 68, a[2], b[2], b[3])
    add(sums, first + 36, a[1], b[2], b[3])
    add(sums, first + 4, a[0], b[2], b[3])


@cuda.jit(device=True)
def multiply(sums, a, b):
    """64 x 64 outputs and 16 steps of k: 32 products."""
    add_columns(sums, 0, a, b[0])
    add_columns(sums, 8, a, b[1])
    add_columns(sums, 16, a, b[2])
    add_columns(sums, 24, a, b[3])


@cuda.jit
def whole_tiles_kernel(a, b, c):
    n = b.shape[1]
    k = a.shape[1]
    base = ptx.shared_address(cuda.shared.array(0, types.float16), 0)
    t = cuda.threadIdx.x
    lane, warp = t & 31, t >> 5
    warp_row, warp_col = (warp // WARPS_N) * 64, (warp % WARPS_N) * 64
    row0, col0 = cuda.blockIdx.y * TILE_M, cuda.blockIdx.x * TILE_N

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
    fill = base
    for _ in range(STAGES - 1):
        fetch(fill, from_a, from_b, to_a, to_b, stride_a, stride_b)
        ptx.cp_async_commit()
        from_a += step_a
        from_b += step_b
        fill += u32(STAGE_BYTES)

    read_row, read_half = u32(warp_row + (lane & 15)), u32(lane >> 4)
    b_row, b_chunk = u32(lane & 15), u32((warp_col >> 3) + (lane >> 4))
    read = base
    steps = k // TILE_K
    step = 0
    while step < steps:
        cuda.syncthreads()  # everybody's copies have come, and everybody has read the stage that is filled next
        if step + STAGES - 1 < steps:
            fetch(fill, from_a, from_b, to_a, to_b, stride_a, stride_b)
        ptx.cp_async_commit()  # an empty group keeps the count of the wait right
        from_a += step_a
        from_b += step_b
        fill += u32(STAGE_BYTES)
        if fill == end:
            fill = base
        multiply(sums, load_a(read, read_row, read_half, 0), load_b(read, b_row, b_chunk, 0))
        multiply(sums, load_a(read, read_row, read_half, 1), load_b(read, b_row, b_chunk, 1))
        multiply(sums, load_a(read, read_row, read_half, 2), load_b(read, b_row, b_chunk, 2))
        multiply(sums, load_a(read, read_row, read_half, 3), load_b(read, b_row, b_chunk, 3))
        read += u32(STAGE_BYTES)
        if read == end:
            read = base
        step += 1

    for i in range(4):
        for j in range(8):
            s = 32 * i + 4 * j
            row, col = row0 + warp_row + 16 * i + (lane >> 2), col0 + warp_col + 8 * j + 2 * (lane & 3)
            ptx.store_global_4(ptx.address(c, row * n + col), ptx.pack_f16(sums[s], sums[s + 1]))
            ptx.store_global_4(ptx.address(c, (row + 8) * n + col), ptx.pack_f16(sums[s + 2], sums[s + 3]))


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
    k = a.shape[1]
    if m % TILE_M == 0 and n % TILE_N == 0 and k % TILE_K == 0 and k >= (STAGES - 1) * TILE_K:
        blocks = (n // TILE_N, m // TILE_M)
        whole_tiles_kernel[blocks, THREADS, 0, STAGES * STAGE_BYTES](a, b, c)
    else:
        blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
        gemm_kernel[blocks, EDGE_THREADS](a, b, c)
