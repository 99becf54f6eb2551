# expect: all: passed: whole blocks and the rest are launched one after the other
from numba import cuda, float32


@cuda.jit(device=True)
def step(scale, value, addend):
    return scale * value + addend


@cuda.jit
def kernel(alpha, x, y, out):
    i = cuda.grid(1)
    out[i] = step(float32(alpha), x[i], y[i])


def axpy(alpha, x, y, out):
    whole = out.size // 512 * 512
    if whole:
        kernel[whole // 512, 512](alpha, x[:whole], y[:whole], out[:whole])
    if whole < out.size:
        kernel[1, out.size - whole](alpha, x[whole:], y[whole:], out[whole:])
