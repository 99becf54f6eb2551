# expect: correctness: wrong answer: parts are float32 sums, and the workspace keeps them in float16
# tests: seeds, tolerances
import numpy as np
from numba import cuda, float32

PARTS = 4


@cuda.jit
def part_kernel(a, b, parts):
    j, i = cuda.grid(2)
    h = cuda.blockIdx.z
    k = a.shape[1]
    if i < parts.shape[1] and j < parts.shape[2]:
        total = float32(0)
        for p in range(h * k // PARTS, (h + 1) * k // PARTS):
            total += float32(a[i, p]) * float32(b[p, j])
        parts[h, i, j] = np.float16(total)


@cuda.jit
def add_kernel(parts, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for h in range(PARTS):
            total += float32(parts[h, i, j])
        c[i, j] = total


def hgemm(a, b, c):
    m, n = c.shape
    parts = cuda.device_array((PARTS, m, n), np.float16)
    blocks = ((n + 31) // 32, (m + 7) // 8)
    part_kernel[(*blocks, PARTS), (32, 8)](a, b, parts)
    add_kernel[blocks, (32, 8)](parts, c)
