# expect: correctness: wrong answer: the result does not depend on the inputs
from numba import cuda, float32


@cuda.jit
def kernel(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(1)


def axpy(alpha, x, y, out):
    kernel[(out.size + 255) // 256, 256](out)
