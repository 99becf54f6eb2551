# expect: traffic: over budget: neighbouring lanes work on neighbouring rows, so nothing is coalesced
from numba import cuda, float32


@cuda.jit
def kernel(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for p in range(a.shape[1]):
            total += float32(a[i, p]) * float32(b[p, j])
        c[i, j] = total


def tiled_gemm(a, b, c):
    m, n = c.shape
    kernel[((m + 31) // 32, (n + 7) // 8), (32, 8)](a, b, c)
