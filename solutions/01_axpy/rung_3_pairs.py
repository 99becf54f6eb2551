"""axpy, rung 3: two elements a thread in one 64-bit access.

The vectors are seen as vectors of 64-bit words that hold two float32 each: half as many instructions for the same
bytes, and twice the bytes on the way. Numba has no vector types for float32, so the words are taken apart by hand. The
last element of an odd n is no whole word: one more thread does it.
"""

import numpy as np
from numba import cuda, float32, int32, uint32, uint64
from numba.cuda import libdevice

BLOCK = 256


@cuda.jit(device=True)
def low(word):
    return libdevice.int_as_float(int32(word))


@cuda.jit(device=True)
def high(word):
    return libdevice.int_as_float(int32(word >> uint64(32)))


@cuda.jit(device=True)
def pack(first, second):
    bits = uint32(libdevice.float_as_int(first)), uint32(libdevice.float_as_int(second))
    return uint64(bits[0]) | (uint64(bits[1]) << uint64(32))


@cuda.jit
def axpy_kernel(alpha, x, y, out, x2, y2, out2):
    scale = float32(alpha)
    i = cuda.grid(1)
    if i < out2.size:
        xs = x2[i]
        ys = y2[i]
        out2[i] = pack(scale * low(xs) + low(ys), scale * high(xs) + high(ys))
    elif i == out2.size and out.size % 2 == 1:
        last = out.size - 1
        out[last] = scale * x[last] + y[last]


def axpy(alpha, x, y, out):
    """out = alpha * x + y."""
    pairs = out.size // 2
    blocks = pairs // BLOCK + 1
    words = [v[: 2 * pairs].view(np.uint64) for v in (x, y, out)]
    axpy_kernel[blocks, BLOCK](alpha, x, y, out, *words)
