"""grouped_gemm, in Numba: blocks that stay, and find their next tile in what the device knows of the groups.

One thread keeps six stages of shared memory filled with 128 of k, two warpgroups multiply what is there: 64 x 128
outputs each, if their expert has any of these rows. Sums of every 128 of k are scaled and added up in registers.
"""

from numba import cuda
from numba.cuda import types

from warplab import ptx

TILE_M, TILE_N, TILE_K, STAGES = 128, 128, 128, 6
GROUP = 8  # rows of tiles that are computed together, so that what they share of w stays in L2
SMS, THREADS = 132, 384  # an H100's or H200's; three warpgroups, of the first of which one thread copies
BARRIERS = 2 * STAGES
X_BYTES, W_BYTES = TILE_M * TILE_K, TILE_N * TILE_K
STAGE_BYTES = X_BYTES + W_BYTES
HALF_X = 64 * TILE_K  # bytes of the 64 rows of one warpgroup
ALIGNMENT = 1024  # of a stage: the swizzle's pattern repeats every eight rows of 128 bytes
WARPS = 8  # that multiply
SUMS = TILE_N // 2  # float32 a thread
u32, u64 = types.uint32, types.uint64

product = ptx.wgmma("e4m3", n=TILE_N)
wait_for_products = ptx.wgmma_wait(0)
give_up_registers = ptx.setmaxnreg(40, more=False)
take_registers = ptx.setmaxnreg(232, more=True)
ZEROS = ptx.zeros(SUMS)


@cuda.jit(device=True)
def place(number, tall, across):
    """Row and column of a tile's first output among an expert's, in an order that walks down groups of rows."""
    first = number // (GROUP * across) * GROUP
    height = min(tall - first, GROUP)
    within = number % (GROUP * across)
    return (first + within % height) * TILE_M, within // height * TILE_N


@cuda.jit(device=True)
def find(count, number, expert, before, across):
    """The expert of tile `number` and how many tiles the experts before it have, from where the last search ended.

    Gives as many experts as there are behind the last tile.
    """
    while expert < count.size:
        tiles = (count[expert] + TILE_M - 1) // TILE_M * across
        if number < before + tiles:
            break
        before += tiles
        expert += 1
    return expert, before


@ptx.large_shared
@cuda.jit(max_registers=168)  # 384 threads of 168 are all that an SM has
def kernel(x_scale, w_scale, first, count, y, map_x, map_w, n, k):
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

    across, blocks = (n + TILE_N - 1) // TILE_N, (k + TILE_K - 1) // TILE_K
    stage, phase = u32(0), u32(0)
    tile = cuda.blockIdx.x
    expert, before = find(count, tile, 0, 0, across)
    if group == 0:
        give_up_registers()
        if t == 0:
            ptx.fence_tensor_map(map_x)
            ptx.fence_tensor_map(map_w)
            while expert < count.size:
                row, col = place(tile - before, (count[expert] + TILE_M - 1) // TILE_M, across)
                both = row + 64 < count[expert]  # else the second half of x is not needed
                row += first[expert]
                block = 0
                while block < blocks:
                    ptx.mbarrier_wait(empty + stage * u32(8), phase ^ u32(1))
                    signal, to = full + stage * u32(8), base + stage * u32(STAGE_BYTES)
                    ptx.mbarrier_arrive_expect_tx(signal, STAGE_BYTES if both else STAGE_BYTES - HALF_X)
                    ptx.load_tile_2d(to, map_x, signal, block * TILE_K, row)
                    if both:
                        ptx.load_tile_2d(to + u32(HALF_X), map_x, signal, block * TILE_K, row + 64)
                    ptx.load_tile_2d(to + u32(X_BYTES), map_w, signal, block * TILE_K, expert * n + col)
                    block += 1
                    stage += u32(1)
                    if stage == u32(STAGES):
                        stage = u32(0)
                        phase ^= u32(1)
                tile += cuda.gridDim.x
                expert, before = find(count, tile, expert, before, across)
    else:
        take_registers()
        lane, warp = t & 31, (t >> 5) & 3
        mine = u32((group - 1) * HALF_X)
        sums = cuda.local.array(SUMS, types.float32)
        parts = cuda.local.array(SUMS, types.float32)
        while expert < count.size:
            row, col = place(tile - before, (count[expert] + TILE_M - 1) // TILE_M, across)
            row += first[expert] + (group - 1) * 64
            end = first[expert] + count[expert]
            some = row < end  # of this warpgroup's rows is the expert's
            row += 16 * warp + (lane >> 2)
            panel = col // TILE_N
            upper_row, lower_row = min(row, end - 1), min(row + 8, end - 1)  # rows behind are not stored
            ptx.to_array(ZEROS, sums)
            d = ZEROS
            block = 0
            while block < blocks:
                ptx.mbarrier_wait(full + stage * u32(8), phase)
                if some:
                    of_w = w_scale[expert, panel, block]
                    upper, lower = x_scale[block, upper_row] * of_w, x_scale[block, lower_row] * of_w
                    at = base + stage * u32(STAGE_BYTES)
                    # Both matrices have k along lines of 128 bytes; eight lines make a block of 1,024.
                    a = ptx.shared_descriptor(at + mine, 16, 1024, 1)
                    b = ptx.shared_descriptor(at + u32(X_BYTES), 16, 1024, 1)
                    ptx.wgmma_fence()
                    d = product(d, a, b, 0)  # 32 steps of k: 32 bytes of each line
                    d = product(d, a + u64(2), b + u64(2), 1)
                    d = product(d, a + u64(4), b + u64(4), 1)
                    d = product(d, a + u64(6), b + u64(6), 1)
                    ptx.wgmma_commit()
                    wait_for_products()
                if lane == 0:  # a warp has read when its own products are done, or has none
                    ptx.mbarrier_arrive(empty + stage * u32(8))
                if some:
                    ptx.to_array(d, parts)
                    for j in range(SUMS // 4):
                        sums[4 * j] += parts[4 * j] * upper
                        sums[4 * j + 1] += parts[4 * j + 1] * upper
                        sums[4 * j + 2] += parts[4 * j + 2] * lower
                        sums[4 * j + 3] += parts[4 * j + 3] * lower
                stage += u32(1)
                if stage == u32(STAGES):
                    stage = u32(0)
                    phase ^= u32(1)
                block += 1
            col += 2 * (lane & 3)
            upper_at, lower_at = ptx.address(y, row * n + col), ptx.address(y, (row + 8) * n + col)
            for j in range(TILE_N // 8):
                if col + 8 * j < n and row < end:
                    ptx.store_global_4(upper_at + u64(16 * j), ptx.pack_f16(sums[4 * j], sums[4 * j + 1]))
                if col + 8 * j < n and row + 8 < end:
                    ptx.store_global_4(lower_at + u64(16 * j), ptx.pack_f16(sums[4 * j + 2], sums[4 * j + 3]))
            tile += cuda.gridDim.x
            expert, before = find(count, tile, expert, before, across)


def grouped_gemm(most, x8, x_scale, w8, w_scale, first, count, y):
    """y = (x8 x_scale) @ (w8[e] w_scale[e]).T for the rows of each expert e: count[e] of them, from first[e] on."""
    (slots, k), (experts, n, _) = x8.shape, w8.shape
    map_x = ptx.tensor_map_address(ptx.tensor_map(x8, (64, TILE_K)))
    map_w = ptx.tensor_map_address(ptx.tensor_map(w8.reshape(experts * n, k), (TILE_N, TILE_K)))
    tall = min(experts * -(-most // TILE_M), slots // TILE_M + experts)  # rows of tiles, whatever the counts are
    blocks = min(tall * -(-n // TILE_N), SMS)
    kernel[blocks, THREADS, 0, STAGES * STAGE_BYTES + ALIGNMENT](x_scale, w_scale, first, count, y, map_x, map_w, n, k)
