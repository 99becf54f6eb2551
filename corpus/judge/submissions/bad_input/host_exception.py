# expect: correctness: host error: an exception in the host function, on line 8
from numba import cuda


def axpy(alpha, x, y, out):
    blocks = {}
    n = out.size
    cuda.synchronize(blocks["threads"] * n)
