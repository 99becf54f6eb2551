# expect: safety: passed: two halves of k are added from scratch memory, which is right but exceeds the load budget
import numpy as np
from numba import cuda, float32

TILE, DEPTH = 64, 16


@cuda.jit
def partial_products(a, b, parts, chunk):
    left = cuda.shared.array((DEPTH, TILE), float32)
    right = cuda.shared.array((DEPTH, TILE), float32)
    total = cuda.local.array((8, 8), float32)
    m, k = a.shape
    n = b.shape[1]
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    t = y * 8 + x
    top, start = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    part = cuda.blockIdx.z
    end = min(k, (part + 1) * chunk)
    for i in range(8):
        for j in range(8):
            total[i, j] = float32(0)
    for p0 in range(part * chunk, end, DEPTH):
        for e in range(t, TILE * DEPTH, 64):
            i, p = top + e // DEPTH, p0 + e % DEPTH
            left[e % DEPTH, e // DEPTH] = float32(a[i, p]) if i < m and p < end else float32(0)
            p, j = p0 + e // TILE, start + e % TILE
            right[e // TILE, e % TILE] = float32(b[p, j]) if p < end and j < n else float32(0)
        cuda.syncthreads()
        for p in range(DEPTH):
            for i in range(8):
                value = left[p, y + 8 * i]
                for j in range(8):
                    total[i, j] += value * right[p, x + 8 * j]
        cuda.syncthreads()
    for i in range(8):
        for j in range(8):
            row, column = top + y + 8 * i, start + x + 8 * j
            if row < m and column < n:
                parts[part, row, column] = total[i, j]


@cuda.jit
def add(parts, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = parts[0, i, j] + parts[1, i, j]


def tiled_gemm(a, b, c):
    m, n = c.shape
    k = a.shape[1]
    parts = cuda.device_array((2, m, n), np.float32)
    chunk = (k + 1) // 2
    blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE, 2)
    partial_products[blocks, (8, 8)](a, b, parts, chunk)
    add[((n + 31) // 32, (m + 7) // 8), (32, 8)](parts, c)
