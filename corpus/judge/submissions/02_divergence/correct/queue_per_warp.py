# expect: all: passed: every warp has a queue of its own, filled by ballots instead of atomics
from numba import cuda, float32, int32, uint32

LONG, BLOCK, WARPS, LOOK = 4096, 256, 8, 256


@cuda.jit
def kernel(opacity, kind, glow, out):
    layers = cuda.shared.array(LONG, float32)
    queues = cuda.shared.array((WARPS, LOOK), int32)
    for k in range(cuda.threadIdx.x, LONG, BLOCK):
        layers[k] = glow[k]
    cuda.syncthreads()
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    first = (cuda.blockIdx.x * WARPS + warp) * LOOK
    waiting = 0
    for i in range(first + lane, first + LOOK, 32):
        is_long = i < out.size and kind[i] % 8 == 0
        votes = cuda.ballot_sync(0xFFFFFFFF, is_long)
        if is_long:
            queues[warp, waiting + cuda.popc(uint32(votes) & uint32((1 << lane) - 1))] = i
        elif i < out.size:
            t = float32(1) - abs(opacity[i]) / float32(1024)
            y = float32(0)
            for k in range(16):
                y = y * t + layers[k]
            out[i] = y
        waiting += cuda.popc(uint32(votes))
    cuda.syncwarp()
    for place in range(lane, waiting, 32):
        i = queues[warp, place]
        t = float32(1) - abs(opacity[i]) / float32(1024)
        y = float32(0)
        s = uint32(int32(opacity[i] * float32(65536)) + 2654435769 * i)
        for first_layer in range(0, LONG, 64):
            for k in range(first_layer, first_layer + 64):
                y = y * t + layers[k]
            s = uint32(uint32(1664525) * s + uint32(1013904223))
            t = float32(1) - float32(32768 - int32(s >> uint32(17))) * float32(2**-24)
        out[i] = y


def march(opacity, kind, glow, out):
    rays = WARPS * LOOK
    kernel[(out.size + rays - 1) // rays, BLOCK](opacity, kind, glow, out)
