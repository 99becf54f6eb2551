# expect: all: passed: sums of blocks in float64 and in an order that never changes
from numba import cuda, float64

BLOCK = 256


@cuda.jit
def parts(x, sums):
    s = float64(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        s += x[i]
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for step in range(5):
        s += cuda.shfl_down_sync(0xFFFFFFFF, s, 16 >> step)
    if lane == 0:
        sums[warp] = s


@cuda.jit
def whole(sums, out):
    s = float64(0)
    for i in range(sums.size):
        s += sums[i]
    out[0] = s


def total(x, out):
    blocks = min(32, (x.size + BLOCK - 1) // BLOCK)
    sums = cuda.device_array(blocks * BLOCK // 32, "float64")
    parts[blocks, BLOCK](x, sums)
    whole[1, 1](sums, out)
