# expect: safety: passed: sixteen tokens at a time through shared memory, on CUDA cores; right, and over the budgets
from numba import cuda, float32

SIDE = 16


@cuda.jit
def multiply(dy, x, first, count, dw):
    of_dy = cuda.shared.array((SIDE, SIDE), float32)
    of_x = cuda.shared.array((SIDE, SIDE), float32)
    a, b = cuda.threadIdx.y, cuda.threadIdx.x
    e = cuda.blockIdx.z
    experts, m, n = dw.shape
    i, j = cuda.blockIdx.y * SIDE, cuda.blockIdx.x * SIDE
    end = first[e] + count[e]
    total = float32(0)
    for start in range(first[e], end, SIDE):
        t = start + a
        of_dy[a, b] = float32(dy[t, i + b]) if t < end and i + b < m else float32(0)
        of_x[a, b] = float32(x[t, j + b]) if t < end and j + b < n else float32(0)
        cuda.syncthreads()
        for s in range(SIDE):
            total += of_dy[s, a] * of_x[s, b]
        cuda.syncthreads()
    if i + a < m and j + b < n:
        dw[e, i + a, j + b] = total


def k_grouped_gemm(dy, x, first, count, dw):
    experts, m, n = dw.shape
    multiply[((n + SIDE - 1) // SIDE, (m + SIDE - 1) // SIDE, experts), (SIDE, SIDE)](dy, x, first, count, dw)
