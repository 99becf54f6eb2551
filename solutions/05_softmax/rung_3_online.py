"""softmax, rung 3: largest element and sum in one go. Two readings instead of three.

The sum is kept relative to the largest element so far, and scaled again when a larger one comes: e^(s - new) =
e^(s - old) e^(old - new). Two lanes join their sums in the same way, and so do two warps. What remains is the second
reading, for which the row should have been kept.
"""

import math

from numba import cuda, float32

BLOCK = 128
ALL = 0xFFFFFFFF
NOTHING = float32(-1e30)  # below every score, and yet a number: nothing minus nothing is 0


@cuda.jit
def softmax_kernel(scale, x, mask, out):
    row, lane = cuda.grid(1) // 32, cuda.threadIdx.x % 32
    m, n = x.shape
    if row >= m:
        return
    factor = float32(scale)
    largest, total = NOTHING, float32(0)
    for j in range(lane, n, 32):
        if mask[row, j] != 0:
            score = x[row, j] * factor
            if score > largest:
                total *= math.exp(largest - score)
                largest = score
            total += math.exp(score - largest)
    for step in range(5):
        other_largest = cuda.shfl_xor_sync(ALL, largest, 16 >> step)
        other_total = cuda.shfl_xor_sync(ALL, total, 16 >> step)
        both = max(largest, other_largest)
        total = total * math.exp(largest - both) + other_total * math.exp(other_largest - both)
        largest = both
    for j in range(lane, n, 32):
        out[row, j] = math.exp(x[row, j] * factor - largest) / total if mask[row, j] != 0 else float32(0)


def softmax(scale, x, mask, out):
    """Softmax along rows."""
    softmax_kernel[(x.shape[0] * 32 + BLOCK - 1) // BLOCK, BLOCK](scale, x, mask, out)
