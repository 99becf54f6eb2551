# expect: correctness: input modified: the sum is made in y, which is an input
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        y[i] += float32(alpha) * x[i]
        out[i] = y[i]


def axpy(alpha, x, y, out):
    kernel[(out.size + 255) // 256, 256](alpha, x, y, out)
