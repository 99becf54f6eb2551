"""softmax, rung 1: one thread a row, three times along it: for the largest element, for the sum, for the result.

Neighbouring lanes read neighbouring rows, 4n bytes apart: every element comes in a sector of its own, three times.
"""

import math

from numba import cuda, float32

BLOCK = 128


@cuda.jit
def softmax_kernel(scale, x, mask, out):
    row = cuda.grid(1)
    m, n = x.shape
    if row >= m:
        return
    factor = float32(scale)
    largest = float32(-math.inf)
    for j in range(n):
        if mask[row, j] != 0:
            largest = max(largest, x[row, j] * factor)
    total = float32(0)
    for j in range(n):
        if mask[row, j] != 0:
            total += math.exp(x[row, j] * factor - largest)
    for j in range(n):
        out[row, j] = math.exp(x[row, j] * factor - largest) / total if mask[row, j] != 0 else float32(0)


def softmax(scale, x, mask, out):
    """Softmax along rows."""
    softmax_kernel[(x.shape[0] + BLOCK - 1) // BLOCK, BLOCK](scale, x, mask, out)
