"""dispatch_combine, rung 3: a token goes once to the other rank and one sum comes back, each with a signal of its own.

A warp signals for each token, so the signals themselves are 3% of what goes over the link.
"""

import numpy as np
from numba import cuda, float32, uint32

from warplab import ptx

BLOCKS = 66
THREADS = 256
WARPS = THREADS // 32
ROWS, SUMS = 0, 1  # what a signal says has come


@cuda.jit(device=True)
def goes_to(chosen, owner, token, rank, local):
    found = False
    for j in range(chosen.shape[2]):
        found = found or chosen[owner, token, j] // local == rank
    return found


@cuda.jit(device=True)
def factor(chosen, weight, gain, owner, token, rank, local, i):
    total = float32(0)
    for j in range(chosen.shape[2]):
        expert = chosen[owner, token, j]
        if expert // local == rank:
            total += weight[owner, token, j] * gain[expert, i]
    return total


@cuda.jit(device=True)
def signal(signals, rank, kind, tokens, token):
    cuda.syncwarp()
    if cuda.threadIdx.x % 32 == 0:
        ptx.store_release_4_system(ptx.address(signals, (rank * 2 + kind) * tokens + token), uint32(1))


@cuda.jit(device=True)
def wait(signals, rank, kind, tokens, token):
    if cuda.threadIdx.x % 32 == 0:
        place = ptx.address(signals, (rank * 2 + kind) * tokens + token)
        while ptx.load_acquire_4_system(place) == uint32(0):
            pass
    cuda.syncwarp()


@cuda.jit
def exchange_kernel(x, chosen, weight, gain, out, inbox, sums, signals):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    rank, local = cuda.blockIdx.y, gain.shape[0] // 2
    peer, tokens, width = 1 - rank, x.shape[1], x.shape[2]
    first, step = cuda.blockIdx.x * WARPS + warp, BLOCKS * WARPS
    for token in range(first, tokens, step):
        if goes_to(chosen, rank, token, peer, local):
            for i in range(lane, width, 32):
                inbox[peer, token, i] = x[rank, token, i]
            signal(signals, peer, ROWS, tokens, token)
    for token in range(first, tokens, step):
        if goes_to(chosen, peer, token, rank, local):
            wait(signals, rank, ROWS, tokens, token)
            for i in range(lane, width, 32):
                own = factor(chosen, weight, gain, peer, token, rank, local, i)
                sums[peer, token, i] = own * inbox[rank, token, i]
            signal(signals, peer, SUMS, tokens, token)
    for token in range(first, tokens, step):
        both = goes_to(chosen, rank, token, peer, local)
        if both:
            wait(signals, rank, SUMS, tokens, token)
        for i in range(lane, width, 32):
            total = factor(chosen, weight, gain, rank, token, rank, local, i) * x[rank, token, i]
            if both:
                total += sums[rank, token, i]
            out[rank, token, i] = total


def dispatch_combine(x, chosen, weight, gain, out):
    """out[r, t]: the sum over choices j of weight[r, t, j] * gain[chosen[r, t, j]] * x[r, t]."""
    inbox, sums = cuda.device_array(x.shape, np.float32), cuda.device_array(x.shape, np.float32)
    signals = cuda.to_device(np.zeros(4 * x.shape[1], np.uint32))  # [rank, kind, token]
    exchange_kernel[(BLOCKS, 2), THREADS](x, chosen, weight, gain, out, inbox, sums, signals)
