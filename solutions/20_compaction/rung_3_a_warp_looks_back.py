"""compact, rung 3: a warp looks back at 32 tiles at once, and a tile has 2,048 elements, gathered in shared memory.

Eight times fewer tiles wait for each other, and a round trip answers for 32 of them. A thread loads single elements,
and its eight ballots cost more instructions than one scan of packed counts.
"""

import numpy as np
from numba import cuda, float32, int32, uint32, uint64

from warplab import ptx

BLOCK = 256
WARPS = BLOCK // 32
EACH = 8  # elements of a thread
TILE = BLOCK * EACH
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
    """How many elements the tiles before this one keep. All lanes of a warp call this, and all get the number."""
    total = int32(0)
    at = tile - int32(1) - int32(cuda.threadIdx.x % 32)
    while True:
        word = PREFIX
        if at >= 0:
            word = ptx.load_relaxed_8(ptx.address(words, at))
            while word & KIND == EMPTY:
                word = ptx.load_relaxed_8(ptx.address(words, at))
        prefixes = cuda.ballot_sync(ALL, word & KIND == PREFIX)
        needed = cuda.ffs(prefixes) if prefixes != 0 else 32  # lanes up to the nearest prefix
        part = int32(word & NUMBER) if cuda.threadIdx.x % 32 < needed else int32(0)
        for step in range(5):
            part = int32(part + cuda.shfl_xor_sync(ALL, part, 16 >> step))
        total = int32(total + part)
        if prefixes != 0:
            return total
        at -= int32(32)


@cuda.jit
def compact_kernel(x, limit, out, count, words):
    gathered = cuda.shared.array(TILE, float32)
    sums = cuda.shared.array(WARPS, int32)
    shared = cuda.shared.array(2, int32)  # the block's ticket, and how many elements earlier tiles keep
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:  # tiles begin in the order of their numbers
        shared[0] = int32(cuda.atomic.add(words, words.size - 1, uint64(1)))
    cuda.syncthreads()
    tile = shared[0]
    first = tile * TILE + warp * 32 * EACH + lane
    values = cuda.local.array(EACH, float32)
    masks = cuda.local.array(EACH, uint32)
    for e in range(EACH):
        i = first + 32 * e
        values[e] = x[i] if i < x.size else float32(-np.inf)
    of_warp = int32(0)
    for e in range(EACH):
        masks[e] = uint32(cuda.ballot_sync(ALL, values[e] > float32(limit)))
        of_warp = int32(of_warp + cuda.popc(masks[e]))
    if lane == 0:
        sums[warp] = of_warp
    cuda.syncthreads()
    place, total = int32(0), int32(0)
    for w in range(WARPS):
        if w < warp:
            place = int32(place + sums[w])
        total = int32(total + sums[w])
    for e in range(EACH):
        if values[e] > float32(limit):
            gathered[place + cuda.popc(masks[e] & uint32((1 << lane) - 1))] = values[e]
        place = int32(place + cuda.popc(masks[e]))
    if warp == 0:
        if lane == 0:
            ptx.store_relaxed_8(ptx.address(words, tile), SUM | uint64(total))
        earlier = before(words, tile)
        if lane == 0:
            ptx.store_relaxed_8(ptx.address(words, tile), PREFIX | uint64(earlier + total))
            shared[1] = earlier
            if (tile + 1) * TILE >= x.size:
                count[0] = int32(earlier + total)
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, total, BLOCK):
        out[shared[1] + i] = gathered[i]


def compact(x, limit, out, count):
    """The elements of x above limit, in their order, at the start of out; count[0]: how many they are."""
    tiles = (x.size + TILE - 1) // TILE
    words = cuda.device_array(tiles + 1, np.uint64)  # one per tile, and the ticket
    clear_kernel[tiles // 256 + 1, 256](words)
    compact_kernel[tiles, BLOCK](x, limit, out, count, words)
