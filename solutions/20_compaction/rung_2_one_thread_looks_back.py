"""compact, rung 2: one pass, in which the first thread of a block adds up the tiles before it, one after the other.

x is read once. A tile has 256 elements, so there are many tickets and flags, and a block waits while one thread looks
back: each step is a round trip to L2.
"""

import numpy as np
from numba import cuda, float32, int32, uint64

from warplab import ptx

BLOCK = 256
WARPS = BLOCK // 32
ALL = 0xFFFFFFFF
EMPTY, SUM, PREFIX = uint64(0), uint64(1 << 32), uint64(2 << 32)  # what a tile's word is; its lower half is a number
KIND, NUMBER = uint64(3 << 32), uint64(0xFFFFFFFF)


@cuda.jit
def clear_kernel(words):
    i = cuda.grid(1)
    if i < words.size:
        words[i] = uint64(0)


@cuda.jit(device=True)
def before(words, tile):
    """How many elements the tiles before this one keep."""
    total = uint64(0)
    for at in range(tile - 1, -1, -1):
        word = EMPTY
        while word & KIND == EMPTY:
            word = ptx.load_relaxed_8(ptx.address(words, at))
        total += word & NUMBER
        if word & KIND == PREFIX:
            break
    return total


@cuda.jit
def compact_kernel(x, limit, out, count, words):
    sums = cuda.shared.array(WARPS, int32)
    shared = cuda.shared.array(2, int32)  # the block's ticket, and how many elements earlier tiles keep
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:  # tiles begin in the order of their numbers
        shared[0] = int32(cuda.atomic.add(words, words.size - 1, uint64(1)))
    cuda.syncthreads()
    tile = shared[0]
    i = tile * BLOCK + cuda.threadIdx.x
    value = x[i] if i < x.size else float32(0)
    kept = i < x.size and value > float32(limit)
    mask = cuda.ballot_sync(ALL, kept)
    if lane == 0:
        sums[warp] = cuda.popc(mask)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total = uint64(0)
        for w in range(WARPS):
            total += uint64(sums[w])
        ptx.store_relaxed_8(ptx.address(words, tile), SUM | total)
        earlier = before(words, tile)
        ptx.store_relaxed_8(ptx.address(words, tile), PREFIX | (earlier + total))
        shared[1] = int32(earlier)
        if (tile + 1) * BLOCK >= x.size:
            count[0] = int32(earlier + total)
    cuda.syncthreads()
    place = shared[1] + cuda.popc(mask & ((1 << lane) - 1))
    for w in range(warp):
        place += sums[w]
    if kept:
        out[place] = value


def compact(x, limit, out, count):
    """The elements of x above limit, in their order, at the start of out; count[0]: how many they are."""
    tiles = (x.size + BLOCK - 1) // BLOCK
    words = cuda.device_array(tiles + 1, np.uint64)  # one per tile, and the ticket
    clear_kernel[tiles // 256 + 1, 256](words)
    compact_kernel[tiles, BLOCK](x, limit, out, count, words)
