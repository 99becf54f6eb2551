"""softmax, rung 2: one warp a row, still three times along it.

Lanes read neighbours now, and shuffles join what they found. The same bytes are asked for three times; how often they
come from the memory depends on whether a row is still in a cache when it is wanted again.
"""

import math

from numba import cuda, float32

BLOCK = 128
ALL = 0xFFFFFFFF


@cuda.jit
def softmax_kernel(scale, x, mask, out):
    row, lane = cuda.grid(1) // 32, cuda.threadIdx.x % 32
    m, n = x.shape
    if row >= m:
        return
    factor = float32(scale)
    largest = float32(-math.inf)
    for j in range(lane, n, 32):
        if mask[row, j] != 0:
            largest = max(largest, x[row, j] * factor)
    for step in range(5):
        largest = max(largest, cuda.shfl_xor_sync(ALL, largest, 16 >> step))
    total = float32(0)
    for j in range(lane, n, 32):
        if mask[row, j] != 0:
            total += math.exp(x[row, j] * factor - largest)
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
    for j in range(lane, n, 32):
        out[row, j] = math.exp(x[row, j] * factor - largest) / total if mask[row, j] != 0 else float32(0)


def softmax(scale, x, mask, out):
    """Softmax along rows."""
    softmax_kernel[(x.shape[0] * 32 + BLOCK - 1) // BLOCK, BLOCK](scale, x, mask, out)
