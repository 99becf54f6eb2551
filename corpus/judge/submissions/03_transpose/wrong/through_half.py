# expect: correctness: wrong answer: the elements pass through float16
# tests: tolerances
import numpy as np
from numba import cuda, float32


@cuda.jit
def kernel(a, out):
    tile = cuda.shared.array((32, 33), np.float16)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * 32, cuda.blockIdx.x * 32
    for r in range(y, 32, 8):
        if i + r < a.shape[0] and j + x < a.shape[1]:
            tile[r, x] = np.float16(a[i + r, j + x])
    cuda.syncthreads()
    for r in range(y, 32, 8):
        if j + r < a.shape[1] and i + x < a.shape[0]:
            out[j + r, i + x] = float32(tile[x, r])


def transpose(a, out):
    m, n = a.shape
    kernel[((n + 31) // 32, (m + 31) // 32), (32, 8)](a, out)
