# expect: safety: passed: the lanes of a warp share the sum of one output, which is right but reads far too much
from numba import cuda, float32

WARPS = 4


@cuda.jit
def kernel(a, b, c):
    lane = cuda.threadIdx.x
    i, j = cuda.blockIdx.y, cuda.blockIdx.x * WARPS + cuda.threadIdx.y
    k = a.shape[1]
    if j < c.shape[1]:
        total = float32(0)
        for p in range(lane, k, 32):
            total += float32(a[i, p]) * float32(b[p, j])
        for distance in (16, 8, 4, 2, 1):
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)
        if lane == 0:
            c[i, j] = total


def tiled_gemm(a, b, c):
    m, n = c.shape
    kernel[((n + WARPS - 1) // WARPS, m), (32, WARPS)](a, b, c)
