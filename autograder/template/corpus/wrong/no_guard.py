# expect: safety: out of bounds: the last block has threads for elements that do not exist
from numba import cuda


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + x[i]


def LAB_FUNCTION(x, out):
    kernel[(out.size + 127) // 128, 128](x, out)
