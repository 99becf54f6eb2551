# expect: safety: out of bounds: <= lets one thread past the end of the vectors
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i <= out.size:
        out[i] = float32(alpha) * x[i] + y[i]


def axpy(alpha, x, y, out):
    kernel[(out.size + 255) // 256, 256](alpha, x, y, out)
