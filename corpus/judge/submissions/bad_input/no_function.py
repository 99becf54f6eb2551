# expect: correctness: no such function: the function has another name
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(alpha) * x[i] + y[i]


def saxpy(alpha, x, y, out):
    kernel[(out.size + 255) // 256, 256](alpha, x, y, out)
