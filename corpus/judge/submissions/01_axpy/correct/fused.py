# expect: all: passed: a fused multiply-add rounds once instead of twice, and a block strides over the vector
import math

from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    scale = float32(alpha)
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = cuda.fma(scale, x[i], y[i])


def axpy(alpha, x, y, out):
    kernel[min(1024, math.ceil(out.size / 128)), 128](alpha, x, y, out)
