"""hgemm, Numba rung 1: one thread copies, one warpgroup multiplies, in turns.

A tensor copy brings a tile of 64 x 64 of a and one of 64 x 128 of b, described by tensor maps, into shared memory. When
an mbarrier has counted their bytes, the warpgroup multiplies them with wgmma, which reads both from there.
"""

from numba import cuda
from numba.cuda import types

from warplab import ptx

TILE_M, TILE_N, TILE_K, THREADS = 64, 128, 64, 128
PART_N = 64  # columns of b that one copy brings: 128 bytes, the span of the swizzle
PART_BYTES = 2 * TILE_K * PART_N
A_ELEMENTS, B_ELEMENTS = TILE_M * TILE_K, TILE_K * TILE_N
SUMS = TILE_N // 2  # float32 a thread
f16, u32, u64 = types.float16, types.uint32, types.uint64

product = ptx.wgmma("f16", n=TILE_N, b_transposed=True)
wait_for_products = ptx.wgmma_wait(0)
ZEROS = ptx.zeros(SUMS)


@cuda.jit
def kernel(c, map_a, map_b, m, n, k):
    tile_a = ptx.shared_address(cuda.shared.array(A_ELEMENTS, f16, alignment=1024), 0)
    tile_b = ptx.shared_address(cuda.shared.array(B_ELEMENTS, f16, alignment=1024), 0)
    full = ptx.shared_address(cuda.shared.array(1, types.uint64), 0)
    t = cuda.threadIdx.x
    lane, warp = t & 31, t >> 5
    row, col = cuda.blockIdx.y * TILE_M, cuda.blockIdx.x * TILE_N
    if t == 0:
        ptx.mbarrier_init(full, 1)
        ptx.fence_mbarrier_init()
        ptx.fence_tensor_map(map_a)
        ptx.fence_tensor_map(map_b)
    cuda.syncthreads()

    # Eight rows of 128 bytes make a block of 1,024; b's parts of 64 columns lie PART_BYTES apart.
    a = ptx.shared_descriptor(tile_a, 16, 1024, 1)
    b = ptx.shared_descriptor(tile_b, PART_BYTES, 1024, 1)
    d = ZEROS
    phase = u32(0)
    p = 0
    while p < k:
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(full, 2 * (A_ELEMENTS + B_ELEMENTS))
            ptx.load_tile_2d(tile_a, map_a, full, p, row)
            for part in range(TILE_N // PART_N):
                ptx.load_tile_2d(tile_b + u32(part * PART_BYTES), map_b, full, col + part * PART_N, p)
        ptx.mbarrier_wait(full, phase)
        phase ^= u32(1)
        ptx.wgmma_fence()
        d = product(d, a, b, 1)  # 16 steps of k: 32 bytes of a's rows, 16 rows of b
        d = product(d, a + u64(2), b + u64(128), 1)
        d = product(d, a + u64(4), b + u64(256), 1)
        d = product(d, a + u64(6), b + u64(384), 1)
        ptx.wgmma_commit()
        wait_for_products()
        cuda.syncthreads()  # everybody has read the tiles before they are overwritten
        p += TILE_K

    sums = cuda.local.array(SUMS, types.float32)
    ptx.to_array(d, sums)
    row += 16 * warp + (lane >> 2)
    col += 2 * (lane & 3)
    upper, lower = ptx.address(c, row * n + col), ptx.address(c, (row + 8) * n + col)
    for j in range(TILE_N // 8):
        if col + 8 * j < n and row < m:
            ptx.store_global_4(upper + u64(16 * j), ptx.pack_f16(sums[4 * j], sums[4 * j + 1]))
        if col + 8 * j < n and row + 8 < m:
            ptx.store_global_4(lower + u64(16 * j), ptx.pack_f16(sums[4 * j + 2], sums[4 * j + 3]))


def hgemm(a, b, c):
    """c = a @ b. a is m x k, b is k x n and c is m x n, all float16; n and k are multiples of 8."""
    m, k = a.shape
    n = b.shape[1]
    map_a = ptx.tensor_map_address(ptx.tensor_map(a, (TILE_M, TILE_K)))
    map_b = ptx.tensor_map_address(ptx.tensor_map(b, (TILE_K, PART_N)))
    blocks = (-(-n // TILE_N), -(-m // TILE_M))
    kernel[blocks, THREADS](c, map_a, map_b, m, n, k)
