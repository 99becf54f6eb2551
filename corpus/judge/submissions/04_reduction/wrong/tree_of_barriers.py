# expect: traffic: over budget: sums are halved in shared memory, with a barrier each time
from numba import cuda, float32

BLOCK, EACH = 256, 4
TILE = BLOCK * EACH


@cuda.jit
def zero(out):
    out[0] = float32(0)


@cuda.jit
def kernel(x, out):
    sums = cuda.shared.array(BLOCK, float32)
    lane = cuda.threadIdx.x
    first = cuda.blockIdx.x * TILE + lane
    s = float32(0)
    for i in range(first, min(first + TILE, x.size), BLOCK):
        s += x[i]
    sums[lane] = s
    cuda.syncthreads()
    half = BLOCK // 2
    while half > 0:
        if lane < half:
            sums[lane] += sums[lane + half]
        cuda.syncthreads()
        half //= 2
    if lane == 0:
        cuda.atomic.add(out, 0, sums[0])


def total(x, out):
    zero[1, 1](out)
    kernel[(x.size + TILE - 1) // TILE, BLOCK](x, out)
