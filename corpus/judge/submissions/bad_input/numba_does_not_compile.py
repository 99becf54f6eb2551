# expect: correctness: compile error: a name that does not exist, on line 9
from numba import cuda


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = alpha * x[i] + why[i]  # noqa: F821


def axpy(alpha, x, y, out):
    kernel[(out.size + 255) // 256, 256](alpha, x, y, out)
