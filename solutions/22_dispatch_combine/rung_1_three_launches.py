"""dispatch_combine, rung 1: three launches, each of which waits for all blocks of the one before.

On one GPU the end of a launch is a barrier of both ranks. Two GPUs have none. A token is sent once for each of its
choices on the other rank, and each choice's product comes back by itself.
"""

import numpy as np
from numba import cuda, float32

BLOCKS = 66
THREADS = 256
WARPS = THREADS // 32


@cuda.jit
def send_kernel(x, chosen, inbox, local):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    rank, k = cuda.blockIdx.y, chosen.shape[2]
    for token in range(cuda.blockIdx.x * WARPS + warp, x.shape[1], BLOCKS * WARPS):
        for j in range(k):
            if chosen[rank, token, j] // local != rank:
                for i in range(lane, x.shape[2], 32):
                    inbox[1 - rank, token * k + j, i] = x[rank, token, i]


@cuda.jit
def work_kernel(chosen, gain, inbox, products, local):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    rank, k = cuda.blockIdx.y, chosen.shape[2]
    for token in range(cuda.blockIdx.x * WARPS + warp, chosen.shape[1], BLOCKS * WARPS):
        for j in range(k):
            expert = chosen[1 - rank, token, j]
            if expert // local == rank:
                for i in range(lane, gain.shape[1], 32):
                    products[1 - rank, token * k + j, i] = gain[expert, i] * inbox[rank, token * k + j, i]


@cuda.jit
def add_kernel(x, chosen, weight, gain, products, out, local):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    rank, k = cuda.blockIdx.y, chosen.shape[2]
    for token in range(cuda.blockIdx.x * WARPS + warp, x.shape[1], BLOCKS * WARPS):
        for i in range(lane, x.shape[2], 32):
            total = float32(0)
            for j in range(k):
                expert = chosen[rank, token, j]
                if expert // local == rank:
                    total += weight[rank, token, j] * (gain[expert, i] * x[rank, token, i])
                else:
                    total += weight[rank, token, j] * products[rank, token * k + j, i]
            out[rank, token, i] = total


def dispatch_combine(x, chosen, weight, gain, out):
    """out[r, t]: the sum over choices j of weight[r, t, j] * gain[chosen[r, t, j]] * x[r, t]."""
    _, tokens, k = chosen.shape
    shape = (2, tokens * k, x.shape[2])
    inbox, products = cuda.device_array(shape, np.float32), cuda.device_array(shape, np.float32)
    local = gain.shape[0] // 2
    send_kernel[(BLOCKS, 2), THREADS](x, chosen, inbox, local)
    work_kernel[(BLOCKS, 2), THREADS](chosen, gain, inbox, products, local)
    add_kernel[(BLOCKS, 2), THREADS](x, chosen, weight, gain, products, out, local)
