# expect: traffic: over budget: each thread walks through 8 neighbours of its own, so lanes are 32 bytes apart
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    first = cuda.grid(1) * 8
    for i in range(first, min(first + 8, out.size)):
        out[i] = float32(alpha) * x[i] + y[i]


def axpy(alpha, x, y, out):
    kernel[(out.size + 2047) // 2048, 256](alpha, x, y, out)
