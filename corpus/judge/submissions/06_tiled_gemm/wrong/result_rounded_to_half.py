# expect: correctness: wrong answer: accumulated in float32, but rounded to float16 at the end
# tests: tolerances
import numpy as np
from numba import cuda, float32


@cuda.jit
def kernel(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for p in range(a.shape[1]):
            total += float32(a[i, p]) * float32(b[p, j])
        c[i, j] = float32(np.float16(total))


def tiled_gemm(a, b, c):
    m, n = c.shape
    kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, b, c)
