"""hgemm, Numba rung 4: pairs of blocks share what they copy, and results leave while the next tile is multiplied.

Two neighbouring blocks form a cluster. They compute two tiles of the same columns, so each copies half of b's tile into
both. The sums go through shared memory, from where tensor copies store them whole rows of 128 bytes at a time.
"""

from numba import cuda
from numba.cuda import types

from warplab import ptx

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4
BARRIERS = 2 * STAGES
CLUSTER = 2  # blocks, one below the other
GROUP = 4  # pairs of tiles that are computed together, so that what they share of b stays in L2
BLOCKS, THREADS = 132, 384  # an H100's or H200's SMs; three warpgroups
PART_N = 64  # columns that one copy brings: 128 bytes, the span of the swizzle
PARTS = TILE_N // PART_N // CLUSTER  # of b that each block copies
PART_BYTES = 2 * TILE_K * PART_N
A_BYTES, B_BYTES = 2 * TILE_M * TILE_K, 2 * TILE_K * TILE_N
STAGE_BYTES = A_BYTES + B_BYTES
HALF_A = 2 * 64 * TILE_K  # bytes of the 64 rows of one warpgroup
ALIGNMENT = 1024  # of a stage: the swizzle's pattern repeats every eight rows of 128 bytes
STORE_ROWS, STORE_BYTES = 16, 2 * 16 * PART_N  # what a warp stores at once; each warp has two places for it
WARPS = 8  # that multiply
SHARED_BYTES = ALIGNMENT + STAGES * STAGE_BYTES + 2 * WARPS * STORE_BYTES
SUMS = TILE_N // 2  # float32 a thread
u16, u32, u64 = types.uint16, types.uint32, types.uint64

pairs = ptx.cluster_size(CLUSTER)
product = ptx.wgmma("f16", n=TILE_N, b_transposed=True)
wait_for_all_but_one = ptx.wgmma_wait(1)
wait_for_all = ptx.wgmma_wait(0)
wait_for_older_stores = ptx.bulk_wait(1, read=True)
wait_for_stores = ptx.bulk_wait(0)
give_up_registers = ptx.setmaxnreg(56, more=False)
take_registers = ptx.setmaxnreg(224, more=True)
ZEROS = ptx.zeros(SUMS)


@cuda.jit(device=True)
def corner(tile, tiles_m, tiles_n):
    """Row and column of the first output of a pair of tiles, in an order that walks down groups of pairs."""
    first = tile // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    place = tile % (GROUP * tiles_n)
    return (first + place % height) * CLUSTER * TILE_M, place // height * TILE_N


@ptx.large_shared
@cuda.jit(max_registers=168)  # 384 threads of 168 are all that an SM has
def kernel(map_a, map_b, map_c, m, n, k):
    pairs()
    base = ptx.shared_address(cuda.shared.array(0, types.float16), 0)
    base = (base + u32(ALIGNMENT - 1)) & ~u32(ALIGNMENT - 1)
    barriers = cuda.shared.array(BARRIERS, types.uint64)
    full, empty = ptx.shared_address(barriers, 0), ptx.shared_address(barriers, STAGES)
    t = cuda.threadIdx.x
    group = t >> 7
    rank = ptx.cluster_ctarank()
    if t == 0:
        for s in range(STAGES):
            ptx.mbarrier_init(full + u32(8 * s), 1)
            ptx.mbarrier_init(empty + u32(8 * s), WARPS * CLUSTER)
        ptx.fence_mbarrier_init()
    ptx.cluster_arrive()
    ptx.cluster_wait()

    tiles_m, tiles_n = (m + CLUSTER * TILE_M - 1) // (CLUSTER * TILE_M), (n + TILE_N - 1) // TILE_N
    stage, phase = u32(0), u32(0)
    tile = cuda.blockIdx.x // CLUSTER
    if group == 0:
        give_up_registers()
        if t == 0:
            ptx.fence_tensor_map(map_a)
            ptx.fence_tensor_map(map_b)
            while tile < tiles_m * tiles_n:
                row, col = corner(tile, tiles_m, tiles_n)
                row += rank * TILE_M
                p = 0
                while p < k:
                    ptx.mbarrier_wait(empty + stage * u32(8), phase ^ u32(1))
                    signal, to = full + stage * u32(8), base + stage * u32(STAGE_BYTES)
                    ptx.mbarrier_arrive_expect_tx(signal, STAGE_BYTES)
                    ptx.load_tile_2d(to, map_a, signal, p, row)
                    for i in range(PARTS):
                        part = rank * u32(PARTS) + u32(i)
                        to_part = to + u32(A_BYTES) + part * u32(PART_BYTES)
                        ptx.load_tile_2d_multicast(to_part, map_b, signal, col + part * PART_N, p, u16(3))
                    p += TILE_K
                    stage += u32(1)
                    if stage == u32(STAGES):
                        stage = u32(0)
                        phase ^= u32(1)
                tile += cuda.gridDim.x // CLUSTER
    else:
        take_registers()
        lane, warp = u32(t & 31), u32((t >> 5) - 4)
        releases = lane < u32(CLUSTER)
        release = ptx.mapa(empty, lane & u32(1))  # a warp has read when its own products are done: lane r tells block r
        mine = u32((group - 1) * HALF_A)
        place = base + u32(STAGES * STAGE_BYTES) + warp * u32(2 * STORE_BYTES)
        to_row, turn = place + (lane & u32(15)) * u32(2 * PART_N), lane & u32(7)
        sums = cuda.local.array(SUMS, types.float32)
        if lane == u32(0):
            ptx.fence_tensor_map(map_c)
        while tile < tiles_m * tiles_n:
            row, col = corner(tile, tiles_m, tiles_n)
            row += rank * TILE_M
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
                if p > 0 and releases:
                    ptx.mbarrier_arrive_remote(release + before * u32(8))
                before = stage
                stage += u32(1)
                if stage == u32(STAGES):
                    stage = u32(0)
                    phase ^= u32(1)
                p += TILE_K
            wait_for_all()
            if releases:
                ptx.mbarrier_arrive_remote(release + before * u32(8))
            ptx.to_array(d, sums)
            for part in range(TILE_N // PART_N):
                buffer = u32((part & 1) * STORE_BYTES)
                if lane == u32(0):
                    wait_for_older_stores()
                cuda.syncwarp()
                for j in range(PART_N // 16):
                    s = 32 * part + 8 * j
                    words = (
                        ptx.pack_f16(sums[s], sums[s + 1]),
                        ptx.pack_f16(sums[s + 2], sums[s + 3]),
                        ptx.pack_f16(sums[s + 4], sums[s + 5]),
                        ptx.pack_f16(sums[s + 6], sums[s + 7]),
                    )
                    chunk = u32(2 * j) + (lane >> u32(4))
                    ptx.stmatrix_x4(to_row + buffer + ((chunk ^ turn) << u32(4)), words)
                ptx.fence_proxy_async()
                cuda.syncwarp()
                if lane == u32(0):
                    ptx.store_tile_2d(map_c, place + buffer, col + part * PART_N, row + warp * STORE_ROWS)
                    ptx.bulk_commit()
            tile += cuda.gridDim.x // CLUSTER
        if lane == u32(0):
            wait_for_stores()
    ptx.cluster_arrive()  # the other block still writes here
    ptx.cluster_wait()


def hgemm(a, b, c):
    """c = a @ b. a is m x k, b is k x n and c is m x n, all float16; n and k are multiples of 8."""
    m, k = a.shape
    n = b.shape[1]
    map_a = ptx.tensor_map_address(ptx.tensor_map(a, (TILE_M, TILE_K)))
    map_b = ptx.tensor_map_address(ptx.tensor_map(b, (TILE_K, PART_N)))
    map_c = ptx.tensor_map_address(ptx.tensor_map(c, (STORE_ROWS, PART_N)))
    pairs_of_tiles = -(-m // (CLUSTER * TILE_M)) * -(-n // TILE_N)
    rounds = -(-pairs_of_tiles * CLUSTER // BLOCKS)
    blocks = -(-pairs_of_tiles // rounds) * CLUSTER  # no more than these many rounds need
    kernel[blocks, THREADS, 0, SHARED_BYTES](map_a, map_b, map_c, m, n, k)
