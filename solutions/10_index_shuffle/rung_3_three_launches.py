"""index_shuffle, rung 3: blocks count what they have chosen, and every row is looked at twice in all.

A block chooses for a stretch of tokens and leaves one count for each expert. A second kernel adds these up: where an
expert begins, and in it what each block has. In the third one a block takes the same stretch again, in the order of its
warps; lanes whose rows go to the same expert find each other by match.any. No atomics on global memory, and no rows
that are somebody else's. What is left are two gaps between launches, which is much where there are few tokens.
"""

from functools import cache

import cupy
import numpy as np
from numba import cuda, int32, uint32

from warplab import ptx

WARPS = 8
THREADS = 32 * WARPS
TILE = 128  # tokens of a block
EACH_WARP = TILE // WARPS
ALL = 0xFFFFFFFF
NOBODY = uint32(0xFFFFFFFF)
INFINITY = uint32(0x7F800000)


@cuda.jit(device=True)
def key(bits):
    """Unsigned numbers in the order of scores, above 0: NaN as minus infinity, -0 as +0."""
    magnitude = bits & uint32(0x7FFFFFFF)
    above = INFINITY + magnitude if bits == magnitude else INFINITY - magnitude
    return uint32(1) if magnitude > INFINITY else uint32(above + uint32(1))


@cache
def kernels_for(experts, k):
    each, group = (experts + 31) // 32, 32 // k

    @cuda.jit
    def choose_kernel(bits, chosen, counted):
        rows_of = cuda.shared.array(experts, int32)
        thread, block, tokens = cuda.threadIdx.x, cuda.blockIdx.x, bits.shape[0]
        lane, warp = thread % 32, thread // 32
        for e in range(thread, experts, THREADS):
            rows_of[e] = 0
        cuda.syncthreads()
        start = block * TILE + warp * EACH_WARP
        for token in range(start, min(start + EACH_WARP, tokens)):
            keys = cuda.local.array(each, uint32)
            for e in range(each):
                keys[e] = key(bits[token, e * 32 + lane]) if e * 32 + lane < experts else uint32(0)
            row = NOBODY
            for choice in range(k):
                largest = keys[0]
                for e in range(1, each):
                    largest = max(largest, keys[e])
                largest = ptx.redux_max(largest)
                mine = NOBODY
                for e in range(each - 1, -1, -1):
                    mine = uint32(e * 32 + lane) if keys[e] == largest else mine
                best = ptx.redux_min(mine)
                for e in range(each):
                    keys[e] = uint32(0) if uint32(e * 32 + lane) == best else keys[e]
                row = best if lane == choice else row
            if lane < k:
                chosen[token, lane] = row
                cuda.atomic.add(rows_of, row, 1)
        cuda.syncthreads()
        for e in range(thread, experts, THREADS):
            counted[block, e] = rows_of[e]

    @cuda.jit
    def scan_kernel(counted, count, first):
        begins = cuda.shared.array(experts, int32)
        for e in range(cuda.threadIdx.x, experts, THREADS):
            rows = int32(0)
            for block in range(counted.shape[0]):
                of_block = counted[block, e]
                counted[block, e] = rows
                rows += of_block
            count[e] = rows
            begins[e] = rows
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            rows = int32(0)
            for e in range(experts):
                first[e] = rows
                rows += begins[e]

    @cuda.jit
    def place_kernel(chosen, counted, first, order, position):
        following = cuda.shared.array((WARPS, experts), int32)
        thread, block, tokens = cuda.threadIdx.x, cuda.blockIdx.x, chosen.shape[0]
        lane, warp = thread % 32, thread // 32
        lower = (uint32(1) << uint32(lane)) - uint32(1)
        start = block * TILE + warp * EACH_WARP
        end = min(start + EACH_WARP, tokens)
        for e in range(lane, experts, 32):
            following[warp, e] = 0
        cuda.syncwarp()
        for counting in range(2):  # first how many rows each warp has, then where each goes
            for tile in range(start, end, group):
                has_row = lane < group * k and tile + lane // k < end
                row = uint32(chosen[tile + lane // k, lane % k]) if has_row else NOBODY
                peers = uint32(cuda.match_any_sync(ALL, row))
                if has_row and counting == 1:
                    to = following[warp, row] + int32(cuda.popc(peers & lower))
                    position[tile + lane // k, lane % k] = to
                    order[to] = tile * k + lane
                cuda.syncwarp()
                if has_row and peers & lower == 0:
                    following[warp, row] += cuda.popc(peers)
                cuda.syncwarp()
            cuda.syncthreads()
            if counting == 0:
                for e in range(thread, experts, THREADS):
                    to = first[e] + counted[block, e]
                    for w in range(WARPS):
                        rows = following[w, e]
                        following[w, e] = to
                        to += rows
                cuda.syncthreads()

    return choose_kernel, scan_kernel, place_kernel


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert."""
    tokens, experts = scores.shape
    blocks = (tokens + TILE - 1) // TILE
    choose_kernel, scan_kernel, place_kernel = kernels_for(experts, k)
    counted = cupy.empty((blocks, experts), dtype=np.int32)
    choose_kernel[blocks, THREADS](scores.view(np.int32), chosen, counted)
    scan_kernel[1, THREADS](counted, count, first)
    place_kernel[blocks, THREADS](chosen, counted, first, order, position)
