"""Lab 20_compaction: the elements of x above a limit, in their order, in CUDA C++."""

import cupy
import numpy as np

# BEGIN SOLUTION
# STARTER: BLOCK = 256
BLOCK = 512
TILE = 16 * BLOCK  # elements of a block
# END SOLUTION

module = cupy.RawModule(
    code=r"""
// BEGIN SOLUTION
constexpr int BLOCK = 512, WARPS = BLOCK / 32, VECTORS = 4, TILE = 4 * VECTORS * BLOCK;
constexpr unsigned EMPTY = 0, SUM = 1, PREFIX = 2, ALL = 0xffffffff;
typedef unsigned long long Word;  // of a tile: the upper half says what the lower half is

__device__ Word load(const Word* word)
{
    Word value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

__device__ void store(Word* word, unsigned kind, unsigned number)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(word), "l"((Word)kind << 32 | number) : "memory");
}

// How many elements the tiles before this one keep. All lanes of a warp call this, and all get the number.
__device__ unsigned before(const Word* words, int tile)
{
    unsigned sum = 0;
    int lane = threadIdx.x % 32;
    for (int at = tile - 1 - lane;; at -= 32) {
        unsigned prefixes;
        int needed;  // lanes, of which the last reads the nearest prefix
        Word word;
        do {
            word = at >= 0 ? load(words + at) : (Word)PREFIX << 32;
            prefixes = __ballot_sync(ALL, word >> 32 == PREFIX);
            needed = prefixes ? __ffs(prefixes) : 32;
        } while (__any_sync(ALL, lane < needed && word >> 32 == EMPTY));
        unsigned part = lane < needed ? (unsigned)word : 0;
#pragma unroll
        for (int step = 16; step > 0; step /= 2) part += __shfl_xor_sync(ALL, part, step);
        sum += part;
        if (prefixes) return sum;
    }
}

extern "C" __global__ void clear_kernel(Word* words, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = 0;
}

// END SOLUTION
extern "C" __global__ void
// BEGIN SOLUTION
// STARTER: compact_kernel(const float* __restrict__ x, int limit, float* out, int* count, int n)
__launch_bounds__(BLOCK, 4)  // four blocks on an SM, with 32 registers per thread
compact_kernel(const float* __restrict__ x, int limit, float* out, int* count, Word* words, unsigned* ticket,
               int n)
// END SOLUTION
{
    // BEGIN SOLUTION
    // STARTER: // x and out have n elements, count has one. Keep this block's share of x here.
    __shared__ float kept[TILE];
    __shared__ unsigned sums[WARPS];
    __shared__ int ticket_of_block;
    __shared__ unsigned before_tile, of_tile;  // elements that earlier tiles keep, and this one
    if (threadIdx.x == 0) ticket_of_block = atomicAdd(ticket, 1);  // tiles begin in the order of their numbers
    __syncthreads();
    int tile = ticket_of_block, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int first = tile * TILE + warp * (TILE / WARPS) + 4 * lane;
    float nothing = __int_as_float(0xff800000);  // minus infinity is above no limit
    float4 parts[VECTORS];
    if ((tile + 1) * TILE <= n) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) parts[v] = __ldcs((const float4*)(x + first + 128 * v));
    } else {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            int i = first + 128 * v;
            parts[v].x = i < n ? x[i] : nothing;
            parts[v].y = i + 1 < n ? x[i + 1] : nothing;
            parts[v].z = i + 2 < n ? x[i + 2] : nothing;
            parts[v].w = i + 3 < n ? x[i + 3] : nothing;
        }
    }
    float above = limit;
    unsigned own = 0;  // a byte per vector: how many of its four this lane keeps, and then all lanes up to this one
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
        own += ((parts[v].x > above) + (parts[v].y > above) + (parts[v].z > above) + (parts[v].w > above)) << 8 * v;
    unsigned upto = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        unsigned lower = __shfl_up_sync(ALL, upto, step);
        if (lane >= step) upto += lower;
    }
    unsigned whole = __shfl_sync(ALL, upto, 31), lower = upto - own;
    unsigned of_warp = (whole & 255) + (whole >> 8 & 255) + (whole >> 16 & 255) + (whole >> 24);
    if (lane == 0) sums[warp] = of_warp;
    __syncthreads();
    unsigned scanned = sums[lane % WARPS];
#pragma unroll
    for (int step = 1; step < WARPS; step *= 2) {
        unsigned left = __shfl_up_sync(ALL, scanned, step);
        if (lane >= step) scanned += left;
    }
    unsigned place = __shfl_sync(ALL, scanned, warp) - of_warp;
    if (threadIdx.x == WARPS - 1) {
        of_tile = scanned;
        store(words + tile, tile ? SUM : PREFIX, scanned);
    }
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        unsigned to = place + (lower >> 8 * v & 255);
        if (parts[v].x > above) kept[to++] = parts[v].x;
        if (parts[v].y > above) kept[to++] = parts[v].y;
        if (parts[v].z > above) kept[to++] = parts[v].z;
        if (parts[v].w > above) kept[to++] = parts[v].w;
        place += whole >> 8 * v & 255;
    }
    if (warp == 0) {
        __syncwarp();  // of_tile is another lane's
        unsigned earlier = tile ? before(words, tile) : 0, total = earlier + of_tile;
        if (lane == 0) {
            if (tile) store(words + tile, PREFIX, total);
            if ((tile + 1) * TILE >= n) *count = total;
            before_tile = earlier;
        }
    }
    __syncthreads();
    // Warps store lines of 128 bytes: the first begins where the line of the tile's first element does.
    float* to = out + before_tile;
    for (int i = (int)threadIdx.x - (int)(before_tile % 32); i < (int)of_tile; i += BLOCK)
        if (i >= 0) __stcs(to + i, kept[i]);
    // END SOLUTION
}
"""
)
# BEGIN SOLUTION
clear_kernel = module.get_function("clear_kernel")
# END SOLUTION
compact_kernel = module.get_function("compact_kernel")


def compact(x, limit, out, count):
    """The elements of x above limit, in their order, at the start of out; count[0]: how many they are."""
    # BEGIN SOLUTION
    # STARTER: blocks = (x.size + BLOCK - 1) // BLOCK
    # STARTER: compact_kernel((blocks,), (BLOCK,), (x, np.int32(limit), out, count, np.int32(x.size)))
    tiles = (x.size + TILE - 1) // TILE
    words = cupy.empty(tiles + 1, np.uint64)  # one per tile, and the ticket
    clear_kernel((tiles // 256 + 1,), (256,), (words, np.int32(tiles + 1)))
    compact_kernel((tiles,), (BLOCK,), (x, np.int32(limit), out, count, words, words[tiles:], np.int32(x.size)))
    # END SOLUTION
