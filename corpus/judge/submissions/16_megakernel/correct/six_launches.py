# expect: safety: passed: Numba, without an interpreter: a launch for each operation, a thread for each row
import math

import numpy as np
from numba import cuda, float32


@cuda.jit
def units_kernel(stream, gain, gate, up, units):
    row = cuda.grid(1)
    if row < units.size:
        squares, g, u = float32(0), float32(0), float32(0)
        for i in range(stream.size):
            n = stream[i] * gain[i]
            squares += stream[i] * stream[i]
            g += float32(gate[row, i]) * n
            u += float32(up[row, i]) * n
        root = math.sqrt(squares / float32(stream.size) + float32(1e-5))
        g /= root
        u /= root
        units[row] = g / (float32(1) + math.exp(-g)) * u


@cuda.jit
def down_kernel(stream, down, units, y):
    row = cuda.grid(1)
    if row < y.size:
        total = stream[row]
        for i in range(units.size):
            total += float32(down[row, i]) * units[i]
        y[row] = total


def feed_forward(x, gain, gate, up, down, y):
    layers, hidden, width = gate.shape
    units = cuda.device_array(hidden, np.float32)
    for layer in range(layers):
        stream = y if layer else x
        units_kernel[(hidden + 63) // 64, 64](stream, gain[layer], gate[layer], up[layer], units)
        down_kernel[(width + 63) // 64, 64](stream, down[layer], units, y)
