# expect: all: passed: tiles of 128 x 128 kept as float16, converted on the way to the registers
import numpy as np
from numba import cuda, float32

ROWS, COLUMNS, DEPTH = 128, 128, 32
PITCH = DEPTH + 2


@cuda.jit
def kernel(a, b, c):
    left = cuda.shared.array((ROWS, PITCH), np.float16)
    right = cuda.shared.array((DEPTH, COLUMNS), np.float16)
    total = cuda.local.array((8, 8), float32)
    row = cuda.local.array(8, float32)
    m, k = a.shape
    n = b.shape[1]
    t = cuda.threadIdx.x
    top, start = cuda.blockIdx.x * ROWS, cuda.blockIdx.y * COLUMNS
    x, y = t % 16, t // 16
    for e in range(8):
        for f in range(8):
            total[e, f] = 0
    for p0 in range(0, k, DEPTH):
        for e in range(t, ROWS * DEPTH, 256):
            r, p = e // DEPTH, e % DEPTH
            if top + r < m and p0 + p < k:
                left[r, p] = a[top + r, p0 + p]
            else:
                left[r, p] = np.float16(0)
        for e in range(t, DEPTH * COLUMNS, 256):
            p, s = e // COLUMNS, e % COLUMNS
            if p0 + p < k and start + s < n:
                right[p, s] = b[p0 + p, start + s]
            else:
                right[p, s] = np.float16(0)
        cuda.syncthreads()
        for p in range(DEPTH):
            for e in range(8):
                row[e] = float32(right[p, x + 16 * e])
            for e in range(8):
                value = float32(left[y + 16 * e, p])
                for f in range(8):
                    total[e, f] += value * row[f]
        cuda.syncthreads()
    for e in range(8):
        for f in range(8):
            i, j = top + y + 16 * e, start + x + 16 * f
            if i < m and j < n:
                c[i, j] = total[e, f]


def tiled_gemm(a, b, c):
    m, n = c.shape
    kernel[((m + ROWS - 1) // ROWS, (n + COLUMNS - 1) // COLUMNS), 256](a, b, c)
