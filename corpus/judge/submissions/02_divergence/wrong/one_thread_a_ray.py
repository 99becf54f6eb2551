# expect: traffic: over budget: the lanes of short rays wait for those of long ones
from numba import cuda, float32, int32, uint32

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
        steps = LONG if kind[i] % 8 == 0 else 16
        s = uint32(int32(opacity[i] * float32(65536)) + 2654435769 * i)
        for first_layer in range(0, steps, 64):
            for k in range(first_layer, min(first_layer + 64, steps)):
                y = y * t + layers[k]
            s = uint32(uint32(1664525) * s + uint32(1013904223))
            t = float32(1) - float32(32768 - int32(s >> uint32(17))) * float32(2**-24)
        out[i] = y


def march(opacity, kind, glow, out):
    kernel[(out.size + TILE - 1) // TILE, BLOCK](opacity, kind, glow, out)
