# expect: traffic: over budget: blocks begin half a block apart, so every element is computed twice
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.blockIdx.x * (cuda.blockDim.x // 2) + cuda.threadIdx.x
    if i < out.size:
        out[i] = float32(alpha) * x[i] + y[i]


def axpy(alpha, x, y, out):
    kernel[(out.size + 127) // 128, 256](alpha, x, y, out)
