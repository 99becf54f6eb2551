# expect: traffic: over budget: a local array indexed by a variable cannot live in registers
from numba import cuda, float32

TILE, DEPTH = 64, 16


@cuda.jit
def kernel(a, b, c):
    left = cuda.shared.array((TILE, DEPTH), float32)
    right = cuda.shared.array((DEPTH, TILE), float32)
    total = cuda.local.array(64, float32)
    m, n = c.shape
    k = a.shape[1]
    t = cuda.threadIdx.x
    x, y = t % 8, t // 8
    top, start = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    for e in range(64):
        total[e] = float32(0)
    for p0 in range(0, k, DEPTH):
        for e in range(t, TILE * DEPTH, 64):
            i, p = top + e // DEPTH, p0 + e % DEPTH
            left[e // DEPTH, e % DEPTH] = float32(a[i, p]) if i < m and p < k else float32(0)
            p, j = p0 + e // TILE, start + e % TILE
            right[e // TILE, e % TILE] = float32(b[p, j]) if p < k and j < n else float32(0)
        cuda.syncthreads()
        for p in range(DEPTH):
            for e in range(64):
                total[e] += left[y + 8 * (e // 8), p] * right[p, x + 8 * (e % 8)]
        cuda.syncthreads()
    for e in range(64):
        i, j = top + y + 8 * (e // 8), start + x + 8 * (e % 8)
        if i < m and j < n:
            c[i, j] = total[e]


def tiled_gemm(a, b, c):
    m, n = c.shape
    kernel[((n + TILE - 1) // TILE, (m + TILE - 1) // TILE), 64](a, b, c)
