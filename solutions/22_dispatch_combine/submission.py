"""Lab 22_dispatch_combine: tokens to the ranks of their experts, and weighted sums back."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
import numpy as np
from numba import cuda, float32, int32, uint32

from warplab import ptx

# STARTER:
# END SOLUTION
BLOCKS = 66  # per rank: all are on the GPU at once, and can wait for each other
THREADS = 256
# BEGIN SOLUTION
WARPS = THREADS // 32
TILE = 16  # tokens that one signal stands for
ROWS, SUMS = 0, 1  # what a signal says has come


@cuda.jit(device=True)
def goes_to(chosen, owner, token, rank, local):
    """Has a token of rank `owner` an expert on rank `rank`?"""
    found = False
    for j in range(chosen.shape[2]):
        found = found or chosen[owner, token, j] // local == rank
    return found


@cuda.jit(device=True)
def factor(chosen, weight, gain, owner, token, rank, local, i):
    """What the experts on rank `rank` multiply element i of a token by."""
    total = float32(0)
    for j in range(chosen.shape[2]):
        expert = chosen[owner, token, j]
        if expert // local == rank:
            total += weight[owner, token, j] * gain[expert, i]
    return total


@cuda.jit(device=True)
def signal(signals, rank, kind, tile):
    """Say to a rank that all that this block stored for a tile is there."""
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        ptx.store_release_4_system(ptx.address(signals, (rank * 2 + kind) * (signals.size // 4) + tile), uint32(1))


@cuda.jit(device=True)
def wait(signals, rank, kind, tile):
    """Wait until this rank has been sent that signal."""
    if cuda.threadIdx.x == 0:
        place = ptx.address(signals, (rank * 2 + kind) * (signals.size // 4) + tile)
        while ptx.load_acquire_4_system(place) == uint32(0):
            pass
    cuda.syncthreads()


# END SOLUTION


@cuda.jit
# BEGIN SOLUTION
# STARTER: def exchange_kernel(x, chosen, weight, gain, out):
# STARTER:     # Blocks with cuda.blockIdx.y == r are rank r. Send, compute, send back and add up here.
# STARTER:     pass
def exchange_kernel(x, chosen, weight, gain, out, inbox, sums, signals):
    warp, lane = int32(cuda.threadIdx.x // 32), int32(cuda.threadIdx.x % 32)
    rank, tokens, width = int32(cuda.blockIdx.y), int32(x.shape[1]), int32(x.shape[2])
    peer, local = int32(1 - rank), int32(gain.shape[0] // 2)
    tiles = (tokens + TILE - 1) // TILE
    for tile in range(cuda.blockIdx.x, tiles, BLOCKS):  # own tokens go to the peer, each once
        for token in range(tile * TILE + warp, min(tokens, (tile + 1) * TILE), WARPS):
            if goes_to(chosen, rank, token, peer, local):
                for i in range(lane, width, 32):
                    inbox[peer, token, i] = x[rank, token, i]
        signal(signals, peer, ROWS, tile)
    for tile in range(cuda.blockIdx.x, tiles, BLOCKS):  # the peer's tokens, and one sum each back
        wait(signals, rank, ROWS, tile)
        for token in range(tile * TILE + warp, min(tokens, (tile + 1) * TILE), WARPS):
            if goes_to(chosen, peer, token, rank, local):
                for i in range(lane, width, 32):
                    own = factor(chosen, weight, gain, peer, token, rank, local, i)
                    sums[peer, token, i] = own * inbox[rank, token, i]
        signal(signals, peer, SUMS, tile)
    for tile in range(cuda.blockIdx.x, tiles, BLOCKS):  # own tokens: the own experts' sum and the peer's
        wait(signals, rank, SUMS, tile)
        for token in range(tile * TILE + warp, min(tokens, (tile + 1) * TILE), WARPS):
            both = goes_to(chosen, rank, token, peer, local)
            for i in range(lane, width, 32):
                total = factor(chosen, weight, gain, rank, token, rank, local, i) * x[rank, token, i]
                if both:
                    total += sums[rank, token, i]
                out[rank, token, i] = total


# END SOLUTION


def dispatch_combine(x, chosen, weight, gain, out):
    """out[r, t]: the sum over choices j of weight[r, t, j] * gain[chosen[r, t, j]] * x[r, t]."""
    # BEGIN SOLUTION
    # STARTER: exchange_kernel[(BLOCKS, 2), THREADS](x, chosen, weight, gain, out)
    inbox = cuda.device_array(x.shape, np.float32)  # [rank]: rows that it was sent
    sums = cuda.device_array(x.shape, np.float32)  # [rank]: sums that came back to it
    tiles = (x.shape[1] + TILE - 1) // TILE
    signals = cuda.to_device(np.zeros(4 * tiles, np.uint32))  # [rank, kind, tile]
    exchange_kernel[(BLOCKS, 2), THREADS](x, chosen, weight, gain, out, inbox, sums, signals)
    # END SOLUTION
