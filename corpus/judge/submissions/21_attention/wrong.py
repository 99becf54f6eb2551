# submission: no_guard
# expect: safety: out of bounds: the last block has threads for elements that do not exist
from numba import cuda


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + x[i]


def attention(x, out):
    kernel[(out.size + 127) // 128, 128](x, out)


# submission: neighbouring_chunks
# expect: traffic: over budget: a thread's elements are neighbours, so those of a warp are not
from numba import cuda

EACH = 16


@cuda.jit
def kernel(x, out):
    first = cuda.grid(1) * EACH
    for i in range(first, min(first + EACH, out.size)):
        out[i] = x[i] + x[i]


def attention(x, out):
    kernel[(out.size + 128 * EACH - 1) // (128 * EACH), 128](x, out)


# submission: half_precision
# expect: correctness: wrong answer: the arithmetic is done in float16
# tests: tolerances
import numpy as np
from numba import cuda


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = np.float16(x[i]) + np.float16(x[i])


def attention(x, out):
    kernel[(out.size + 255) // 256, 256](x, out)
