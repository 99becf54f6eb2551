# expect: traffic: over budget: a block counts all elements before its own again
from numba import cuda, float32, int32


@cuda.jit
def kernel(x, limit, out, count):
    first = cuda.blockIdx.x * 16384
    place = int32(0)
    for start in range(0, first, 1024):
        place += cuda.syncthreads_count(int32(1) if x[start + cuda.threadIdx.x] > float32(limit) else int32(0))
    warps = cuda.shared.array(32, int32)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    for start in range(first, min(first + 16384, x.size), 1024):
        i = start + cuda.threadIdx.x
        kept = i < x.size and x[i] > float32(limit)
        mask = cuda.ballot_sync(0xFFFFFFFF, kept)
        if lane == 0:
            warps[warp] = cuda.popc(mask)
        cuda.syncthreads()
        to, whole = place, place
        for w in range(32):
            if w < warp:
                to += warps[w]
            whole += warps[w]
        if kept:
            out[to + cuda.popc(mask & ((1 << lane) - 1))] = x[i]
        place = whole
        cuda.syncthreads()
    if first + 16384 >= x.size and cuda.threadIdx.x == 0:
        count[0] = place


def compact(x, limit, out, count):
    kernel[(x.size + 16383) // 16384, 1024](x, limit, out, count)
