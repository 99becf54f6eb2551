"""attention, rung 1: three launches, with all scores in memory.

A thread computes a score, a warp makes weights of a row of them, and a thread sums up an element of the result. The
matrix of a head, 4 n^2 bytes, is written three times and read four times.
"""

import math

from numba import cuda, float32
from numba.cuda.types import float16

BLOCK = 128
ALL = 0xFFFFFFFF
NOTHING = float32(-1e30)


@cuda.jit
def scores_kernel(q, k, causal, scale, scores):
    j, i, head = cuda.grid(1), cuda.blockIdx.y, cuda.blockIdx.z
    n, d = q.shape[1], q.shape[2]
    if j >= n:
        return
    total = float32(0)
    for e in range(d):
        total += float32(q[head, i, e]) * float32(k[head, j, e])
    scores[head, i, j] = NOTHING if causal != 0 and j > i else total * scale


@cuda.jit
def softmax_kernel(scores):
    i, lane, head = cuda.grid(1) // 32, cuda.threadIdx.x % 32, cuda.blockIdx.y
    n = scores.shape[1]
    if i >= n:
        return
    largest = NOTHING
    for j in range(lane, n, 32):
        largest = max(largest, scores[head, i, j])
    for step in range(5):
        largest = max(largest, cuda.shfl_xor_sync(ALL, largest, 16 >> step))
    total = float32(0)
    for j in range(lane, n, 32):
        power = math.exp(scores[head, i, j] - largest)
        scores[head, i, j] = power
        total += power
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
    for j in range(lane, n, 32):
        scores[head, i, j] /= total


@cuda.jit
def values_kernel(weights, v, out):
    e, i, head = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.y
    total = float32(0)
    for j in range(v.shape[1]):
        total += weights[head, i, j] * float32(v[head, j, e])
    out[head, i, e] = float16(total)


def attention(q, k, v, causal, out):
    """out = softmax(q k^T / sqrt(d)) v for each head; with causal != 0 query i sees keys 0 to i."""
    heads, n, d = q.shape
    scores = cuda.device_array((heads, n, n), "float32")
    scale = float32(1 / math.sqrt(d))
    scores_kernel[((n + BLOCK - 1) // BLOCK, n, heads), BLOCK](q, k, causal, scale, scores)
    softmax_kernel[((n * 32 + BLOCK - 1) // BLOCK, heads), BLOCK](scores)
    values_kernel[(n, heads), d](scores, v, out)
