"""Lab 21_attention: out = 2 * x."""

from numba import cuda

BLOCK = 256


@cuda.jit
def attention_kernel(x, out):
    # x and out have out.size elements of float32. Compute this thread's share of them here.
    pass


def attention(x, out):
    """out = 2 * x. x and out are float32 vectors of one length, at least 1."""
    blocks = (out.size + BLOCK - 1) // BLOCK  # enough blocks for one thread an element
    attention_kernel[blocks, BLOCK](x, out)
