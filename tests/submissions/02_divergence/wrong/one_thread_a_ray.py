# expect: traffic: over budget: the lanes of short rays wait for those of long ones
from numba import cuda, float32

LONG, BLOCK, TILE = 4096, 256, 2048


@cuda.jit
def kernel(opacity, kind, glow, out):
    layers = cuda.shared.array(LONG, float32)
    for k in range(cuda.threadIdx.x, LONG, BLOCK):
        layers[k] = glow[k]
    cuda.syncthreads()
    first = cuda.blockIdx.x * TILE
    for i in range(first + cuda.threadIdx.x, min(first + TILE, out.size), BLOCK):
        t = float32(1) - abs(opacity[i]) * float32(1 / 1024)
        y = float32(0)
        for k in range(LONG if kind[i] % 8 == 0 else 16):
            y = y * t + layers[k]
        out[i] = y


def march(opacity, kind, glow, out):
    kernel[(out.size + TILE - 1) // TILE, BLOCK](opacity, kind, glow, out)
