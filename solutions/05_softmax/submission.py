"""Lab 05_softmax: out = softmax(scale * x) along the rows, over what the mask lets through."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from functools import cache

from numba import cuda, float32, int32, uint32, uint64
from numba.cuda import libdevice

from warplab import ptx

ALL = 0xFFFFFFFF  # lanes that take part in a shuffle
NOTHING = float32(-1e30)  # below every score, and yet a number: nothing minus nothing is 0
LOG2_E = float32(1.44269504)  # e^s = 2^(s log2 e)


@cuda.jit(device=True, forceinline=True)
def of_a_warp(largest, total):
    """The largest of all lanes' elements and the sum of 2^(element - largest), from those of each lane."""
    both = largest
    for step in range(5):
        both = max(both, cuda.shfl_xor_sync(ALL, both, 16 >> step))
    total *= libdevice.exp2f(largest - both)
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
    return both, total


@cuda.jit(device=True, forceinline=True)
def score(word, kept, factor):
    """An element (the bits of a float32) times the factor, or nothing where it is masked."""
    return libdevice.int_as_float(int32(word)) * factor if kept != 0 else NOTHING


@cuda.jit(device=True, forceinline=True)
def bits(value):
    return uint32(libdevice.float_as_int(value))


@cache
def rows_of(threads, group, each, kept, vector):
    """A kernel for rows that `group` threads share, in chunks of group * each elements, `vector` (1 or 4) at a time.

    They are a warp, a block, or the blocks of a cluster. The last chunk stays in registers and the first `kept` chunks
    in shared memory; those between, of very long rows, are read a second time.
    """
    blocks, warps, vectors = max(1, group // threads), threads // 32, each // vector
    block_a_row, cluster_a_row = group > 32, blocks > 1
    clusters = ptx.cluster_size(blocks)
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
                    kept[v] = ptx.load_global_4(ptx.address(mask, at))
                    four = ptx.load_global_16(ptx.address(x, at))
                    for e in range(4):
                        words[v * 4 + e] = four[e]
                else:
                    kept[v] = uint32(mask[row, j])
                    words[v] = bits(x[row, j])
        for e in range(each):
            scores[e] = score(words[e], (kept[e // vector] >> uint32(e % vector * 8)) & uint32(0xFF), factor)

    @cuda.jit(device=True, forceinline=True)
    def place_of(first):
        """Where this thread's scores of the chunk stay in shared memory: neighbours beside each other."""
        return int32(first // uint64(chunk)) * (each * threads) + cuda.threadIdx.x

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
                    ptx.store_global_16(ptx.address(out, row * n + j), four)
                else:
                    out[row, j] = libdevice.exp2f(scores[e] - largest) * inverse

    @ptx.large_shared
    @cuda.jit
    def kernel(scale, x, mask, out):
        if cluster_a_row:
            clusters()
        m, n = uint64(x.shape[0]), uint64(x.shape[1])
        thread = uint64(cuda.blockIdx.x) * uint64(threads) + uint64(cuda.threadIdx.x)
        row, lane = thread // uint64(group), thread % uint64(group)
        if row >= m:  # whole warps, and no other warp waits for them: a row of its own has no barrier
            return
        factor = float32(scale) * LOG2_E
        scores = cuda.local.array(each, float32)
        stay = cuda.shared.array(0, float32)  # dynamic: kept * each words for each thread
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
            if kept and first < uint64(kept * chunk):
                place = place_of(first)
                for e in range(each):
                    stay[place + e * threads] = scores[e]
            first += uint64(chunk)
        largest, total = of_a_warp(mine, total)
        if block_a_row:
            largests = cuda.shared.array(32, float32)
            totals = cuda.shared.array(32, float32)
            warp, place = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
            if place == 0:
                largests[warp], totals[warp] = largest, total
            cuda.syncthreads()
            largest, total = NOTHING, float32(0)
            if place < warps:
                largest, total = largests[place], totals[place]
            largest, total = of_a_warp(largest, total)
        if cluster_a_row:
            whole = cuda.shared.array(2, float32)  # what the block found, for the others to read
            if cuda.threadIdx.x == 0:
                whole[0], whole[1] = largest, total
            ptx.cluster_arrive()
            ptx.cluster_wait()
            largest, total = NOTHING, float32(0)
            if place < blocks:
                there = ptx.mapa(ptx.shared_address(whole, 0), uint32(place))
                largest = libdevice.int_as_float(int32(ptx.load_cluster_4(there)))
                total = libdevice.int_as_float(int32(ptx.load_cluster_4(there + uint32(4))))
            largest, total = of_a_warp(largest, total)
            ptx.cluster_arrive()  # it has been read: no block may leave while another still reads
        inverse = float32(1) / total if largest > NOTHING else float32(0)
        first -= uint64(chunk)
        write(out, row, first, n, scores, largest, inverse)
        while first >= uint64(chunk):  # from the end: what was read last is likeliest to be in a cache
            first -= uint64(chunk)
            if kept and first < uint64(kept * chunk):
                place = place_of(first)
                for e in range(each):
                    scores[e] = stay[place + e * threads]
            else:
                read(x, mask, row, first, n, factor, scores)
            write(out, row, first, n, scores, largest, inverse)
        if cluster_a_row:
            ptx.cluster_wait()

    return kernel


# Rows up to `length` elements: threads a block, threads a row, elements a thread and chunk, chunks in shared memory.
SHAPES = (
    (128, 128, 32, 4, 0),
    (256, 128, 32, 8, 0),
    (512, 128, 32, 16, 0),
    (1024, 64, 64, 16, 0),
    (2048, 128, 128, 16, 0),
    (4096, 256, 256, 16, 0),
    (8192, 512, 512, 16, 0),
    (16384, 512, 512, 16, 1),
    (32768, 512, 512, 16, 3),
)
LONGER = (512, 1024, 16, 3)  # a cluster of two blocks: 65,536 elements stay on two SMs
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
    threads, group, each, kept = next((shape for length, *shape in SHAPES if n <= length), LONGER)
    vector = 4 if n % 4 == 0 else 1  # else rows begin anywhere, and a vector may not
    blocks = max(1, group // threads)  # that share a row
    rows = max(1, threads // group)  # that share a block
    kernel = rows_of(threads, group, each, kept, vector)
    kernel[(m + rows - 1) // rows * blocks, threads, 0, 4 * kept * each * threads](scale, x, mask, out)
    # END SOLUTION
