"""total, rung 2: a block adds up its elements in shared memory, and only its sum goes to memory.

Half of the threads add, then a quarter, then an eighth, with a barrier each time: eight halvings for 256 elements.
There are 256 times fewer atomic additions; now the block spends its time at barriers, with ever fewer threads at work.
"""

from numba import cuda, float32

BLOCK = 256


@cuda.jit
def zero_kernel(out):
    out[0] = float32(0)


@cuda.jit
def total_kernel(x, out):
    sums = cuda.shared.array(BLOCK, float32)
    i, lane = cuda.grid(1), cuda.threadIdx.x
    sums[lane] = x[i] if i < x.size else float32(0)
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
    """out[0] is the sum of x."""
    zero_kernel[1, 1](out)
    total_kernel[(x.size + BLOCK - 1) // BLOCK, BLOCK](x, out)
