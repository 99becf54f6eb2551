# expect: correctness: launch error: a block has at most 1,024 threads
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(alpha) * x[i] + y[i]


def axpy(alpha, x, y, out):
    kernel[(out.size + 2047) // 2048, 2048](alpha, x, y, out)
