# expect: correctness: wrong answer: the grid is rounded down, so edges are never written
from numba import cuda, float32


@cuda.jit
def kernel(a, b, c):
    tile_a = cuda.shared.array((16, 17), float32)
    tile_b = cuda.shared.array((16, 17), float32)
    m, n = c.shape
    k = a.shape[1]
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * 16 + y, cuda.blockIdx.x * 16 + x
    total = float32(0)
    for p0 in range(0, k, 16):
        tile_a[y, x] = float32(a[i, p0 + x]) if i < m and p0 + x < k else float32(0)
        tile_b[y, x] = float32(b[p0 + y, j]) if p0 + y < k and j < n else float32(0)
        cuda.syncthreads()
        for p in range(16):
            total += tile_a[y, p] * tile_b[p, x]
        cuda.syncthreads()
    if i < m and j < n:
        c[i, j] = total


def hgemm(a, b, c):
    m, n = c.shape
    kernel[(max(1, n // 16), max(1, m // 16)), (16, 16)](a, b, c)
