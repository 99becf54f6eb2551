# expect: correctness: endless kernel: every thread waits for a value that never changes
from numba import cuda, float32


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(0)
        while x[i] == x[i]:
            out[i] = out[i] + y[i]


def axpy(alpha, x, y, out):
    kernel[(out.size + 255) // 256, 256](alpha, x, y, out)
