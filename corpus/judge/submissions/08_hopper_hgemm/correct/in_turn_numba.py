# expect: safety: passed: Numba; 128 x 128 by two warpgroups that load, wait and multiply in turn: too many drains
from numba import cuda
from numba.cuda import types

from warplab import ptx

TILE, DEPTH, PANEL = 128, 64, 64
A_BYTES, PANEL_BYTES = 2 * TILE * DEPTH, 2 * DEPTH * PANEL
STAGE_BYTES = A_BYTES + 2 * PANEL_BYTES
SHARED = STAGE_BYTES // 2 + 512  # halves, with what it takes to begin at a multiple of 1,024 bytes
SUMS = TILE // 2
u32, u64 = types.uint32, types.uint64

product = ptx.wgmma("f16", n=TILE, b_transposed=True)
wait_for_products = ptx.wgmma_wait(0)
ZEROS = ptx.zeros(SUMS)


@cuda.jit
def kernel(c, map_a, map_b, m, n, k):
    base = ptx.shared_address(cuda.shared.array(SHARED, types.float16), 0)
    base = (base + u32(1023)) & ~u32(1023)
    full = ptx.shared_address(cuda.shared.array(1, types.uint64), 0)
    t = cuda.threadIdx.x
    group, lane, warp = t >> 7, t & 31, (t >> 5) & 3
    if t == 0:
        ptx.fence_tensor_map(map_a)
        ptx.fence_tensor_map(map_b)
        ptx.mbarrier_init(full, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    row, col = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    d = ZEROS
    phase = u32(0)
    p = 0
    while p < k:
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(full, STAGE_BYTES)
            ptx.load_tile_2d(base, map_a, full, p, row)
            for panel in range(2):
                to = base + u32(A_BYTES + panel * PANEL_BYTES)
                ptx.load_tile_2d(to, map_b, full, col + panel * PANEL, p)
        ptx.mbarrier_wait(full, phase)
        a = ptx.shared_descriptor(base + u32(group * (A_BYTES // 2)), 16, 1024, 1)
        b = ptx.shared_descriptor(base + u32(A_BYTES), PANEL_BYTES, 1024, 1)
        ptx.wgmma_fence()
        d = product(d, a, b, 1)
        d = product(d, a + u64(2), b + u64(128), 1)
        d = product(d, a + u64(4), b + u64(256), 1)
        d = product(d, a + u64(6), b + u64(384), 1)
        ptx.wgmma_commit()
        wait_for_products()
        cuda.syncthreads()
        phase ^= u32(1)
        p += DEPTH
    sums = cuda.local.array(SUMS, types.float32)
    ptx.to_array(d, sums)
    row += group * 64 + 16 * warp + (lane >> 2)
    col += 2 * (lane & 3)
    for j in range(TILE // 8):
        for h in range(2):
            if row + 8 * h < m and col + 8 * j < n:
                to = ptx.address(c, (row + 8 * h) * n + col + 8 * j)
                ptx.store_global_4(to, ptx.pack_f16(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]))


def hgemm(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    map_a = ptx.tensor_map_address(ptx.tensor_map(a, (TILE, DEPTH)))
    map_b = ptx.tensor_map_address(ptx.tensor_map(b, (DEPTH, PANEL)))
    kernel[((n + TILE - 1) // TILE, (m + TILE - 1) // TILE), 256](c, map_a, map_b, m, n, k)
