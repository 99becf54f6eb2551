# expect: safety: passed: float32 on CUDA cores is right, but no product of tensor cores' speed
from numba import cuda, float32


@cuda.jit
def kernel(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for p in range(a.shape[1] - 1, -1, -1):
            total += float32(a[i, p]) * float32(b[j, p])
        c[i, j] = total


def hgemm(a, b, c):
    m, n = c.shape
    kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, b, c)
