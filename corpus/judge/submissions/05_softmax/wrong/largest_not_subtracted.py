# expect: correctness: wrong answer: large scores overflow
# tests: seeds
import math

from numba import cuda, float32

BLOCK, EACH = 128, 32


@cuda.jit
def kernel(scale, x, mask, out):
    largests = cuda.shared.array(4, float32)
    totals = cuda.shared.array(4, float32)
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    n = x.shape[1]
    scores = cuda.local.array(EACH, float32)
    largest = float32(-1e30)
    for e in range(EACH):
        j = e * BLOCK + lane
        scores[e] = float32(-1e30)
        if j < n and mask[row, j] != 0:
            scores[e] = x[row, j] * float32(scale)
        largest = max(largest, scores[e])
    for step in range(5):
        largest = max(largest, cuda.shfl_xor_sync(0xFFFFFFFF, largest, 16 >> step))
    if lane % 32 == 0:
        largests[lane // 32] = largest
    cuda.syncthreads()
    largest = max(max(largests[0], largests[1]), max(largests[2], largests[3]))
    total = float32(0)
    for e in range(EACH):
        scores[e] = math.exp(scores[e]) if scores[e] > float32(-1e30) else float32(0)
        total += scores[e]
    for step in range(5):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 16 >> step)
    if lane % 32 == 0:
        totals[lane // 32] = total
    cuda.syncthreads()
    total = (totals[0] + totals[1]) + (totals[2] + totals[3])
    for e in range(EACH):
        j = e * BLOCK + lane
        if j < n:
            out[row, j] = scores[e] / total if total > 0 else float32(0)


@cuda.jit
def any_length(scale, x, mask, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    largest = float32(-1e30)
    for j in range(lane, x.shape[1], 32):
        if mask[row, j] != 0:
            largest = max(largest, x[row, j] * float32(scale))
    for step in range(5):
        largest = max(largest, cuda.shfl_xor_sync(0xFFFFFFFF, largest, 16 >> step))
    total = float32(0)
    for j in range(lane, x.shape[1], 32):
        if mask[row, j] != 0:
            total += math.exp(x[row, j] * float32(scale) - largest)
    for step in range(5):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 16 >> step)
    for j in range(lane, x.shape[1], 32):
        out[row, j] = math.exp(x[row, j] * float32(scale) - largest) / total if mask[row, j] != 0 else float32(0)


def softmax(scale, x, mask, out):
    if x.shape[1] <= BLOCK * EACH:
        kernel[x.shape[0], BLOCK](scale, x, mask, out)
    else:
        any_length[x.shape[0], 32](scale, x, mask, out)
