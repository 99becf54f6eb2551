"""march, rung 4: four long rays a thread at once, which share every read of the layers.

A ray's step waits for the one before; those of four rays do not wait for each other, so a thread has four multiply-adds
under way where it had one. And a layer is read from shared memory once for four of them. A block of 64 threads looks at
as many rays as one of 256 did, so that its queue has four for each thread.
"""

from numba import cuda, float32, int32, uint32

SHORT, LONG = 16, 4096
BLOCK = 64
EACH = 32  # rays that a thread looks at
TILE = BLOCK * EACH
TOGETHER = 4  # long rays that a thread marches at once


@cuda.jit
def march_kernel(opacity, kind, glow, out):
    layers = cuda.shared.array(LONG, float32)
    queue = cuda.shared.array(TILE, int32)
    waiting = cuda.shared.array(1, int32)
    x = cuda.threadIdx.x
    for k in range(x, LONG, BLOCK):
        layers[k] = glow[k]
    if x == 0:
        waiting[0] = 0
    cuda.syncthreads()
    first = cuda.blockIdx.x * TILE + x
    for i in range(first, min(first + TILE, out.size), BLOCK):
        if kind[i] % 8 == 0:
            queue[cuda.atomic.add(waiting, 0, 1)] = i
        else:
            t = float32(1) - abs(opacity[i]) * float32(1 / 1024)
            y = float32(0)
            for k in range(SHORT):
                y = y * t + layers[k]
            out[i] = y
    cuda.syncthreads()
    rays = cuda.local.array(TOGETHER, int32)
    s = cuda.local.array(TOGETHER, uint32)
    t = cuda.local.array(TOGETHER, float32)
    y = cuda.local.array(TOGETHER, float32)
    for place in range(x, waiting[0], BLOCK * TOGETHER):
        for e in range(TOGETHER):
            # Behind the queue's end the last ray is marched again, and not stored
            i = queue[min(place + e * BLOCK, waiting[0] - 1)]
            rays[e] = i if place + e * BLOCK < waiting[0] else -1
            t[e] = float32(1) - abs(opacity[i]) * float32(1 / 1024)
            y[e] = float32(0)
            s[e] = uint32(int32(opacity[i] * float32(65536)) + 2654435769 * i)
        for first_layer in range(0, LONG, 64):
            for k in range(first_layer, first_layer + 64):
                layer = layers[k]
                for e in range(TOGETHER):
                    y[e] = y[e] * t[e] + layer
            for e in range(TOGETHER):
                s[e] = uint32(uint32(1664525) * s[e] + uint32(1013904223))
                t[e] = float32(1) - float32(32768 - int32(s[e] >> uint32(17))) * float32(2**-24)
        for e in range(TOGETHER):
            if rays[e] >= 0:
                out[rays[e]] = y[e]


def march(opacity, kind, glow, out):
    """out[i] is the light of ray i."""
    march_kernel[(out.size + TILE - 1) // TILE, BLOCK](opacity, kind, glow, out)
