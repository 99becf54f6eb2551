# expect: correctness: wrong answer: the gradient is written as its transpose
from numba import cuda, float32


@cuda.jit
def multiply(dy, x, first, count, dw):
    j, i = cuda.grid(2)
    e = cuda.blockIdx.z
    experts, m, n = dw.shape
    if i >= m or j >= n:
        return
    place = j * m + i
    total = float32(0)
    for t in range(first[e], first[e] + count[e]):
        total += float32(dy[t, i]) * float32(x[t, j])
    dw[e, place // n, place % n] = total


def k_grouped_gemm(dy, x, first, count, dw):
    experts, m, n = dw.shape
    multiply[((n + 31) // 32, (m + 7) // 8, experts), (32, 8)](dy, x, first, count, dw)
