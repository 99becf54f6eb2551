# expect: safety: passed: the largest score is found first, then all scores are computed again
import math

from numba import cuda, float32
from numba.cuda.types import float16


@cuda.jit
def kernel(q, k, v, causal, scale, out):
    i, head = cuda.grid(1), cuda.blockIdx.y
    n, d = q.shape[1], q.shape[2]
    if i >= n:
        return
    end = i + 1 if causal != 0 else n
    largest = float32(-1e30)
    for j in range(end):
        score = float32(0)
        for e in range(d):
            score += float32(q[head, i, e]) * float32(k[head, j, e])
        largest = max(largest, score)
    sums = cuda.local.array(128, float32)
    for e in range(d):
        sums[e] = float32(0)
    total = float32(0)
    for j in range(end):
        score = float32(0)
        for e in range(d):
            score += float32(q[head, i, e]) * float32(k[head, j, e])
        power = math.exp((score - largest) * scale)
        total += power
        for e in range(d):
            sums[e] += power * float32(v[head, j, e])
    for e in range(d):
        out[head, i, e] = float16(sums[e] / total)


def attention(q, k, v, causal, out):
    heads, n, d = q.shape
    kernel[((n + 31) // 32, heads), 32](q, k, v, causal, float32(1 / math.sqrt(d)), out)
