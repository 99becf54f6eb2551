# expect: correctness: wrong answer: every 16 products are added in float16, and only their sums in float32
# tests: seeds, tolerances
import numpy as np
from numba import cuda, float32


@cuda.jit
def kernel(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for p0 in range(0, a.shape[1], 16):
            part = float32(0)
            for p in range(p0, min(p0 + 16, a.shape[1])):
                part = float32(np.float16(part + float32(a[i, p]) * float32(b[p, j])))
            total += part
        c[i, j] = total


def tiled_gemm(a, b, c):
    m, n = c.shape
    kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, b, c)
