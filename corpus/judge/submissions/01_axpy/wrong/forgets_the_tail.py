# expect: correctness: wrong answer: the grid is rounded down, so the last elements are never written
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(alpha) * x[i] + y[i]


def axpy(alpha, x, y, out):
    kernel[max(1, out.size // 256), 256](alpha, x, y, out)
