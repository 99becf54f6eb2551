"""compact, rung 1: tiles are counted, one block scans the counts, and tiles are read again.

The scan needs the count of every tile, so no element can be stored before all have been read. x is read twice.
"""

import numpy as np
from numba import cuda, float32, int32

BLOCK = 256
WARPS = BLOCK // 32
WIDE = 1024  # threads of the scan
ALL = 0xFFFFFFFF


@cuda.jit
def count_kernel(x, limit, counts):
    i = cuda.grid(1)
    kept = int32(1) if i < x.size and x[i] > float32(limit) else int32(0)
    of_block = cuda.syncthreads_count(kept)
    if cuda.threadIdx.x == 0:
        counts[cuda.blockIdx.x] = of_block


@cuda.jit
def scan_kernel(counts, count):
    """Each count becomes the sum of those before it. A thread has a stretch of neighbouring counts."""
    sums = cuda.shared.array(WIDE, int32)
    thread = cuda.threadIdx.x
    share = (counts.size + WIDE - 1) // WIDE
    own = int32(0)
    for i in range(thread * share, min((thread + 1) * share, counts.size)):
        own += counts[i]
    sums[thread] = own
    cuda.syncthreads()
    step = 1
    while step < WIDE:
        left = sums[thread - step] if thread >= step else int32(0)
        cuda.syncthreads()
        sums[thread] += left
        cuda.syncthreads()
        step *= 2
    before = sums[thread] - own
    for i in range(thread * share, min((thread + 1) * share, counts.size)):
        kept = counts[i]
        counts[i] = before
        before += kept
    if thread == WIDE - 1:
        count[0] = sums[thread]


@cuda.jit
def place_kernel(x, limit, before, out):
    sums = cuda.shared.array(WARPS, int32)
    i, warp, lane = cuda.grid(1), cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    value = x[i] if i < x.size else float32(0)
    kept = i < x.size and value > float32(limit)
    mask = cuda.ballot_sync(ALL, kept)
    if lane == 0:
        sums[warp] = cuda.popc(mask)
    cuda.syncthreads()
    place = before[cuda.blockIdx.x] + cuda.popc(mask & ((1 << lane) - 1))
    for w in range(warp):
        place += sums[w]
    if kept:
        out[place] = value


def compact(x, limit, out, count):
    """The elements of x above limit, in their order, at the start of out; count[0]: how many they are."""
    blocks = (x.size + BLOCK - 1) // BLOCK
    counts = cuda.device_array(blocks, np.int32)
    count_kernel[blocks, BLOCK](x, limit, counts)
    scan_kernel[1, WIDE](counts, count)
    place_kernel[blocks, BLOCK](x, limit, counts, out)
