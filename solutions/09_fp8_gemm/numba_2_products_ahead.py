"""fp8_gemm, in Numba, rung 2: products ahead of promotion.

As rung 1, but a consumer has two accumulators: while it promotes the sums of 128 of k in one, products of the next 128
go into the other.
"""

from numba import cuda, float32
from numba.cuda import libdevice, types

from warplab import ptx

TILE_M, TILE_N, TILE_K, STAGES = 128, 128, 128, 6
GROUP = 8  # rows of tiles that are computed together, so that what they share of w stays in L2
BLOCKS, THREADS = 132, 384  # an H100's or H200's SMs; three warpgroups, of the first of which one thread copies
BARRIERS = 2 * STAGES
X_BYTES, W_BYTES = TILE_M * TILE_K, TILE_N * TILE_K
STAGE_BYTES = X_BYTES + W_BYTES
HALF_X = 64 * TILE_K  # bytes of the 64 rows of one warpgroup
ALIGNMENT = 1024  # of a stage: the swizzle's pattern repeats every eight rows of 128 bytes
WARPS = 8  # that multiply, and that quantise
SUMS = TILE_N // 2  # float32 a thread
u32, u64 = types.uint32, types.uint64

product = ptx.wgmma("e4m3", n=TILE_N)
wait_for_older, wait_for_all = ptx.wgmma_wait(1), ptx.wgmma_wait(0)
give_up_registers = ptx.setmaxnreg(40, more=False)
take_registers = ptx.setmaxnreg(232, more=True)
ZEROS = ptx.zeros(SUMS)


@cuda.jit
def quantise_kernel(x, x8, x_scale, m, k):
    """A warp for each 128 of a row, four neighbours a lane; the block's eight warps write neighbouring scales."""
    lane = cuda.threadIdx.x & 31
    row, block = cuda.blockIdx.x * WARPS + (cuda.threadIdx.x >> 5), cuda.blockIdx.y
    if row >= m:
        return
    column = block * TILE_K + 4 * lane
    low = high = u32(0)
    if column < k:  # a multiple of 16, as k is: all four or none
        low, high = ptx.load_global_8(ptx.address(x, row * k + column))
    a, b = ptx.unpack_f16(low)
    c, d = ptx.unpack_f16(high)
    largest = max(max(abs(a), abs(b)), max(abs(c), abs(d)))
    for step in range(5):
        largest = max(largest, cuda.shfl_xor_sync(0xFFFFFFFF, largest, 16 >> step))
    # 448 is 1.75 times 2^8: a larger fraction than 0.75 needs the next power of two.
    exponent = ((libdevice.float_as_int(largest) + 0x1FFFFF) >> 23) - 8
    if largest == float32(0):
        exponent = 127
    scale, inverse = libdevice.int_as_float(exponent << 23), libdevice.int_as_float((254 - exponent) << 23)
    if column < k:
        codes = u32(ptx.pack_e4m3(a * inverse, b * inverse)) | u32(ptx.pack_e4m3(c * inverse, d * inverse)) << u32(16)
        ptx.store_global_4(ptx.address(x8, row * k + column), codes)
    if lane == 0:
        x_scale[block, row] = scale


@cuda.jit(device=True)
def corner(tile, tiles_m, tiles_n):
    """Row and column of a tile's first output, in an order that walks down groups of rows."""
    first = tile // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    place = tile % (GROUP * tiles_n)
    return (first + place % height) * TILE_M, place // height * TILE_N


@cuda.jit(device=True, forceinline=True)
def onward(stage, phase):
    """The next stage of the ring, and the parity that it completes."""
    if stage == u32(STAGES - 1):
        return u32(0), phase ^ u32(1)
    return stage + u32(1), phase


@cuda.jit(device=True, forceinline=True)
def begin(d, at, mine):
    """The products of 128 of k that lie at `at`, this warpgroup's rows `mine` bytes further on, under way into d."""
    # Both matrices have k along lines of 128 bytes; eight lines make a block of 1,024.
    a = ptx.shared_descriptor(at + mine, 16, 1024, 1)
    b = ptx.shared_descriptor(at + u32(X_BYTES), 16, 1024, 1)
    ptx.wgmma_fence()
    d = product(d, a, b, 0)  # 32 steps of k: 32 bytes of each line
    d = product(d, a + u64(2), b + u64(2), 1)
    d = product(d, a + u64(4), b + u64(4), 1)
    d = product(d, a + u64(6), b + u64(6), 1)
    ptx.wgmma_commit()
    return d


@cuda.jit(device=True, forceinline=True)
def scales_of(x_scale, w_scale, block, panel, upper_row, lower_row):
    """What the sums of a block of k have to be multiplied by, in a thread's upper row and its lower one."""
    of_w = w_scale[panel, block]
    return x_scale[block, upper_row] * of_w, x_scale[block, lower_row] * of_w


@cuda.jit(device=True, forceinline=True)
def promote(sums, parts, d, upper, lower, leader, barrier):
    """Hand the stage of a block's products, which are done, back, and add them times their rows' scales."""
    if leader:  # a warp has read when its own products are done
        ptx.mbarrier_arrive(barrier)
    ptx.to_array(d, parts)
    for j in range(SUMS // 4):
        sums[4 * j] += parts[4 * j] * upper
        sums[4 * j + 1] += parts[4 * j + 1] * upper
        sums[4 * j + 2] += parts[4 * j + 2] * lower
        sums[4 * j + 3] += parts[4 * j + 3] * lower


@ptx.large_shared
@cuda.jit(max_registers=168)  # 384 threads of 168 are all that an SM has
def gemm_kernel(x_scale, w_scale, y, map_x, map_w, m, n, k):
    base = ptx.shared_address(cuda.shared.array(0, types.float16), 0)
    base = (base + u32(ALIGNMENT - 1)) & ~u32(ALIGNMENT - 1)
    barriers = cuda.shared.array(BARRIERS, types.uint64)
    full, empty = ptx.shared_address(barriers, 0), ptx.shared_address(barriers, STAGES)
    t = cuda.threadIdx.x
    group = t >> 7
    if t == 0:
        for s in range(STAGES):
            ptx.mbarrier_init(full + u32(8 * s), 1)
            ptx.mbarrier_init(empty + u32(8 * s), WARPS)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()

    tiles_m, tiles_n = (m + TILE_M - 1) // TILE_M, (n + TILE_N - 1) // TILE_N
    blocks = (k + TILE_K - 1) // TILE_K
    stage, phase = u32(0), u32(0)
    tile = cuda.blockIdx.x
    if group == 0:
        give_up_registers()
        if t == 0:
            ptx.fence_tensor_map(map_x)
            ptx.fence_tensor_map(map_w)
            while tile < tiles_m * tiles_n:
                row, col = corner(tile, tiles_m, tiles_n)
                block = 0
                while block < blocks:
                    ptx.mbarrier_wait(empty + stage * u32(8), phase ^ u32(1))
                    signal, to = full + stage * u32(8), base + stage * u32(STAGE_BYTES)
                    ptx.mbarrier_arrive_expect_tx(signal, STAGE_BYTES)
                    ptx.load_tile_2d(to, map_x, signal, block * TILE_K, row)
                    ptx.load_tile_2d(to + u32(X_BYTES), map_w, signal, block * TILE_K, col)
                    block += 1
                    stage += u32(1)
                    if stage == u32(STAGES):
                        stage = u32(0)
                        phase ^= u32(1)
                tile += cuda.gridDim.x
    else:
        take_registers()
        lane, warp = t & 31, (t >> 5) & 3
        mine = u32((group - 1) * HALF_X)
        sums = cuda.local.array(SUMS, types.float32)
        parts = cuda.local.array(SUMS, types.float32)
        while tile < tiles_m * tiles_n:
            row, col = corner(tile, tiles_m, tiles_n)
            panel = col // TILE_N
            row += (group - 1) * 64 + 16 * warp + (lane >> 2)
            upper_row, lower_row = min(row, m - 1), min(row + 8, m - 1)  # rows outside are not stored
            ptx.to_array(ZEROS, sums)
            d = e = ZEROS
            block = 0
            # Four blocks a round, and none under way between rounds: what is, the assembler follows in straight code.
            while block + 4 <= blocks:
                d_upper, d_lower = scales_of(x_scale, w_scale, block, panel, upper_row, lower_row)
                ptx.mbarrier_wait(full + stage * u32(8), phase)
                d = begin(d, base + stage * u32(STAGE_BYTES), mine)
                of_d = stage
                stage, phase = onward(stage, phase)
                e_upper, e_lower = scales_of(x_scale, w_scale, block + 1, panel, upper_row, lower_row)
                ptx.mbarrier_wait(full + stage * u32(8), phase)
                e = begin(e, base + stage * u32(STAGE_BYTES), mine)
                of_e = stage
                stage, phase = onward(stage, phase)
                wait_for_older()
                promote(sums, parts, d, d_upper, d_lower, lane == 0, empty + of_d * u32(8))
                d_upper, d_lower = scales_of(x_scale, w_scale, block + 2, panel, upper_row, lower_row)
                ptx.mbarrier_wait(full + stage * u32(8), phase)
                d = begin(d, base + stage * u32(STAGE_BYTES), mine)
                of_d = stage
                stage, phase = onward(stage, phase)
                wait_for_older()
                promote(sums, parts, e, e_upper, e_lower, lane == 0, empty + of_e * u32(8))
                e_upper, e_lower = scales_of(x_scale, w_scale, block + 3, panel, upper_row, lower_row)
                ptx.mbarrier_wait(full + stage * u32(8), phase)
                e = begin(e, base + stage * u32(STAGE_BYTES), mine)
                of_e = stage
                stage, phase = onward(stage, phase)
                wait_for_older()
                promote(sums, parts, d, d_upper, d_lower, lane == 0, empty + of_d * u32(8))
                wait_for_all()
                promote(sums, parts, e, e_upper, e_lower, lane == 0, empty + of_e * u32(8))
                block += 4
            while block < blocks:
                d_upper, d_lower = scales_of(x_scale, w_scale, block, panel, upper_row, lower_row)
                ptx.mbarrier_wait(full + stage * u32(8), phase)
                d = begin(d, base + stage * u32(STAGE_BYTES), mine)
                of_d = stage
                stage, phase = onward(stage, phase)
                wait_for_all()
                promote(sums, parts, d, d_upper, d_lower, lane == 0, empty + of_d * u32(8))
                block += 1
            col += 2 * (lane & 3)
            upper_at, lower_at = ptx.address(y, row * n + col), ptx.address(y, (row + 8) * n + col)
            for j in range(TILE_N // 8):
                if col + 8 * j < n and row < m:
                    ptx.store_global_4(upper_at + u64(16 * j), ptx.pack_f16(sums[4 * j], sums[4 * j + 1]))
                if col + 8 * j < n and row + 8 < m:
                    ptx.store_global_4(lower_at + u64(16 * j), ptx.pack_f16(sums[4 * j + 2], sums[4 * j + 3]))
            tile += cuda.gridDim.x


def fp8_gemm(x, w8, w_scale, x8, x_scale, y):
    """Quantise x in blocks of 1 x 128 into x8 and x_scale, then y = (x8 x_scale) @ (w8 w_scale).T.

    x is m x k and y m x n, float16; x8 (m x k) and w8 (n x k) hold e4m3 in uint8; x_scale has a row for each 128 of k
    and a column for each row of x, w_scale a row for each 128 rows of w8 and a column for each 128 of k, float32. k is
    a multiple of 16 and n of 8.
    """
    (m, k), n = x.shape, w8.shape[0]
    quantise_kernel[(-(-m // WARPS), x_scale.shape[0]), 32 * WARPS](x, x8, x_scale, m, k)
    map_x = ptx.tensor_map_address(ptx.tensor_map(x8, (TILE_M, TILE_K)))
    map_w = ptx.tensor_map_address(ptx.tensor_map(w8, (TILE_N, TILE_K)))
    blocks = min(-(-m // TILE_M) * -(-n // TILE_N), BLOCKS)
    gemm_kernel[blocks, THREADS, 0, STAGES * STAGE_BYTES + ALIGNMENT](x_scale, w_scale, y, map_x, map_w, m, n, k)
