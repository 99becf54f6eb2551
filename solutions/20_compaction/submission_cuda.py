"""Lab 20_compaction: the elements of x above a limit, in their order, in CUDA C++."""

import cupy
import numpy as np

# BEGIN SOLUTION
# STARTER: BLOCK = 256
BLOCK = 512
TILE = 16 * BLOCK  # elements of a tile
BLOCKS = 2 * 132  # that stay: as many as an H100 or H200 holds at once
APART = 4  # words of 8 bytes from tile to tile: blocks that look back do not read the sector that another one writes
# END SOLUTION

module = cupy.RawModule(
    code=r"""
// BEGIN SOLUTION
constexpr int BLOCK = 512, WARPS = BLOCK / 32, VECTORS = 4, TILE = 4 * VECTORS * BLOCK;
constexpr int APART = 4;
constexpr unsigned EMPTY = 0, SUM = 1, PREFIX = 2, ALL = 0xffffffff;
typedef unsigned long long Word;  // of a tile: the upper half says what the lower half is

__device__ __forceinline__ Word load(const Word* word)
{
    Word value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ void store(Word* word, unsigned kind, unsigned number)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(word), "l"((Word)kind << 32 | number) : "memory");
}

// How many elements the tiles before this one keep. All lanes of a warp call this, and all get the number.
__device__ __forceinline__ unsigned before(const Word* words, int tile)
{
    unsigned sum = 0;
    int lane = threadIdx.x % 32;
    for (int at = tile - 1 - lane;; at -= 32) {
        unsigned prefixes;
        int needed;  // lanes, of which the last reads the nearest prefix
        Word word;
        do {
            word = at >= 0 ? load(words + APART * at) : (Word)PREFIX << 32;
            prefixes = __ballot_sync(ALL, word >> 32 == PREFIX);
            needed = prefixes ? __ffs(prefixes) : 32;
        } while (__any_sync(ALL, lane < needed && word >> 32 == EMPTY));
        sum += __reduce_add_sync(ALL, lane < needed ? (unsigned)word : 0);
        if (prefixes) return sum;
    }
}

extern "C" __global__ void clear_kernel(Word* words, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = 0;
}

// A thread's 16 elements of a tile; what lies beyond n is above no limit.
__device__ __forceinline__ void load_tile(float4* parts, const float* __restrict__ x, int tile, int n)
{
    float nothing = __int_as_float(0xff800000);  // minus infinity
    int first = tile * TILE + threadIdx.x / 32 * (TILE / WARPS) + 4 * (threadIdx.x % 32);
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
}

// END SOLUTION
extern "C" __global__ void
// BEGIN SOLUTION
// STARTER: compact_kernel(const float* __restrict__ x, int limit, float* out, int* count, int n)
__launch_bounds__(BLOCK + 32, 2)  // WARPS that move elements, and one that looks back
compact_kernel(const float* __restrict__ x, int limit, float* out, int* count, Word* words, unsigned* ticket,
               int n)
// END SOLUTION
{
    // BEGIN SOLUTION
    // STARTER: // x and out have n elements, count has one. Keep this block's share of x here.
    extern __shared__ float4 memory[];
    float* kept = (float*)memory;  // of two tiles: the one that is counted, and the one before it
    __shared__ unsigned sums[WARPS];
    __shared__ int tickets[2];  // of this turn's tile, and of the next one's
    __shared__ unsigned before_tile, of_tile[2];  // elements that earlier tiles keep, and a tile
    int tiles = (n + TILE - 1) / TILE, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bool looks_back = warp == WARPS;
    float above = limit;
    if (looks_back && lane == 0) tickets[0] = atomicAdd(ticket, 1);  // tiles begin in the order of their numbers
    __syncthreads();
    float4 next[VECTORS];
    int tile = tickets[0], last = 0;
    if (!looks_back && tile < tiles) load_tile(next, x, tile, n);
    for (int turn = 0;; ++turn) {
        // A turn counts a tile, and stores the one before it, whose place is known by then.
        float4 parts[VECTORS];
        unsigned lower, whole, of_warp;
        if (!looks_back && tile < tiles) {
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) parts[v] = next[v];
            unsigned own = 0;  // a byte per vector: how many of its four this lane keeps, then all lanes up to this one
#pragma unroll
            for (int v = 0; v < VECTORS; ++v)
                own += ((parts[v].x > above) + (parts[v].y > above) + (parts[v].z > above) + (parts[v].w > above))
                       << 8 * v;
            unsigned upto = own;
#pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                unsigned left = __shfl_up_sync(ALL, upto, step);
                if (lane >= step) upto += left;
            }
            whole = __shfl_sync(ALL, upto, 31), lower = upto - own;
            of_warp = (whole & 255) + (whole >> 8 & 255) + (whole >> 16 & 255) + (whole >> 24);
            if (lane == 0) sums[warp] = of_warp;
        } else if (lane == 0 && tile < tiles) {
            tickets[(turn + 1) % 2] = atomicAdd(ticket, 1);
        }
        __syncthreads();
        if (looks_back) {
            if (turn) {
                unsigned earlier = last ? before(words, last) : 0, total = earlier + of_tile[(turn - 1) % 2];
                if (lane == 0) {
                    if (last) store(words + APART * last, PREFIX, total);
                    if (last == tiles - 1) *count = total;
                    before_tile = earlier;
                }
            }
        } else if (tile < tiles) {
            unsigned scanned = sums[lane % WARPS];
#pragma unroll
            for (int step = 1; step < WARPS; step *= 2) {
                unsigned left = __shfl_up_sync(ALL, scanned, step);
                if (lane >= step) scanned += left;
            }
            unsigned place = __shfl_sync(ALL, scanned, warp) - of_warp;
            if (threadIdx.x == WARPS - 1) {
                of_tile[turn % 2] = scanned;
                store(words + APART * tile, tile ? SUM : PREFIX, scanned);
            }
            int following = tickets[(turn + 1) % 2];
            if (following < tiles) load_tile(next, x, following, n);
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                unsigned to = place + (lower >> 8 * v & 255);
                float* line = kept + turn % 2 * TILE;
                if (parts[v].x > above) line[to++] = parts[v].x;
                if (parts[v].y > above) line[to++] = parts[v].y;
                if (parts[v].z > above) line[to++] = parts[v].z;
                if (parts[v].w > above) line[to++] = parts[v].w;
                place += whole >> 8 * v & 255;
            }
        }
        __syncthreads();
        if (!looks_back && turn) {
            // Warps store lines of 128 bytes: the first begins where the line of the tile's first element does.
            float* to = out + before_tile;
            int of_last = of_tile[(turn - 1) % 2];
            for (int i = (int)threadIdx.x - (int)(before_tile % 32); i < of_last; i += BLOCK)
                if (i >= 0) __stcs(to + i, kept[(turn - 1) % 2 * TILE + i]);
        }
        if (tile >= tiles) break;
        last = tile, tile = tickets[(turn + 1) % 2];
    }
    // END SOLUTION
}
"""
)
# BEGIN SOLUTION
clear_kernel = module.get_function("clear_kernel")
# END SOLUTION
compact_kernel = module.get_function("compact_kernel")
# BEGIN SOLUTION
compact_kernel.max_dynamic_shared_size_bytes = 2 * TILE * 4
# END SOLUTION


def compact(x, limit, out, count):
    """The elements of x above limit, in their order, at the start of out; count[0]: how many they are."""
    # BEGIN SOLUTION
    # STARTER: blocks = (x.size + BLOCK - 1) // BLOCK
    # STARTER: compact_kernel((blocks,), (BLOCK,), (x, np.int32(limit), out, count, np.int32(x.size)))
    tiles = (x.size + TILE - 1) // TILE
    words = cupy.empty(APART * (tiles + 1), np.uint64)  # of each tile, and the ticket
    clear_kernel(((words.size + 255) // 256,), (256,), (words, np.int32(words.size)))
    arguments = (x, np.int32(limit), out, count, words, words[APART * tiles :], np.int32(x.size))
    compact_kernel((min(tiles, BLOCKS),), (BLOCK + 32,), arguments, shared_mem=2 * TILE * 4)
    # END SOLUTION
