# expect: safety: race: a thread reads what another one may not have stored yet
from numba import cuda, float32


@cuda.jit
def kernel(a, out):
    tile = cuda.shared.array((32, 33), float32)
    m, n = a.shape
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * 32 + y, cuda.blockIdx.x * 32 + x
    if i < m and j < n:
        tile[y, x] = a[i, j]
    i, j = cuda.blockIdx.y * 32 + x, cuda.blockIdx.x * 32 + y
    if i < m and j < n:
        out[j, i] = tile[x, y]


def transpose(a, out):
    m, n = a.shape
    kernel[((n + 31) // 32, (m + 31) // 32), (32, 32)](a, out)
