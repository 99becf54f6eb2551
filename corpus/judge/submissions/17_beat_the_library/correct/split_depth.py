# expect: safety: passed: two halves of k are added in float32 from scratch memory
import numpy as np
from numba import cuda, float32


@cuda.jit
def half_kernel(a, b, parts):
    j, i = cuda.grid(2)
    h = cuda.blockIdx.z
    k = a.shape[1]
    if i < parts.shape[1] and j < parts.shape[2]:
        total = float32(0)
        for p in range(h * (k // 2), k if h else k // 2):
            total += float32(a[i, p]) * float32(b[p, j])
        parts[h, i, j] = total


@cuda.jit
def add_kernel(parts, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = parts[0, i, j] + parts[1, i, j]


def hgemm(a, b, c):
    m, n = c.shape
    parts = cuda.device_array((2, m, n), np.float32)
    blocks = ((n + 31) // 32, (m + 7) // 8)
    half_kernel[(*blocks, 2), (32, 8)](a, b, parts)
    add_kernel[blocks, (32, 8)](parts, c)
