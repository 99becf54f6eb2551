"""Lab 22_dispatch_combine: tokens to the ranks of their experts, and weighted sums back."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
import numpy as np
from numba import cuda, float32, int32, uint32
from numba.cuda import libdevice

from warplab import ptx

# STARTER:
# END SOLUTION
BLOCKS = 66  # per rank: all are on the GPU at once, and can wait for each other
THREADS = 256
# BEGIN SOLUTION
WARPS = THREADS // 32
TILE = 16  # tokens that one signal stands for
MOST = 8  # choices of a token
ROWS, SUMS = 0, 1  # what a signal says has come


@cuda.jit(device=True)
def look_up(chosen, weight, owner, token, rank, local, experts, factors):
    """Has a token of rank `owner` experts on rank `rank`? Which, else -1, and their weights."""
    found = False
    for j in range(MOST):
        experts[j] = int32(-1)
        if j < chosen.shape[2]:
            expert = chosen[owner, token, j]
            if expert // local == rank:
                found = True
                experts[j] = expert
                factors[j] = weight[owner, token, j]
    return found


@cuda.jit(device=True)
def worked(row, gain, experts, factors, i):
    """What the experts that were looked up make of four elements of a row, from element i on."""
    a, b, c, d = float32(0), float32(0), float32(0), float32(0)
    for j in range(MOST):
        if experts[j] >= 0:
            of = ptx.load_global_16(ptx.address(gain, experts[j] * int32(gain.shape[1]) + i))
            a += factors[j] * libdevice.int_as_float(int32(of[0]))
            b += factors[j] * libdevice.int_as_float(int32(of[1]))
            c += factors[j] * libdevice.int_as_float(int32(of[2]))
            d += factors[j] * libdevice.int_as_float(int32(of[3]))
    return (
        a * libdevice.int_as_float(int32(row[0])),
        b * libdevice.int_as_float(int32(row[1])),
        c * libdevice.int_as_float(int32(row[2])),
        d * libdevice.int_as_float(int32(row[3])),
    )


@cuda.jit(device=True)
def bits(x):
    return uint32(libdevice.float_as_int(x))


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
    experts, factors = cuda.local.array(MOST, int32), cuda.local.array(MOST, float32)
    for tile in range(cuda.blockIdx.x, tiles, BLOCKS):  # own tokens go to the peer, each once
        for token in range(tile * TILE + warp, min(tokens, (tile + 1) * TILE), WARPS):
            if look_up(chosen, weight, rank, token, peer, local, experts, factors):
                here, there = (rank * tokens + token) * width, (peer * tokens + token) * width
                for i in range(4 * lane, width, 128):
                    row = ptx.load_global_16(ptx.address(x, here + i))
                    ptx.store_global_16(ptx.address(inbox, there + i), row)
        signal(signals, peer, ROWS, tile)
    for tile in range(cuda.blockIdx.x, tiles, BLOCKS):  # the peer's tokens, and one sum each back
        wait(signals, rank, ROWS, tile)
        for token in range(tile * TILE + warp, min(tokens, (tile + 1) * TILE), WARPS):
            if look_up(chosen, weight, peer, token, rank, local, experts, factors):
                here, there = (rank * tokens + token) * width, (peer * tokens + token) * width
                for i in range(4 * lane, width, 128):
                    row = ptx.load_global_16(ptx.address(inbox, here + i))
                    a, b, c, d = worked(row, gain, experts, factors, i)
                    ptx.store_global_16(ptx.address(sums, there + i), (bits(a), bits(b), bits(c), bits(d)))
        signal(signals, peer, SUMS, tile)
    for tile in range(cuda.blockIdx.x, tiles, BLOCKS):  # own tokens: the own experts' sum and the peer's
        wait(signals, rank, SUMS, tile)
        for token in range(tile * TILE + warp, min(tokens, (tile + 1) * TILE), WARPS):
            both = look_up(chosen, weight, rank, token, peer, local, experts, factors)
            look_up(chosen, weight, rank, token, rank, local, experts, factors)
            here = (rank * tokens + token) * width
            for i in range(4 * lane, width, 128):
                row = ptx.load_global_16(ptx.address(x, here + i))
                a, b, c, d = worked(row, gain, experts, factors, i)
                if both:
                    back = ptx.load_global_16(ptx.address(sums, here + i))
                    a += libdevice.int_as_float(int32(back[0]))
                    b += libdevice.int_as_float(int32(back[1]))
                    c += libdevice.int_as_float(int32(back[2]))
                    d += libdevice.int_as_float(int32(back[3]))
                ptx.store_global_16(ptx.address(out, here + i), (bits(a), bits(b), bits(c), bits(d)))


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
