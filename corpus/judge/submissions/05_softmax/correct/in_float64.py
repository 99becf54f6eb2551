# expect: safety: passed: computes in float64, a warp a row, reading it three times
import math

from numba import cuda, float64


@cuda.jit
def kernel(scale, x, mask, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    largest = float64(-1e300)
    for j in range(lane, x.shape[1], 32):
        if mask[row, j] != 0:
            largest = max(largest, float64(x[row, j]) * scale)
    for step in range(5):
        largest = max(largest, cuda.shfl_xor_sync(0xFFFFFFFF, largest, 16 >> step))
    total = float64(0)
    for j in range(lane, x.shape[1], 32):
        if mask[row, j] != 0:
            total += math.exp(float64(x[row, j]) * scale - largest)
    for step in range(5):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 16 >> step)
    for j in range(lane, x.shape[1], 32):
        out[row, j] = math.exp(float64(x[row, j]) * scale - largest) / total if mask[row, j] != 0 else 0.0


def softmax(scale, x, mask, out):
    kernel[x.shape[0], 32](scale, x, mask, out)
