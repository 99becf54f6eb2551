"""axpy, rung 1: one element a thread.

Right, and coalesced: the 32 lanes of a warp read 128 neighbouring bytes. But a thread asks for two numbers, waits,
writes one and is gone. With 2,048 threads an SM that is 16 KB on the way at any time, less than the memory of a large
GPU needs to be kept busy (Little's law: bandwidth times latency).
"""

from numba import cuda, float32

BLOCK = 256


@cuda.jit
def axpy_kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(alpha) * x[i] + y[i]


def axpy(alpha, x, y, out):
    """out = alpha * x + y."""
    blocks = (out.size + BLOCK - 1) // BLOCK
    axpy_kernel[blocks, BLOCK](alpha, x, y, out)
