# expect: correctness: wrong answer: the arithmetic is done in float16
# tests: tolerances
import numpy as np
from numba import cuda


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = np.float16(x[i]) + np.float16(x[i])


def LAB_FUNCTION(x, out):
    kernel[(out.size + 255) // 256, 256](x, out)
