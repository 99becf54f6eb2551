# expect: correctness: wrong answer: products and sums are float16
# tests: tolerances
import numpy as np
from numba import cuda, float32


@cuda.jit
def kernel(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = np.float16(0)
        for p in range(a.shape[1]):
            total = total + a[i, p] * b[p, j]
        c[i, j] = total


def hgemm(a, b, c):
    m, n = c.shape
    kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, b, c)
