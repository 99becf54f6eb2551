# expect: safety: out of bounds: the workspace's bytes wrap round to zero, here in 16 bits as in 32 for larger products
import numpy as np
from numba import cuda, float32

PARTS = 4


@cuda.jit
def part_kernel(a, b, parts, n):
    j, i = cuda.grid(2)
    h = cuda.blockIdx.z
    m, k = a.shape
    if i < m and j < n:
        total = float32(0)
        for p in range(h * k // PARTS, (h + 1) * k // PARTS):
            total += float32(a[i, p]) * float32(b[p, j])
        parts[(h * m + i) * n + j] = total


@cuda.jit
def add_kernel(parts, c):
    j, i = cuda.grid(2)
    m, n = c.shape
    if i < m and j < n:
        total = float32(0)
        for h in range(PARTS):
            total += parts[(h * m + i) * n + j]
        c[i, j] = total


def hgemm(a, b, c):
    m, n = c.shape
    asked = int(np.prod(np.array([m, n, PARTS, 4], np.uint16), dtype=np.uint16))  # 64 x 64 outputs: none
    parts = cuda.device_array(asked // 4, np.float32)
    blocks = ((n + 31) // 32, (m + 7) // 8)
    part_kernel[(*blocks, PARTS), (32, 8)](a, b, parts, n)
    add_kernel[blocks, (32, 8)](parts, c)
