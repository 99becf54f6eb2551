"""Reverses blocks of 64 elements, for `warplab.run`."""

import numpy as np
from numba import cuda, float32

BLOCK = 64


@cuda.jit
def reverse_kernel(x, out):
    tile = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        tile[t] = x[i]
    cuda.syncthreads()
    if i < x.size:
        out[i] = tile[BLOCK - 1 - t]


def main(x):
    """Every 64 elements of x in the reverse order."""
    out = cuda.device_array(x.shape, np.float32)
    reverse_kernel[(x.size + BLOCK - 1) // BLOCK, BLOCK](x, out)
    return out.copy_to_host()


ARGUMENTS = (np.arange(256, dtype=np.float32),)
