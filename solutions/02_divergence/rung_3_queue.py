"""march, rung 3: long rays are put into a queue in shared memory, and then marched by full warps.

All lanes of a warp now do the same: the short rays first, then up to 32 long ones. What is left is a matter of the
pipeline. A step needs the one before, four cycles ago, and there is a read of shared memory for every multiply-add.
"""

from numba import cuda, float32, int32, uint32

SHORT, LONG = 16, 4096
BLOCK = 256
EACH = 8  # rays that a thread looks at
TILE = BLOCK * EACH


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
    for place in range(x, waiting[0], BLOCK):
        i = queue[place]
        t = float32(1) - abs(opacity[i]) * float32(1 / 1024)
        y = float32(0)
        s = uint32(int32(opacity[i] * float32(65536)) + 2654435769 * i)
        for first_layer in range(0, LONG, 64):
            for k in range(first_layer, first_layer + 64):
                y = y * t + layers[k]
            s = uint32(uint32(1664525) * s + uint32(1013904223))
            t = float32(1) - float32(32768 - int32(s >> uint32(17))) * float32(2**-24)
        out[i] = y


def march(opacity, kind, glow, out):
    """out[i] is the light of ray i."""
    march_kernel[(out.size + TILE - 1) // TILE, BLOCK](opacity, kind, glow, out)
