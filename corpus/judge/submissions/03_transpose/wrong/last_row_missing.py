# expect: correctness: wrong answer: m - 1 where m is meant, so the last column of out is never written
from numba import cuda


@cuda.jit
def kernel(a, out):
    j, i = cuda.grid(2)
    m, n = a.shape
    if i < m - 1 and j < n:
        out[j, i] = a[i, j]


def transpose(a, out):
    m, n = a.shape
    kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, out)
