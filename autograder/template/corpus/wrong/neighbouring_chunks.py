# expect: traffic: over budget: a thread's elements are neighbours, so those of a warp are not
from numba import cuda

EACH = 16


@cuda.jit
def kernel(x, out):
    first = cuda.grid(1) * EACH
    for i in range(first, min(first + EACH, out.size)):
        out[i] = x[i] + x[i]


def LAB_FUNCTION(x, out):
    kernel[(out.size + 128 * EACH - 1) // (128 * EACH), 128](x, out)
