"""Lab 11_grouped_gemm: y = x @ w.T for every expert's rows of x, in one launch of blocks that stay, in CUDA C++.

One warpgroup brings tiles of codes with the tensor memory accelerator and two multiply them with wgmma, promoting the
sums of every 128 of k into float32, as in lab 09. Which expert a tile is of, only the device knows. Parts 1 to 4 are
yours; the rest is given and works.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 128, 128, 6  # as in the source below
HALF_M = 64  # rows of x that a warpgroup multiplies, and that one copy brings
THREADS = 3 * 128
SMS = 132  # of an H100 or H200; a block stays on each
SHARED_BYTES = STAGES * TILE_K * (TILE_M + TILE_N) + 1024  # and what it takes to begin at a multiple of 1,024

kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 128, STAGES = 6;
constexpr int CONSUMERS = 2;                      // warpgroups of four warps, each with 64 rows of the tile
constexpr unsigned HALF_BYTES = 64 * TILE_K;      // 64 rows of 128 bytes: what one consumer multiplies
constexpr unsigned X_BYTES = CONSUMERS * HALF_BYTES;
constexpr unsigned W_BYTES = TILE_N * TILE_K;     // 128 rows of 128 bytes: w has k along its rows, as x has
constexpr unsigned STAGE_BYTES = X_BYTES + W_BYTES;
constexpr int SUMS = TILE_N / 2;                  // that a thread keeps of 64 x TILE_N

struct alignas(64) Map { unsigned long long words[16]; };
typedef unsigned long long u64;

// ---- Given: one instruction each -----------------------------------------------------------------------------------

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// An mbarrier's phase ends when `count` arrivals and all expected bytes have come; then the next phase begins.
__device__ void init(unsigned barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ void arrive_expecting(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
// Copy a box of a matrix, from byte x of row y, to shared memory; its bytes count at the barrier.
__device__ void load_box(unsigned to, const Map& map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ void products_wait()  // until at most so many committed groups are not yet done
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
// d (64 x 128) += a (64 x 32) b (32 x 128) in e4m3, or d = a b: k runs along the lines of both in shared memory.
#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
              "+f"(d[i + 6]), "+f"(d[i + 7])
__device__ void multiply(float (&d)[SUMS], u64 a, u64 b, bool add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, %64, %65, p, 1, 1; }"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)
                 : "l"(a), "l"(b), "r"((int)add));
}

// ---- Part 1: which tile is whose -----------------------------------------------------------------------------------

// Where the rows of the experts are, as the device's memory has it.
struct Groups {
    const int *first, *count;
    int experts, n;
};

// One tile: the rows of an expert from `row` on, which end before `end`, and its columns from `column` on. Two more
// numbers say where the search goes on: `before` is the number of the expert's first tile.
struct Tile {
    int expert, row, end, column, before;
};

// A tile of `tall` rows of tiles of one expert, `number` counting from the expert's first. Given, as in lab 08: it
// walks down eight rows of tiles, then to the next column, so that what neighbours share stays in L2.
__device__ void place(int number, int tall, int n, int& row, int& column)
{
    constexpr int GROUP = 8;
    int across = (n + TILE_N - 1) / TILE_N;
    int first = number / (GROUP * across) * GROUP, height = min(tall - first, GROUP);
    int within = number % (GROUP * across);
    row = (first + within % height) * TILE_M;
    column = within / height * TILE_N;
}

// Tile number `number` of all experts' tiles, those of expert 0 first; false behind the last one. Numbers of one
// thread only grow, so `tile` says at which expert to go on. It begins as {0, 0, 0, 0, 0}.
__device__ bool find(const Groups& groups, int number, Tile& tile)
{
    // An expert without rows has no tile. One with 130 rows has two rows of tiles, of 128 and of 2 rows.
    // BEGIN SOLUTION
    // STARTER: return false;
    int across = (groups.n + TILE_N - 1) / TILE_N;
    for (; tile.expert < groups.experts; ++tile.expert) {
        int rows = groups.count[tile.expert], tall = (rows + TILE_M - 1) / TILE_M;
        if (number < tile.before + tall * across) {
            place(number - tile.before, tall, groups.n, tile.row, tile.column);
            tile.row += groups.first[tile.expert];
            tile.end = groups.first[tile.expert] + rows;
            return true;
        }
        tile.before += tall * across;
    }
    return false;
    // END SOLUTION
}

// ---- Given: the ring -----------------------------------------------------------------------------------------------

// A stage is full when its copies have come, and empty when all warps of both consumers are done with it.
struct Ring {
    unsigned stages, full, empty;  // shared addresses: of stage 0, and of the first barrier of each kind
    int stage;
    unsigned phase;                // which parity of `full` the stage at hand completes

    __device__ unsigned data() const { return stages + stage * STAGE_BYTES; }
    __device__ unsigned full_barrier() const { return full + 8 * stage; }
    __device__ unsigned empty_barrier() const { return empty + 8 * stage; }
    __device__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

__device__ void init_barriers(const Ring& ring)
{
    for (int s = 0; s < STAGES; ++s) {
        init(ring.full + 8 * s, 1);
        init(ring.empty + 8 * s, 4 * CONSUMERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- Part 2: the producer ------------------------------------------------------------------------------------------

// One thread of warpgroup 0: bring what a tile needs, stage by stage. A box of map_x has 64 rows of x8, one of map_w
// 128 rows of w8, where the n rows of an expert lie behind those of the one before.
__device__ void produce(Ring& ring, const Map& map_x, const Map& map_w, const Tile& tile, int n, int blocks)
{
    // The second half of x is not needed if its rows are behind the group's end.
    // BEGIN SOLUTION
    // STARTER: // Tell the consumers that every stage is full, with nothing in it, so that they do not wait for ever.
    // STARTER: for (int block = 0; block < blocks; ++block) {
    // STARTER:     wait(ring.empty_barrier(), ring.phase ^ 1);
    // STARTER:     arrive_expecting(ring.full_barrier(), 0);
    // STARTER:     ring.advance();
    // STARTER: }
    bool both = tile.row + 64 < tile.end;
    for (int block = 0; block < blocks; ++block) {
        wait(ring.empty_barrier(), ring.phase ^ 1);
        arrive_expecting(ring.full_barrier(), (both ? X_BYTES : HALF_BYTES) + W_BYTES);
        load_box(ring.data(), map_x, block * TILE_K, tile.row, ring.full_barrier());
        if (both) load_box(ring.data() + HALF_BYTES, map_x, block * TILE_K, tile.row + 64, ring.full_barrier());
        load_box(ring.data() + X_BYTES, map_w, block * TILE_K, tile.expert * n + tile.column, ring.full_barrier());
        ring.advance();
    }
    // END SOLUTION
}

// ---- Given: the products of a block of k, and promotion (lab 09) ---------------------------------------------------

// Where wgmma finds a matrix of 128-byte swizzled lines: address, and from eight lines to the next eight.
__device__ u64 descriptor(unsigned address)
{
    return (u64)(address >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// d = x w for 128 of k: `x` is this warpgroup's 64 lines of 128 bytes, `w` 128 such lines. A product takes 32 of k.
__device__ void multiply_block(float (&d)[SUMS], unsigned x, unsigned w)
{
    u64 rows = descriptor(x), columns = descriptor(w);
#pragma unroll
    for (int k = 0; k < TILE_K / 32; ++k) multiply(d, rows + k * 32 / 16, columns + k * 32 / 16, k > 0);
}

// sums += d times the block's scales. d[4 j] and d[4 j + 1] are of this thread's upper row, the next two of its lower
// one, eight rows below.
__device__ void promote(float (&sums)[SUMS], const float (&d)[SUMS], float upper, float lower)
{
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] += d[i] * (i % 4 < 2 ? upper : lower);
}

// ---- Part 3: the consumers -----------------------------------------------------------------------------------------

// All threads of warpgroup 1 or 2: the sums of 64 rows of a tile. `mine` is where their lines of x lie in a stage,
// `row` this thread's upper row of x (the lower one is row + 8), `some` says whether any of the 64 rows is the
// expert's; x_scale has `slots` numbers for each block of k, `w_scale` this tile's for each.
__device__ void consume(Ring& ring, float (&sums)[SUMS], unsigned mine, const float* x_scale, const float* w_scale,
                        int row, int end, bool some, int slots, int blocks)
{
    bool leader = threadIdx.x % 32 == 0;  // a warp knows of its own products only, so each hands back for itself
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    // Rows behind the end are somebody else's or nobody's: what is made of them is not stored, and their scales may be
    // anything. A warpgroup without rows still has to take every stage and hand it back.
    // BEGIN SOLUTION
    // STARTER: for (int block = 0; block < blocks; ++block) {
    // STARTER:     wait(ring.full_barrier(), ring.phase);
    // STARTER:     if (leader) arrive(ring.empty_barrier());
    // STARTER:     ring.advance();
    // STARTER: }
    if (!some) {
        for (int block = 0; block < blocks; ++block) {
            wait(ring.full_barrier(), ring.phase);
            if (leader) arrive(ring.empty_barrier());
            ring.advance();
        }
        return;
    }
    float d[SUMS];
    int upper = min(row, end - 1), lower = min(row + 8, end - 1);
    for (int block = 0; block < blocks; ++block) {
        const float* scales = x_scale + (long long)block * slots;
        float of_w = w_scale[block], of_upper = scales[upper] * of_w, of_lower = scales[lower] * of_w;
        wait(ring.full_barrier(), ring.phase);
        products_begin();
        multiply_block(d, ring.data() + mine, ring.data() + X_BYTES);
        products_commit();
        products_wait<0>();
        if (leader) arrive(ring.empty_barrier());
        promote(sums, d, of_upper, of_lower);
        ring.advance();
    }
    // END SOLUTION
}

// ---- Part 4: sums to memory ----------------------------------------------------------------------------------------

// A thread's sums are of row `row` and of the one eight below, and of two columns in every eight from `column` on.
// sums[4 j] and the next one are of the upper row.
__device__ void store(half* y, const float (&sums)[SUMS], int row, int end, int column, int n)
{
    // Rows from `end` on belong to another expert, or to nobody, and keep what they hold.
    // BEGIN SOLUTION
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
        if (column + 8 * j >= n) break;
        half* at = y + (long long)row * n + column + 8 * j;
        if (row < end) *(half2*)at = __floats2half2_rn(sums[4 * j], sums[4 * j + 1]);
        if (row + 8 < end) *(half2*)(at + 8ll * n) = __floats2half2_rn(sums[4 * j + 2], sums[4 * j + 3]);
    }
    // END SOLUTION
}

// ---- Given: the frame ----------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(384, 1)
grouped_gemm(const __grid_constant__ Map map_x, const __grid_constant__ Map map_w, const float* x_scale,
             const float* w_scale, const int* first, const int* count, half* y, int slots, int experts, int n, int k)
{
    extern __shared__ char raw[];
    __shared__ u64 barriers[2 * STAGES];
    unsigned first_barrier = shared_address(barriers);
    Ring ring = {(shared_address(raw) + 1023) & ~1023u, first_barrier, first_barrier + 8 * STAGES, 0, 0};
    if (threadIdx.x == 0) init_barriers(ring);
    __syncthreads();

    int warpgroup = threadIdx.x / 128, blocks = (k + TILE_K - 1) / TILE_K, panels = (n + TILE_N - 1) / TILE_N;
    Groups groups = {first, count, experts, n};
    Tile tile = {0, 0, 0, 0, 0};
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int number = blockIdx.x; find(groups, number, tile); number += gridDim.x)
                produce(ring, map_x, map_w, tile, n, blocks);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int half_of_tile = (warpgroup - 1) * 64, thread = threadIdx.x % 128;
        int below = half_of_tile + thread / 32 * 16 + thread % 32 / 4;
        float sums[SUMS];
        for (int number = blockIdx.x; find(groups, number, tile); number += gridDim.x) {
            const float* scales = w_scale + (long long)(tile.expert * panels + tile.column / TILE_N) * blocks;
            consume(ring, sums, (warpgroup - 1) * HALF_BYTES, x_scale, scales, tile.row + below, tile.end,
                    tile.row + half_of_tile < tile.end, slots, blocks);
            store(y, sums, tile.row + below, tile.end, tile.column + thread % 4 * 2, n);
        }
    }
}
""",
    "grouped_gemm",
    options=("-std=c++17", "-arch=sm_90a"),
)
kernel.max_dynamic_shared_size_bytes = SHARED_BYTES


def grouped_gemm(most, x8, x_scale, w8, w_scale, first, count, y):
    """y = (x8 x_scale) @ (w8[e] w_scale[e]).T for the rows of each expert e: count[e] of them, from first[e] on.

    x8 (slots x k) and w8 (experts x n x k) hold e4m3 in uint8; x_scale has a row for each 128 of k and a column for
    each row of x8, w_scale for each expert a row for each 128 rows of w8 and a column for each 128 of k, float32. y is
    slots x n in float16. No expert has more than `most` rows, groups do not overlap, and first and count (int32) are
    known to the device only: nothing on the host depends on them. k is a multiple of 16 and n of 8.
    """
    (slots, k), (experts, n, _) = x8.shape, w8.shape
    maps = tensor_map(x8, (HALF_M, TILE_K)), tensor_map(w8.reshape(experts * n, k), (TILE_N, TILE_K))
    tall = min(experts * -(-most // TILE_M), slots // TILE_M + experts)  # rows of tiles, whatever the counts are
    blocks = min(tall * -(-n // TILE_N), SMS)
    sizes = np.int32(slots), np.int32(experts), np.int32(n), np.int32(k)
    arguments = (*maps, x_scale, w_scale, first, count, y, *sizes)
    kernel((blocks,), (THREADS,), arguments, shared_mem=SHARED_BYTES)
