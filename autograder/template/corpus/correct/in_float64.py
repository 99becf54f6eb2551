# expect: all: passed: computing in float64 and rounding once is more precise than asked
from numba import cuda, float64


@cuda.jit
def kernel(x, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = float64(2) * x[i]


def LAB_FUNCTION(x, out):
    kernel[64, 192](x, out)
