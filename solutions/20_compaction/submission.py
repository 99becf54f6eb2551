"""Lab 20_compaction: the elements of x above a limit, in their order."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
import numpy as np
from numba import cuda, float32, int32, int64, uint32, uint64
from numba.cuda import libdevice

from warplab import ptx

# STARTER:
# STARTER: BLOCK = 256
# STARTER:
# STARTER:
BLOCK = 512
WARPS = BLOCK // 32
VECTORS = 4  # vectors of four that a thread asks for before it uses the first
EACH = 4 * VECTORS
TILE = EACH * BLOCK
ALL = 0xFFFFFFFF  # lanes that take part
EMPTY, SUM, PREFIX = uint64(0), uint64(1 << 32), uint64(2 << 32)  # what a tile's word is; its lower half is a number
KIND, NUMBER = uint64(3 << 32), uint64(0xFFFFFFFF)
NOTHING = float32(-np.inf)  # above no limit


@cuda.jit
def clear_kernel(words):
    i = cuda.grid(1)
    if i < words.size:
        words[i] = uint64(0)


@cuda.jit(device=True)
def before(words, tile):
    """How many elements the tiles before this one keep. All lanes of a warp call this, and all get the number."""
    total, lane = int32(0), int32(cuda.threadIdx.x % 32)
    at = tile - int32(1) - lane
    while True:
        waiting, word, prefixes, needed = True, PREFIX, uint32(0), int32(32)
        while waiting:
            word = ptx.load_relaxed_8(ptx.address(words, at)) if at >= 0 else PREFIX
            prefixes = uint32(cuda.ballot_sync(ALL, word & KIND == PREFIX))
            needed = int32(cuda.ffs(prefixes)) if prefixes != 0 else int32(32)  # the last reads the nearest prefix
            waiting = cuda.any_sync(ALL, lane < needed and word & KIND == EMPTY)
        part = int32(word & NUMBER) if lane < needed else int32(0)
        for step in range(5):
            part = int32(part + cuda.shfl_xor_sync(ALL, part, 16 >> step))
        total = int32(total + part)
        if prefixes != 0:
            return total
        at -= int32(32)


# END SOLUTION
@cuda.jit
# BEGIN SOLUTION
# STARTER: def compact_kernel(x, limit, out, count):
# STARTER:     # x and out have x.size elements of float32, count has one. Keep this block's share of x here.
# STARTER:     pass
def compact_kernel(x, limit, out, count, words):
    kept = cuda.shared.array(TILE, float32)
    sums = cuda.shared.array(WARPS, int32)
    shared = cuda.shared.array(2, int32)  # the block's ticket, and how many elements earlier tiles keep
    thread, size = int32(cuda.threadIdx.x), int64(x.size)
    warp, lane = thread // int32(32), thread % int32(32)
    if thread == 0:  # tiles begin in the order of their numbers
        shared[0] = int32(cuda.atomic.add(words, words.size - 1, uint64(1)))
    cuda.syncthreads()
    tile = shared[0]
    first = int64(tile) * TILE + warp * int32(TILE // WARPS) + int32(4) * lane
    whole_tile = (int64(tile) + 1) * TILE <= size
    parts = cuda.local.array(EACH, float32)
    if whole_tile:
        for v in range(VECTORS):
            four = ptx.load_global_16(ptx.address(x, first + 128 * v))
            for i in range(4):
                parts[4 * v + i] = libdevice.int_as_float(int32(four[i]))
    else:
        for v in range(VECTORS):
            for i in range(4):
                at = first + 128 * v + i
                parts[4 * v + i] = x[at] if at < size else NOTHING
    above = float32(limit)
    own = int32(0)  # a byte per vector: how many of its four this lane keeps
    for v in range(VECTORS):
        for i in range(4):
            own = int32(own + (parts[4 * v + i] > above) * (1 << 8 * v))
    upto = own  # the same of all lanes up to this one
    for step in range(5):
        below = cuda.shfl_up_sync(ALL, upto, 1 << step)
        if lane >= 1 << step:
            upto = int32(upto + below)
    whole, lower = cuda.shfl_sync(ALL, upto, 31), int32(upto - own)
    of_warp = int32(0)
    for v in range(VECTORS):
        of_warp = int32(of_warp + (whole >> 8 * v & 255))
    if lane == 0:
        sums[warp] = of_warp
    cuda.syncthreads()
    scanned = sums[lane % int32(WARPS)]
    for step in range(4):  # 2^4 warps
        left = cuda.shfl_up_sync(ALL, scanned, 1 << step)
        if lane >= 1 << step:
            scanned = int32(scanned + left)
    total = cuda.shfl_sync(ALL, scanned, WARPS - 1)
    place = int32(cuda.shfl_sync(ALL, scanned, warp) - of_warp)
    if warp == 0:
        own_word = ptx.address(words, tile)
        if lane == 0:
            ptx.store_relaxed_8(own_word, (SUM if tile > 0 else PREFIX) | uint64(total))
        earlier = int32(0)
        if tile > 0:
            earlier = before(words, tile)
            if lane == 0:
                ptx.store_relaxed_8(own_word, PREFIX | uint64(earlier + total))
        if lane == 0:
            shared[1] = earlier
            if (int64(tile) + 1) * TILE >= size:
                count[0] = int32(earlier + total)
    for v in range(VECTORS):
        to = int32(place + (lower >> 8 * v & 255))
        for i in range(4):
            if parts[4 * v + i] > above:
                kept[to] = parts[4 * v + i]
                to = int32(to + 1)
        place = int32(place + (whole >> 8 * v & 255))
    cuda.syncthreads()
    # Warps store lines of 128 bytes: the first begins where the line of the tile's first element does.
    start = int64(shared[1])
    for i in range(thread - int32(start % 32), total, BLOCK):
        if i >= 0:
            out[start + i] = kept[i]


# END SOLUTION


def compact(x, limit, out, count):
    """The elements of x above limit, in their order, at the start of out; count[0]: how many they are."""
    # BEGIN SOLUTION
    # STARTER: blocks = (x.size + BLOCK - 1) // BLOCK
    # STARTER: compact_kernel[blocks, BLOCK](x, limit, out, count)
    tiles = (x.size + TILE - 1) // TILE
    words = cuda.device_array(tiles + 1, np.uint64)  # one per tile, and the ticket
    clear_kernel[tiles // 256 + 1, 256](words)
    compact_kernel[tiles, BLOCK](x, limit, out, count, words)
    # END SOLUTION
