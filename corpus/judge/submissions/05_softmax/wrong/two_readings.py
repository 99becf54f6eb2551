# expect: traffic: over budget: the row is read a second time for the result
import math

from numba import cuda, float32

ALL = 0xFFFFFFFF


@cuda.jit
def kernel(scale, x, mask, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    n, factor = x.shape[1], float32(scale)
    largest, total = float32(-1e30), float32(0)
    for j in range(lane, n, 32):
        score = x[row, j] * factor if mask[row, j] != 0 else float32(-1e30)
        both = max(largest, score)
        total = total * math.exp(largest - both) + (math.exp(score - both) if score > float32(-1e30) else float32(0))
        largest = both
    for step in range(5):
        other, more = cuda.shfl_xor_sync(ALL, largest, 16 >> step), cuda.shfl_xor_sync(ALL, total, 16 >> step)
        both = max(largest, other)
        total = total * math.exp(largest - both) + more * math.exp(other - both)
        largest = both
    for j in range(lane, n, 32):
        out[row, j] = math.exp(x[row, j] * factor - largest) / total if mask[row, j] != 0 else float32(0)


def softmax(scale, x, mask, out):
    kernel[x.shape[0], 32](scale, x, mask, out)
