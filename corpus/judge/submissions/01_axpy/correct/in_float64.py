# expect: all: passed: computing in float64 and rounding once is more precise than asked
from numba import cuda


@cuda.jit("void(float64, float32[::1], float32[::1], float32[::1])")
def kernel(alpha, x, y, out):
    start = cuda.grid(1)
    for i in range(start, x.shape[0], cuda.gridsize(1)):
        out[i] = alpha * x[i] + y[i]


def axpy(alpha, x, y, out):
    kernel[64, 192](alpha, x, y, out)
