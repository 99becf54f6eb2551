"""Lab 01_axpy: out = alpha * x + y."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from numba import cuda, float32

# STARTER:
# END SOLUTION
BLOCK = 256
# BEGIN SOLUTION
EACH = 4  # elements a thread
TILE = BLOCK * EACH  # elements a block
# END SOLUTION


@cuda.jit
def axpy_kernel(alpha, x, y, out):
    # BEGIN SOLUTION
    # STARTER: # x, y and out have out.size elements of float32. Compute this thread's share of them here.
    # STARTER: pass
    first = cuda.blockIdx.x * TILE + cuda.threadIdx.x
    scale = float32(alpha)  # a Python float arrives as float64: without this the product would be computed in float64
    if (cuda.blockIdx.x + 1) * TILE <= out.size:
        # All loads before the first store: the compiler must assume that a store changes what is loaded after it.
        xs = cuda.local.array(EACH, float32)
        ys = cuda.local.array(EACH, float32)
        for e in range(EACH):
            xs[e] = x[first + e * BLOCK]
            ys[e] = y[first + e * BLOCK]
        for e in range(EACH):
            out[first + e * BLOCK] = scale * xs[e] + ys[e]
    else:
        for i in range(first, out.size, BLOCK):
            out[i] = scale * x[i] + y[i]
    # END SOLUTION


def axpy(alpha, x, y, out):
    """out = alpha * x + y. alpha is a Python float; x, y and out are float32 vectors of one length, at least 1."""
    # BEGIN SOLUTION
    # STARTER: blocks = (out.size + BLOCK - 1) // BLOCK  # enough blocks for one thread an element
    blocks = (out.size + TILE - 1) // TILE
    # END SOLUTION
    axpy_kernel[blocks, BLOCK](alpha, x, y, out)
