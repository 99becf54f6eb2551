"""Lab 04_reduction: out[0] = the sum of x."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from numba import cuda, float32

# STARTER:
# END SOLUTION
BLOCK = 256
# BEGIN SOLUTION
# STARTER:
# STARTER:
WARPS = BLOCK // 32
EACH = 16  # elements that a thread asks for before it uses the first
TILE = BLOCK * EACH
ALL = 0xFFFFFFFF  # lanes that take part in a shuffle


@cuda.jit
def zero_kernel(out):
    out[0] = float32(0)


# END SOLUTION
@cuda.jit
def total_kernel(x, out):
    # BEGIN SOLUTION
    # STARTER: # x has x.size elements of float32, out has one. Add this block's share of x to it here.
    # STARTER: pass
    sums = cuda.shared.array(WARPS, float32)
    first = cuda.blockIdx.x * TILE + cuda.threadIdx.x
    s = float32(0)
    if (cuda.blockIdx.x + 1) * TILE <= x.size:
        parts = cuda.local.array(EACH, float32)
        for e in range(EACH):
            parts[e] = x[first + e * BLOCK]
        for e in range(EACH):
            s += parts[e]
    else:
        for i in range(first, x.size, BLOCK):
            s += x[i]
    for step in range(5):  # 32 lanes, then 16, 8, 4, 2
        s += cuda.shfl_down_sync(ALL, s, 16 >> step)
    if cuda.threadIdx.x % 32 == 0:
        sums[cuda.threadIdx.x // 32] = s
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        s = float32(0)
        for w in range(WARPS):
            s += sums[w]
        cuda.atomic.add(out, 0, s)
    # END SOLUTION


def total(x, out):
    """out[0] = the sum of x. x is a float32 vector of at least one element, out one of exactly one."""
    # BEGIN SOLUTION
    # STARTER: blocks = (x.size + BLOCK - 1) // BLOCK
    zero_kernel[1, 1](out)
    blocks = (x.size + TILE - 1) // TILE
    # END SOLUTION
    total_kernel[blocks, BLOCK](x, out)
