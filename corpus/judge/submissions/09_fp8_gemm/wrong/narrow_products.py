# expect: traffic: over budget: right, but 64 columns a block and product: twice the instructions, and x8 comes twice
from numba import cuda, float32, uint32
from numba.cuda import types

from warplab import ptx

TILE_N = 64
X_BYTES, W_BYTES = 128 * 128, 128 * TILE_N
SHARED = X_BYTES + W_BYTES + 1024  # with what it takes to begin at a multiple of 1,024
SUMS = TILE_N // 2
u32, u64 = types.uint32, types.uint64

product = ptx.wgmma("e4m3", n=TILE_N)
wait_for_products = ptx.wgmma_wait(0)
ZEROS = ptx.zeros(SUMS)


@cuda.jit(device=True)
def codes(word, next_word, inverse):
    """Four halves in two words to four codes in one."""
    v0, v1 = ptx.unpack_f16(word)
    v2, v3 = ptx.unpack_f16(next_word)
    low = uint32(ptx.pack_e4m3(v0 * inverse, v1 * inverse))
    return low | uint32(ptx.pack_e4m3(v2 * inverse, v3 * inverse)) << uint32(16)


@cuda.jit
def quantise(x, x8, x_scale):
    """Half a warp for each 128 of a row, eight elements a lane."""
    m, k = x.shape
    row, b = cuda.blockIdx.x * 8 + (cuda.threadIdx.x >> 4), cuda.blockIdx.y
    column = 128 * b + 8 * (cuda.threadIdx.x & 15)
    words = (uint32(0), uint32(0), uint32(0), uint32(0))
    if row < m and column < k:
        words = ptx.load_global_16(ptx.address(x, row * k + column))
    largest = float32(0)
    for word in words:
        low, high = ptx.unpack_f16(word)
        largest = max(largest, max(abs(low), abs(high)))
    for step in range(4):
        largest = max(largest, cuda.shfl_xor_sync(0xFFFFFFFF, largest, 1 << step))
    scale = float32(1) if largest == 0 else float32(2.0**-33)
    while float32(448) * scale < largest:
        scale *= float32(2)
    inverse = float32(1) / scale  # exact: a power of two
    if row < m and column < k:
        both = (codes(words[0], words[1], inverse), codes(words[2], words[3], inverse))
        ptx.store_global_8(ptx.address(x8, row * k + column), both)
    if row < m and cuda.threadIdx.x & 15 == 0:
        x_scale[b, row] = scale


@cuda.jit
def multiply(x_scale, w_scale, y, map_x, map_w, m, n, k):
    base = ptx.shared_address(cuda.shared.array(SHARED, types.uint8), 0)
    base = (base + u32(1023)) & ~u32(1023)
    full = ptx.shared_address(cuda.shared.array(1, types.uint64), 0)
    t = cuda.threadIdx.x
    group, lane, warp = t >> 7, t & 31, (t >> 5) & 3
    if t == 0:
        ptx.fence_tensor_map(map_x)
        ptx.fence_tensor_map(map_w)
        ptx.mbarrier_init(full, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    row, col = cuda.blockIdx.y * 128, cuda.blockIdx.x * TILE_N
    mine = row + group * 64 + 16 * warp + (lane >> 2)
    sums, parts = cuda.local.array(SUMS, types.float32), cuda.local.array(SUMS, types.float32)
    ptx.to_array(ZEROS, sums)
    d = ZEROS
    phase = u32(0)
    block = 0
    while block * 128 < k:
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(full, X_BYTES + W_BYTES)
            ptx.load_tile_2d(base, map_x, full, block * 128, row)
            ptx.load_tile_2d(base + u32(X_BYTES), map_w, full, block * 128, col)
        of_w = w_scale[col // 128, block]
        upper = x_scale[block, min(mine, m - 1)] * of_w
        lower = x_scale[block, min(mine + 8, m - 1)] * of_w
        ptx.mbarrier_wait(full, phase)
        a = ptx.shared_descriptor(base + u32(group * 64 * 128), 16, 1024, 1)
        b = ptx.shared_descriptor(base + u32(X_BYTES), 16, 1024, 1)
        ptx.wgmma_fence()
        d = product(d, a, b, 0)
        d = product(d, a + u64(2), b + u64(2), 1)
        d = product(d, a + u64(4), b + u64(4), 1)
        d = product(d, a + u64(6), b + u64(6), 1)
        ptx.wgmma_commit()
        wait_for_products()
        ptx.to_array(d, parts)
        for j in range(SUMS // 4):
            sums[4 * j] += parts[4 * j] * upper
            sums[4 * j + 1] += parts[4 * j + 1] * upper
            sums[4 * j + 2] += parts[4 * j + 2] * lower
            sums[4 * j + 3] += parts[4 * j + 3] * lower
        cuda.syncthreads()
        phase ^= u32(1)
        block += 1
    col += 2 * (lane & 3)
    for j in range(TILE_N // 8):
        for h in range(2):
            if mine + 8 * h < m and col + 8 * j < n:
                to = ptx.address(y, (mine + 8 * h) * n + col + 8 * j)
                ptx.store_global_4(to, ptx.pack_f16(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]))


def fp8_gemm(x, w8, w_scale, x8, x_scale, y):
    (m, k), n = x.shape, w8.shape[0]
    quantise[((m + 7) // 8, x_scale.shape[0]), 128](x, x8, x_scale)
    map_x = ptx.tensor_map_address(ptx.tensor_map(x8, (128, 128)))
    map_w = ptx.tensor_map_address(ptx.tensor_map(w8, (TILE_N, 128)))
    blocks = (n + TILE_N - 1) // TILE_N, (m + 127) // 128
    multiply[blocks, 256](x_scale, w_scale, y, map_x, map_w, m, n, k)
