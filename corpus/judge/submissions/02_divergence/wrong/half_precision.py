# expect: correctness: wrong answer: rays march in float16
# tests: tolerances
import numpy as np
from numba import cuda, float32, int32, uint32

LONG, BLOCK, TILE = 4096, 256, 2048


@cuda.jit
def kernel(opacity, kind, glow, out):
    layers = cuda.shared.array(LONG, float32)
    queue = cuda.shared.array(TILE, int32)
    waiting = cuda.shared.array(1, int32)
    x = cuda.threadIdx.x
    for k in range(x, LONG, BLOCK):
        layers[k] = glow[k]
    if x == 0:
        waiting[0] = 0
    cuda.syncthreads()
    first = cuda.blockIdx.x * TILE
    for i in range(first + x, min(first + TILE, out.size), BLOCK):
        if kind[i] % 8 == 0:
            queue[cuda.atomic.add(waiting, 0, 1)] = i
        else:
            t = float32(1) - abs(opacity[i]) * float32(1 / 1024)
            y = np.float16(0)
            for k in range(16):
                y = np.float16(y * np.float16(t) + np.float16(layers[k]))
            out[i] = y
    cuda.syncthreads()
    for place in range(x, waiting[0], BLOCK):
        i = queue[place]
        t = float32(1) - abs(opacity[i]) * float32(1 / 1024)
        y = np.float16(0)
        s = uint32(int32(opacity[i] * float32(65536)) + 2654435769 * i)
        for first_layer in range(0, LONG, 64):
            for k in range(first_layer, first_layer + 64):
                y = np.float16(y * np.float16(t) + np.float16(layers[k]))
            s = uint32(uint32(1664525) * s + uint32(1013904223))
            t = float32(1) - float32(32768 - int32(s >> uint32(17))) * float32(2**-24)
        out[i] = y


def march(opacity, kind, glow, out):
    kernel[(out.size + TILE - 1) // TILE, BLOCK](opacity, kind, glow, out)
