"""march, rung 1: one thread a ray, and a branch for the two kinds.

Of 32 rays nearly always one is long (the chance of none is (7/8)^32, 1.4%), so nearly every warp runs both loops: 16
steps with most lanes, then 4,096 with about four of them, while 28 wait.
"""

from numba import cuda, float32, int32, uint32

SHORT, LONG = 16, 4096


@cuda.jit
def march_kernel(opacity, kind, glow, out):
    i = cuda.grid(1)
    if i < out.size:
        t = float32(1) - abs(opacity[i]) * float32(1 / 1024)
        y = float32(0)
        if kind[i] % 8 == 0:
            s = uint32(int32(opacity[i] * float32(65536)) + 2654435769 * i)
            for first_layer in range(0, LONG, 64):
                for k in range(first_layer, first_layer + 64):
                    y = y * t + glow[k]
                s = uint32(uint32(1664525) * s + uint32(1013904223))
                t = float32(1) - float32(32768 - int32(s >> uint32(17))) * float32(2**-24)
        else:
            for k in range(SHORT):
                y = y * t + glow[k]
        out[i] = y


def march(opacity, kind, glow, out):
    """out[i] is the light of ray i."""
    march_kernel[(out.size + 255) // 256, 256](opacity, kind, glow, out)
