"""dispatch_combine, rung 2: one launch with signals of system scope, one for all that a block sends.

A token still goes once for each of its choices on the other rank, and each choice's product comes back by itself.
"""

import numpy as np
from numba import cuda, float32, uint32

from warplab import ptx

BLOCKS = 66
THREADS = 256
WARPS = THREADS // 32
ROWS, PRODUCTS = 0, 1  # what a signal says has come


@cuda.jit(device=True)
def signal(signals, rank, kind):
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        place = ptx.address(signals, (rank * 2 + kind) * BLOCKS + cuda.blockIdx.x)
        ptx.store_release_4_system(place, uint32(1))


@cuda.jit(device=True)
def wait(signals, rank, kind):
    if cuda.threadIdx.x == 0:
        place = ptx.address(signals, (rank * 2 + kind) * BLOCKS + cuda.blockIdx.x)
        while ptx.load_acquire_4_system(place) == uint32(0):
            pass
    cuda.syncthreads()


@cuda.jit
def exchange_kernel(x, chosen, weight, gain, out, inbox, products, signals):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    rank, local, k = cuda.blockIdx.y, gain.shape[0] // 2, chosen.shape[2]
    peer = 1 - rank
    first, step = cuda.blockIdx.x * WARPS + warp, BLOCKS * WARPS
    for token in range(first, x.shape[1], step):
        for j in range(k):
            if chosen[rank, token, j] // local == peer:
                for i in range(lane, x.shape[2], 32):
                    inbox[peer, token * k + j, i] = x[rank, token, i]
    signal(signals, peer, ROWS)
    wait(signals, rank, ROWS)
    for token in range(first, x.shape[1], step):
        for j in range(k):
            expert = chosen[peer, token, j]
            if expert // local == rank:
                for i in range(lane, x.shape[2], 32):
                    products[peer, token * k + j, i] = gain[expert, i] * inbox[rank, token * k + j, i]
    signal(signals, peer, PRODUCTS)
    wait(signals, rank, PRODUCTS)
    for token in range(first, x.shape[1], step):
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
    signals = cuda.to_device(np.zeros(4 * BLOCKS, np.uint32))  # [rank, kind, block]
    exchange_kernel[(BLOCKS, 2), THREADS](x, chosen, weight, gain, out, inbox, products, signals)
