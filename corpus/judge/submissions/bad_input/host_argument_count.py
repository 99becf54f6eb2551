# expect: correctness: wrong arguments: the host function lacks a parameter
from numba import cuda


@cuda.jit
def kernel(alpha, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] += alpha * x[i]


def axpy(alpha, x, y):
    kernel[(y.size + 255) // 256, 256](alpha, x, y)
