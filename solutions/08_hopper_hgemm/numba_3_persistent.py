"""hgemm, Numba rung 3: blocks that stay, and two consumers.

Each block stays on its SM and takes tile after tile, so that the next tile's copies begin while the last one's results
are stored. Two warpgroups multiply 64 x 256 outputs each; for their sums they take over registers that the producer
does not need. Tiles are taken in an order that walks down groups of rows.
"""

from numba import cuda
from numba.cuda import types

from warplab import ptx

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4
GROUP = 8  # rows of tiles that are computed together, so that what they share of b stays in L2
BLOCKS, THREADS = 132, 384  # an H100's or H200's SMs; three warpgroups
BARRIERS = 2 * STAGES
PART_N = 64  # columns of b that one copy brings: 128 bytes, the span of the swizzle
PART_BYTES = 2 * TILE_K * PART_N
A_BYTES, B_BYTES = 2 * TILE_M * TILE_K, 2 * TILE_K * TILE_N
STAGE_BYTES = A_BYTES + B_BYTES
HALF_A = 2 * 64 * TILE_K  # bytes of the 64 rows of one warpgroup
ALIGNMENT = 1024  # of a stage: the swizzle's pattern repeats every eight rows of 128 bytes
WARPS = 8  # that multiply
SUMS = TILE_N // 2  # float32 a thread
u32, u64 = types.uint32, types.uint64

product = ptx.wgmma("f16", n=TILE_N, b_transposed=True)
wait_for_all_but_one = ptx.wgmma_wait(1)
wait_for_all = ptx.wgmma_wait(0)
give_up_registers = ptx.setmaxnreg(56, more=False)
take_registers = ptx.setmaxnreg(224, more=True)
ZEROS = ptx.zeros(SUMS)


@cuda.jit(device=True)
def corner(tile, tiles_m, tiles_n):
    """Row and column of a tile's first output, in an order that walks down groups of rows."""
    first = tile // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    place = tile % (GROUP * tiles_n)
    return (first + place % height) * TILE_M, place // height * TILE_N


@ptx.large_shared
@cuda.jit(max_registers=168)  # 384 threads of 168 are all that an SM has
def kernel(c, map_a, map_b, m, n, k):
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
    stage, phase = u32(0), u32(0)
    tile = cuda.blockIdx.x
    if group == 0:
        give_up_registers()
        if t == 0:
            ptx.fence_tensor_map(map_a)
            ptx.fence_tensor_map(map_b)
            while tile < tiles_m * tiles_n:
                row, col = corner(tile, tiles_m, tiles_n)
                p = 0
                while p < k:
                    ptx.mbarrier_wait(empty + stage * u32(8), phase ^ u32(1))
                    signal, to = full + stage * u32(8), base + stage * u32(STAGE_BYTES)
                    ptx.mbarrier_arrive_expect_tx(signal, STAGE_BYTES)
                    ptx.load_tile_2d(to, map_a, signal, p, row)
                    for part in range(TILE_N // PART_N):
                        to_part = to + u32(A_BYTES + part * PART_BYTES)
                        ptx.load_tile_2d(to_part, map_b, signal, col + part * PART_N, p)
                    p += TILE_K
                    stage += u32(1)
                    if stage == u32(STAGES):
                        stage = u32(0)
                        phase ^= u32(1)
                tile += cuda.gridDim.x
    else:
        take_registers()
        lane, warp = t & 31, (t >> 5) & 3
        mine = u32((group - 1) * HALF_A)
        sums = cuda.local.array(SUMS, types.float32)
        while tile < tiles_m * tiles_n:
            row, col = corner(tile, tiles_m, tiles_n)
            d = ZEROS
            before = stage
            p = 0
            while p < k:
                ptx.mbarrier_wait(full + stage * u32(8), phase)
                at = base + stage * u32(STAGE_BYTES)
                # Eight rows of 128 bytes make a block of 1,024; b's parts of 64 columns lie PART_BYTES apart.
                a = ptx.shared_descriptor(at + mine, 16, 1024, 1)
                b = ptx.shared_descriptor(at + u32(A_BYTES), PART_BYTES, 1024, 1)
                ptx.wgmma_fence()
                d = product(d, a, b, 1)  # 16 steps of k: 32 bytes of a's rows, 16 rows of b
                d = product(d, a + u64(2), b + u64(128), 1)
                d = product(d, a + u64(4), b + u64(256), 1)
                d = product(d, a + u64(6), b + u64(384), 1)
                ptx.wgmma_commit()
                wait_for_all_but_one()
                if p > 0 and lane == 0:
                    ptx.mbarrier_arrive(empty + before * u32(8))
                before = stage
                stage += u32(1)
                if stage == u32(STAGES):
                    stage = u32(0)
                    phase ^= u32(1)
                p += TILE_K
            wait_for_all()
            if lane == 0:  # a warp has read when its own products are done
                ptx.mbarrier_arrive(empty + before * u32(8))
            ptx.to_array(d, sums)
            row += (group - 1) * 64 + 16 * warp + (lane >> 2)
            col += 2 * (lane & 3)
            upper, lower = ptx.address(c, row * n + col), ptx.address(c, (row + 8) * n + col)
            for j in range(TILE_N // 8):
                if col + 8 * j < n and row < m:
                    ptx.store_global_4(upper + u64(16 * j), ptx.pack_f16(sums[4 * j], sums[4 * j + 1]))
                if col + 8 * j < n and row + 8 < m:
                    ptx.store_global_4(lower + u64(16 * j), ptx.pack_f16(sums[4 * j + 2], sums[4 * j + 3]))
            tile += cuda.gridDim.x


def hgemm(a, b, c):
    """c = a @ b. a is m x k, b is k x n and c is m x n, all float16; n and k are multiples of 8."""
    m, k = a.shape
    n = b.shape[1]
    map_a = ptx.tensor_map_address(ptx.tensor_map(a, (TILE_M, TILE_K)))
    map_b = ptx.tensor_map_address(ptx.tensor_map(b, (TILE_K, PART_N)))
    blocks = min(-(-m // TILE_M) * -(-n // TILE_N), BLOCKS)
    kernel[blocks, THREADS, 0, STAGES * STAGE_BYTES + ALIGNMENT](c, map_a, map_b, m, n, k)
