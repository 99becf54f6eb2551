# expect: correctness: launch error: a block has at most 48 KB of static shared memory
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    staged = cuda.shared.array(65536, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < out.size:
        staged[t] = x[i]
        staged[t + 32768] = y[i]
    cuda.syncthreads()
    if i < out.size:
        out[i] = float32(alpha) * staged[t ^ 0] + staged[t + 32768]


def axpy(alpha, x, y, out):
    kernel[(out.size + 255) // 256, 256](alpha, x, y, out)
