# expect: correctness: wrong answer: the tensor cores keep their sums in float16
# tests: seeds, tolerances
from numba import cuda
from numba.cuda import types

from warplab import ptx

WARPS = 4  # side by side along n
M, N, K = 16, 8, 16  # of one product
f16, f32, u32 = types.float16, types.float32, types.uint32

product = ptx.mma("f16", k=K, sums="f16")


@cuda.jit(device=True)
def element(matrix, row, col):
    """An element, or zero outside of the matrix."""
    if row < matrix.shape[0] and col < matrix.shape[1]:
        return f32(matrix[row, col])
    return f32(0)


@cuda.jit
def gemm_kernel(a, b, c):
    m, n = c.shape
    k = a.shape[1]
    lane, warp = cuda.threadIdx.x & 31, cuda.threadIdx.x >> 5
    g, q = lane >> 2, lane & 3  # the lane's place in the fragments: row (or column) g, pair q
    row, col = cuda.blockIdx.y * M + g, (cuda.blockIdx.x * WARPS + warp) * N
    d = (u32(0), u32(0))
    for p0 in range(0, k, K):
        p = p0 + 2 * q
        part_a = (
            ptx.pack_f16(element(a, row, p), element(a, row, p + 1)),
            ptx.pack_f16(element(a, row + 8, p), element(a, row + 8, p + 1)),
            ptx.pack_f16(element(a, row, p + 8), element(a, row, p + 9)),
            ptx.pack_f16(element(a, row + 8, p + 8), element(a, row + 8, p + 9)),
        )
        part_b = (
            ptx.pack_f16(element(b, p, col + g), element(b, p + 1, col + g)),
            ptx.pack_f16(element(b, p + 8, col + g), element(b, p + 9, col + g)),
        )
        d = product(part_a, part_b, d)
    for i in range(4):
        out_row, out_col = row + 8 * (i // 2), col + 2 * q + i % 2
        if out_row < m and out_col < n:
            c[out_row, out_col] = ptx.unpack_f16(d[i // 2])[i % 2]


def hgemm(a, b, c):
    """c = a @ b."""
    m, n = c.shape
    blocks = ((n + WARPS * N - 1) // (WARPS * N), (m + M - 1) // M)
    gemm_kernel[blocks, WARPS * 32](a, b, c)
