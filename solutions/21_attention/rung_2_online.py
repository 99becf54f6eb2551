"""attention, rung 2: online softmax. One pass over the keys, and no score in memory.

A warp has a query. Each lane holds two or four elements of the query, of the sums, and of each key and value. Five
shuffles add up the lanes' parts of a score. A new largest score shrinks the sums, as in lab 05.
"""

import math

from numba import cuda, float32
from numba.cuda.types import float16

BLOCK = 128
ALL = 0xFFFFFFFF
NOTHING = float32(-1e30)  # below every score, and yet a number
MOST = 4  # elements of a lane: heads of 128


@cuda.jit
def attention_kernel(q, k, v, causal, scale, out):
    i, lane, head = cuda.grid(1) // 32, cuda.threadIdx.x % 32, cuda.blockIdx.y
    n, d = q.shape[1], q.shape[2]
    if i >= n:
        return
    mine = cuda.local.array(MOST, float32)
    sums = cuda.local.array(MOST, float32)
    for e in range(MOST):
        at = lane + 32 * e
        mine[e] = float32(q[head, i, at]) * scale if at < d else float32(0)
        sums[e] = float32(0)
    largest, total = NOTHING, float32(0)
    for j in range(i + 1 if causal != 0 else n):
        score = float32(0)
        for e in range(MOST):
            if lane + 32 * e < d:
                score += mine[e] * float32(k[head, j, lane + 32 * e])
        for step in range(5):
            score += cuda.shfl_xor_sync(ALL, score, 16 >> step)
        new = max(largest, score)
        shrink, power = math.exp(largest - new), math.exp(score - new)
        largest = new
        total = total * shrink + power
        for e in range(MOST):
            if lane + 32 * e < d:
                sums[e] = sums[e] * shrink + power * float32(v[head, j, lane + 32 * e])
    for e in range(MOST):
        if lane + 32 * e < d:
            out[head, i, lane + 32 * e] = float16(sums[e] / total)


def attention(q, k, v, causal, out):
    """out = softmax(q k^T / sqrt(d)) v for each head; with causal != 0 query i sees keys 0 to i."""
    heads, n, d = q.shape
    attention_kernel[((n * 32 + BLOCK - 1) // BLOCK, heads), BLOCK](q, k, v, causal, float32(1 / math.sqrt(d)), out)
