# expect: safety: race: every block adds to out without an atomic
# on a GPU: correctness: wrong answer: every block adds to out without an atomic
from numba import cuda, float32

BLOCK, EACH = 256, 16
TILE = BLOCK * EACH


@cuda.jit
def zero(out):
    out[0] = float32(0)


@cuda.jit
def kernel(x, out):
    sums = cuda.shared.array(8, float32)
    first = cuda.blockIdx.x * TILE + cuda.threadIdx.x
    s = float32(0)
    for i in range(first, min(first + TILE, x.size), BLOCK):
        s += x[i]
    for step in range(5):
        s += cuda.shfl_down_sync(0xFFFFFFFF, s, 16 >> step)
    if cuda.threadIdx.x % 32 == 0:
        sums[cuda.threadIdx.x // 32] = s
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        s = float32(0)
        for w in range(8):
            s += sums[w]
        out[0] += s


def total(x, out):
    zero[1, 1](out)
    kernel[(x.size + TILE - 1) // TILE, BLOCK](x, out)
