"""Lab 21_attention: out = softmax(q k^T / sqrt(d)) v for each head."""

# BEGIN SOLUTION
# STARTER: import math
# STARTER:
# STARTER: from numba import cuda, float32
# STARTER:
# STARTER: BLOCK = 128
# STARTER:
# STARTER:
# STARTER: @cuda.jit
# STARTER: def attention_kernel(q, k, v, causal, scale, out):
# STARTER:     # q, k, v and out are heads x n x d. Keep this block's share of the queries here.
# STARTER:     pass
# A block has 128 queries of a head, 16 per warp, and walks over tiles of 64 keys. Scores and weights stay in registers:
# the sums of one product, packed in pairs, are the first factor of the next. Tiles behind the diagonal are skipped.
# While the tensor cores work on one tile, cp.async copies the next one.

import math

from numba import cuda
from numba.cuda import libdevice, types

from warplab import ptx

QUERIES, KEYS, THREADS = 128, 64, 256
SCORES = KEYS // 2  # of a thread: eight pieces of 16 x 8, two rows by two columns of each
NOTHING = types.float32(-1e30)  # below every score, and yet a number
ALL = 0xFFFFFFFF
f32, u32 = types.float32, types.uint32

product = ptx.mma("f16", k=16)
wait_for_queries = ptx.cp_async_wait_group(1)


@cuda.jit(device=True)
def add(sums, first, a, b0, b1):
    """One product of 16 x 8 outputs, whose sums lie from `first` on."""
    d = product(a, (b0, b1), (sums[first], sums[first + 1], sums[first + 2], sums[first + 3]))
    sums[first] = d[0]
    sums[first + 1] = d[1]
    sums[first + 2] = d[2]
    sums[first + 3] = d[3]


@cuda.jit(device=True)
def of_four_lanes(a, larger):
    """The largest number, or the sum, of the four lanes that share a row."""
    for step in range(2):
        b = cuda.shfl_xor_sync(ALL, a, 1 << step)
        a = max(a, b) if larger else a + b
    return a


def kernel_for(width):
    """The kernel for heads of `width`: what indexes registers has to be known to the compiler."""
    pieces = width // 8  # of 16 bytes in a row
    sums_of_thread, words_of_thread = width // 2, width // 4
    tile_bytes, stage_bytes = 2 * KEYS * width, 4 * KEYS * width  # a stage has a tile of keys and one of values

    @cuda.jit(device=True)
    def swizzled(row, piece):
        """Where piece `piece` of row `row` lies in a tile, in bytes: eight rows' pieces in banks of their own."""
        return u32(row * 2 * width + ((piece ^ (row & 7)) << 4))

    @cuda.jit(device=True)
    def fetch(tile, matrix, head, row0, rows):
        """Start to copy `rows` rows of a head to shared memory; zeros behind its end."""
        n = matrix.shape[1]
        for p in range(cuda.threadIdx.x, rows * pieces, THREADS):
            row, piece = p // pieces, p % pieces
            inside = row0 + row < n
            source = row0 + row if inside else n - 1  # of which nothing is read
            address = ptx.address(matrix, (head * n + source) * width + 8 * piece)
            ptx.cp_async_16(tile + swizzled(row, piece), address, 16 if inside else 0)

    @ptx.large_shared
    @cuda.jit
    def kernel(q, k, v, causal, scale, out):
        n = q.shape[1]
        head, row0 = cuda.blockIdx.y, cuda.blockIdx.x * QUERIES
        lane, warp = cuda.threadIdx.x & 31, cuda.threadIdx.x >> 5
        tile_k = ptx.shared_address(cuda.shared.array(0, types.float16), 0)
        next_k = tile_k + u32(stage_bytes)
        row, pair = row0 + 16 * warp + (lane >> 2), 2 * (lane & 3)  # of this lane: the other row is 8 below

        fetch(next_k, q, head, row0, QUERIES)  # a stage has room for the queries
        ptx.cp_async_commit()
        fetch(tile_k, k, head, 0, KEYS)
        fetch(tile_k + u32(tile_bytes), v, head, 0, KEYS)
        ptx.cp_async_commit()
        wait_for_queries()
        cuda.syncthreads()
        queries = cuda.local.array(words_of_thread, types.uint32)  # indexed by constants only: registers
        for i in range(width // 16):
            four = ptx.ldmatrix_x4(next_k + swizzled(16 * warp + (lane & 15), 2 * i + (lane >> 4)))
            for e in range(4):
                queries[4 * i + e] = four[e]

        sums = cuda.local.array(sums_of_thread, types.float32)
        for s in range(sums_of_thread):
            sums[s] = f32(0)
        largest, largest_below, total, total_below = NOTHING, NOTHING, f32(0), f32(0)
        end = min(n, row0 + QUERIES) if causal != 0 else n
        for start in range(0, end, KEYS):
            ptx.cp_async_wait_all()
            cuda.syncthreads()  # everybody's copies have come, and everybody has read the stage that is filled next
            if start + KEYS < end:
                fetch(next_k, k, head, start + KEYS, KEYS)
                fetch(next_k + u32(tile_bytes), v, head, start + KEYS, KEYS)
                ptx.cp_async_commit()
            tile_v = tile_k + u32(tile_bytes)

            scores = cuda.local.array(SCORES, types.float32)
            for s in range(SCORES):
                scores[s] = f32(0)
            for i in range(width // 16):
                a = (queries[4 * i], queries[4 * i + 1], queries[4 * i + 2], queries[4 * i + 3])
                for j in range(KEYS // 16):
                    key = 16 * j + ((lane >> 4) << 3) + (lane & 7)
                    b = ptx.ldmatrix_x4(tile_k + swizzled(key, 2 * i + (lane >> 3 & 1)))
                    add(scores, 8 * j, a, b[0], b[1])
                    add(scores, 8 * j + 4, a, b[2], b[3])

            if start + KEYS > n or causal != 0 and start + KEYS > row0:
                last = min(n - 1, row) if causal != 0 else n - 1
                last_below = min(n - 1, row + 8) if causal != 0 else n - 1
                for s in range(SCORES):
                    key = start + 8 * (s // 4) + pair + s % 2
                    if key > (last if s % 4 < 2 else last_below):
                        scores[s] = NOTHING

            new, new_below = largest, largest_below
            for s in range(0, SCORES, 4):
                new = max(new, max(scores[s], scores[s + 1]))
                new_below = max(new_below, max(scores[s + 2], scores[s + 3]))
            new, new_below = of_four_lanes(new, True), of_four_lanes(new_below, True)
            shrink = libdevice.exp2f((largest - new) * scale)
            shrink_below = libdevice.exp2f((largest_below - new_below) * scale)
            largest, largest_below = new, new_below
            total *= shrink
            total_below *= shrink_below
            for s in range(0, SCORES, 4):
                for e in range(2):
                    scores[s + e] = libdevice.exp2f((scores[s + e] - largest) * scale)
                    total += scores[s + e]
                    scores[s + 2 + e] = libdevice.exp2f((scores[s + 2 + e] - largest_below) * scale)
                    total_below += scores[s + 2 + e]
            for s in range(0, sums_of_thread, 4):
                sums[s] *= shrink
                sums[s + 1] *= shrink
                sums[s + 2] *= shrink_below
                sums[s + 3] *= shrink_below

            for j in range(KEYS // 16):
                a = (
                    ptx.pack_f16(scores[8 * j], scores[8 * j + 1]),
                    ptx.pack_f16(scores[8 * j + 2], scores[8 * j + 3]),
                    ptx.pack_f16(scores[8 * j + 4], scores[8 * j + 5]),
                    ptx.pack_f16(scores[8 * j + 6], scores[8 * j + 7]),
                )
                for i in range(width // 16):
                    b = ptx.ldmatrix_x4_trans(tile_v + swizzled(16 * j + (lane & 15), 2 * i + (lane >> 4)))
                    add(sums, 8 * i, a, b[0], b[1])
                    add(sums, 8 * i + 4, a, b[2], b[3])
            tile_k, next_k = next_k, tile_k

        part = f32(1) / of_four_lanes(total, False)
        part_below = f32(1) / of_four_lanes(total_below, False)
        for s in range(0, sums_of_thread, 4):
            at = (head * n + row) * width + 2 * s + pair
            if row < n:
                ptx.store_global_4(ptx.address(out, at), ptx.pack_f16(sums[s] * part, sums[s + 1] * part))
            if row + 8 < n:
                below = ptx.pack_f16(sums[s + 2] * part_below, sums[s + 3] * part_below)
                ptx.store_global_4(ptx.address(out, at + 8 * width), below)

    return kernel


KERNELS = {64: kernel_for(64), 128: kernel_for(128)}
# END SOLUTION


def attention(q, k, v, causal, out):
    """out = softmax(q k^T / sqrt(d)) v for each head; with causal != 0 query i sees keys 0 to i."""
    heads, n, d = q.shape
    # BEGIN SOLUTION
    # STARTER: blocks = ((n * 32 + BLOCK - 1) // BLOCK, heads)  # a warp per query
    # STARTER: attention_kernel[blocks, BLOCK](q, k, v, causal, float32(1 / math.sqrt(d)), out)
    scale = f32(math.log2(math.e) / math.sqrt(d))
    KERNELS[d][((n + QUERIES - 1) // QUERIES, heads), THREADS, 0, 8 * KEYS * d](q, k, v, causal, scale, out)
    # END SOLUTION
