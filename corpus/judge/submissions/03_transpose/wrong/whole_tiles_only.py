# expect: safety: out of bounds: nothing stops the threads of a tile that reaches over the edge
from numba import cuda, float32


@cuda.jit
def kernel(a, out):
    tile = cuda.shared.array((32, 33), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = a[cuda.blockIdx.y * 32 + y, cuda.blockIdx.x * 32 + x]
    cuda.syncthreads()
    out[cuda.blockIdx.x * 32 + y, cuda.blockIdx.y * 32 + x] = tile[x, y]


def transpose(a, out):
    m, n = a.shape
    kernel[((n + 31) // 32, (m + 31) // 32), (32, 32)](a, out)
