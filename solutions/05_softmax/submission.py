"""Lab 05_softmax: out = softmax(scale * x) along the rows, over what the mask lets through."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from functools import cache

from numba import cuda, float32, int32, uint32, uint64
from numba.cuda import libdevice

from warplab.ptx import address, load_global_4, load_global_16, store_global_16

ALL = 0xFFFFFFFF  # lanes that take part in a shuffle
NOTHING = float32(-1e30)  # below every score, and yet a number: nothing minus nothing is 0
LOG2_E = float32(1.44269504)  # e^s = 2^(s log2 e)


@cuda.jit(device=True, forceinline=True)
def join(largest, total, other_largest, other_total):
    """The largest of all elements, and the sum of 2^(element - largest), from those of two halves."""
    both = max(largest, other_largest)
    total = total * libdevice.exp2f(largest - both) + other_total * libdevice.exp2f(other_largest - both)
    return both, total


@cuda.jit(device=True, forceinline=True)
def of_a_warp(largest, total):
    """The same of all lanes of a warp, in every lane."""
    for step in range(5):
        other_largest = cuda.shfl_xor_sync(ALL, largest, 16 >> step)
        other_total = cuda.shfl_xor_sync(ALL, total, 16 >> step)
        largest, total = join(largest, total, other_largest, other_total)
    return largest, total


@cuda.jit(device=True, forceinline=True)
def score(word, kept, factor):
    """An element (the bits of a float32) times the factor, or nothing where it is masked."""
    return libdevice.int_as_float(int32(word)) * factor if kept != 0 else NOTHING


@cuda.jit(device=True, forceinline=True)
def bits(value):
    return uint32(libdevice.float_as_int(value))


@cache
def rows_of(threads, group, each, vector):
    """A kernel for rows that `group` threads share, in chunks of group * each elements, `vector` (1 or 4) at a time.

    The last chunk stays in registers; those before it, of long rows, are read a second time.
    """
    rows, warps, block_a_row, vectors = threads // group, threads // 32, group > 32, each // vector
    chunk = group * each

    @cuda.jit(device=True, forceinline=True)
    def read(x, mask, row, first, n, factor, scores):
        """The scores of a chunk: elements times factor, NOTHING where they are masked or beyond the row."""
        words = cuda.local.array(each, uint32)
        kept = cuda.local.array(vectors, uint32)  # a byte an element
        for v in range(vectors):  # all loads before the first use
            j = first + uint64(v * group * vector)
            kept[v] = uint32(0)
            for e in range(vector):
                words[v * vector + e] = uint32(0)
            if j < n:
                if vector == 4:
                    at = row * n + j
                    kept[v] = load_global_4(address(mask, at))
                    four = load_global_16(address(x, at))
                    for e in range(4):
                        words[v * 4 + e] = four[e]
                else:
                    kept[v] = uint32(mask[row, j])
                    words[v] = bits(x[row, j])
        for e in range(each):
            scores[e] = score(words[e], (kept[e // vector] >> uint32(e % vector * 8)) & uint32(0xFF), factor)

    @cuda.jit(device=True, forceinline=True)
    def write(out, row, first, n, scores, largest, inverse):
        """The results of a chunk."""
        for v in range(vectors):
            j = first + uint64(v * group * vector)
            if j < n:
                e = v * vector
                if vector == 4:
                    four = (
                        bits(libdevice.exp2f(scores[e] - largest) * inverse),
                        bits(libdevice.exp2f(scores[e + 1] - largest) * inverse),
                        bits(libdevice.exp2f(scores[e + 2] - largest) * inverse),
                        bits(libdevice.exp2f(scores[e + 3] - largest) * inverse),
                    )
                    store_global_16(address(out, row * n + j), four)
                else:
                    out[row, j] = libdevice.exp2f(scores[e] - largest) * inverse

    @cuda.jit
    def kernel(scale, x, mask, out):
        m, n = uint64(x.shape[0]), uint64(x.shape[1])
        thread = uint64(cuda.threadIdx.x)
        row, lane = uint64(cuda.blockIdx.x) * uint64(rows) + thread // uint64(group), thread % uint64(group)
        if row >= m:  # whole warps, and no other warp waits for them: a row of its own has no barrier
            return
        factor = float32(scale) * LOG2_E
        scores = cuda.local.array(each, float32)
        mine, total = NOTHING, float32(0)
        first, end = lane * uint64(vector), (n + uint64(chunk - 1)) // uint64(chunk) * uint64(chunk)
        while first < end:
            read(x, mask, row, first, n, factor, scores)
            before = mine
            for e in range(each):
                mine = max(mine, scores[e])
            total *= libdevice.exp2f(before - mine)
            for e in range(each):
                total += libdevice.exp2f(scores[e] - mine)
            first += uint64(chunk)
        largest, total = of_a_warp(mine, total)
        if block_a_row:
            largests = cuda.shared.array(32, float32)
            totals = cuda.shared.array(32, float32)
            warp, place = thread // uint64(32), thread % uint64(32)
            if place == uint64(0):
                largests[warp], totals[warp] = largest, total
            cuda.syncthreads()
            largest, total = NOTHING, float32(0)
            if place < uint64(warps):
                largest, total = largests[place], totals[place]
            largest, total = of_a_warp(largest, total)
        inverse = float32(1) / total if largest > NOTHING else float32(0)
        first -= uint64(chunk)
        write(out, row, first, n, scores, largest, inverse)
        while first >= uint64(chunk):  # from the end: what was read last is likeliest to be in a cache
            first -= uint64(chunk)
            read(x, mask, row, first, n, factor, scores)
            write(out, row, first, n, scores, largest, inverse)

    return kernel


# Rows up to `length` elements: threads a block, threads a row, elements a thread and chunk.
SHAPES = (
    (128, 128, 32, 4),
    (512, 128, 32, 16),
    (2048, 128, 128, 16),
    (4096, 256, 256, 16),
    (16384, 512, 512, 16),
)
LONGER = (1024, 1024, 16)
# STARTER:
# STARTER: THREADS = 128
# STARTER:
# STARTER:
# STARTER: @cuda.jit
# STARTER: def softmax_kernel(scale, x, mask, out):
# STARTER:     # x, mask and out have m x n elements. Compute this block's rows here.
# STARTER:     pass
# END SOLUTION


def softmax(scale, x, mask, out):
    """Softmax along rows. scale is a Python float; x and out are m x n of float32, mask m x n of uint8; in C order."""
    m, n = x.shape
    # BEGIN SOLUTION
    # STARTER: softmax_kernel[m, THREADS](scale, x, mask, out)
    threads, group, each = next((shape for length, *shape in SHAPES if n <= length), LONGER)
    vector = 4 if n % 4 == 0 else 1  # else rows begin anywhere, and a vector may not
    rows = threads // group
    rows_of(threads, group, each, vector)[(m + rows - 1) // rows, threads](scale, x, mask, out)
    # END SOLUTION
