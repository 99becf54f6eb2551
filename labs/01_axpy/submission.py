"""Lab 01_axpy: out = alpha * x + y."""

from numba import cuda

BLOCK = 256


@cuda.jit
def axpy_kernel(alpha, x, y, out):
    # x, y and out have out.size elements of float32. Compute this thread's share of them here.
    pass


def axpy(alpha, x, y, out):
    """out = alpha * x + y. alpha is a Python float; x, y and out are float32 vectors of one length, at least 1."""
    blocks = (out.size + BLOCK - 1) // BLOCK  # enough blocks for one thread an element
    axpy_kernel[blocks, BLOCK](alpha, x, y, out)
