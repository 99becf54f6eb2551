# expect: correctness: two runs disagree: each warp takes the next free place, whichever comes first
from numba import cuda, float32, int32

ALL = 0xFFFFFFFF


@cuda.jit
def zero(count):
    count[0] = int32(0)


@cuda.jit
def kernel(x, limit, out, count):
    taken = cuda.shared.array(1, int32)
    gathered = cuda.shared.array(4096, float32)
    place = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        taken[0] = 0
    cuda.syncthreads()
    lane = cuda.threadIdx.x % 32
    for e in range(16):
        i = cuda.blockIdx.x * 4096 + e * 256 + cuda.threadIdx.x
        kept = i < x.size and x[i] > float32(limit)
        mask = cuda.ballot_sync(ALL, kept)
        to = int32(0)
        if lane == 0:
            to = cuda.atomic.add(taken, 0, int32(cuda.popc(mask)))
        to = cuda.shfl_sync(ALL, to, 0)
        if kept:
            gathered[to + cuda.popc(mask & ((1 << lane) - 1))] = x[i]
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        place[0] = cuda.atomic.add(count, 0, taken[0])
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, taken[0], 256):
        out[place[0] + i] = gathered[i]


def compact(x, limit, out, count):
    zero[1, 1](count)
    kernel[(x.size + 4095) // 4096, 256](x, limit, out, count)
