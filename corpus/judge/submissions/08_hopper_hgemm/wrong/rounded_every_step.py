# expect: correctness: wrong answer: float32 sums of 64 products, but added up in float16
# tests: tolerances
import numpy as np
from numba import cuda, float32


@cuda.jit
def kernel(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = np.float16(0)
        for first in range(0, a.shape[1], 64):
            part = float32(0)
            for p in range(first, min(first + 64, a.shape[1])):
                part += float32(a[i, p]) * float32(b[p, j])
            total = np.float16(float32(total) + part)
        c[i, j] = total


def hgemm(a, b, c):
    m, n = c.shape
    kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, b, c)
