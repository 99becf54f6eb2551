"""Lab LAB_NAME: out = 2 * x."""

from numba import cuda

BLOCK = 256


@cuda.jit
def LAB_FUNCTION_kernel(x, out):
    # BEGIN SOLUTION
    # STARTER: # x and out have out.size elements of float32. Compute this thread's share of them here.
    # STARTER: pass
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + x[i]
    # END SOLUTION


def LAB_FUNCTION(x, out):
    """out = 2 * x. x and out are float32 vectors of one length, at least 1."""
    blocks = (out.size + BLOCK - 1) // BLOCK  # enough blocks for one thread an element
    LAB_FUNCTION_kernel[blocks, BLOCK](x, out)
