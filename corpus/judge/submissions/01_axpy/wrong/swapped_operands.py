# expect: correctness: wrong answer: x + alpha * y instead of alpha * x + y
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + float32(alpha) * y[i]


def axpy(alpha, x, y, out):
    kernel[(out.size + 255) // 256, 256](alpha, x, y, out)
