"""Lab 11_k_grouped_gemm: dw = dy.T @ x over the tokens of every expert, in one launch of blocks that stay, in CUDA C++.

One warpgroup brings boxes of both matrices with the tensor memory accelerator and two multiply them with wgmma, which
reads both across their lines. How many tokens an expert has, only the device knows. Parts 1 to 4 are yours; the rest is
given and works.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4  # as in the source below
BOX = 64  # elements of a 128-byte line, and lines of a box
THREADS = 3 * 128
SMS = 132  # of an H100 or H200; a block stays on each
SHARED_BYTES = STAGES * 2 * TILE_K * (TILE_M + TILE_N) + 1024  # and what it takes to begin at a multiple of 1,024

kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>

// ---- Given: one instruction each -----------------------------------------------------------------------------------

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64, STAGES = 4, BOX = 64, CONSUMERS = 2;
constexpr unsigned BOX_BYTES = BOX * 128;                        // 64 lines of 64 float16
constexpr unsigned A_BYTES = TILE_M / BOX * BOX_BYTES, B_BYTES = TILE_N / BOX * BOX_BYTES;
constexpr unsigned STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SUMS = TILE_N / 2;                                 // that a thread keeps of 64 x TILE_N

struct alignas(64) Map { unsigned long long words[16]; };
typedef unsigned long long u64;

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
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
// A box from element x of line y: what is outside of the array comes as zeros.
__device__ void load_box(unsigned to, const Map& map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
// d (64 x 256) += a (64 x 16) b (16 x 256) in float16. The lines of both run
// across the depth, one a token: the last two numbers say so.
#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
              "+f"(d[i + 6]), "+f"(d[i + 7])
__device__ void multiply(float (&d)[SUMS], u64 a, u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, %128, %129, 1, 1, 1, 1, 1;"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56),
                   D8(64), D8(72), D8(80), D8(88), D8(96), D8(104), D8(112), D8(120)
                 : "l"(a), "l"(b));
}
// Where wgmma finds 128-byte swizzled lines, one a token: the address, from one box of 64 columns to the next, and from
// eight lines to the next eight.
__device__ u64 descriptor(unsigned address)
{
    return (u64)(address >> 4) | (u64)(BOX_BYTES >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// ---- Part 1: which tile is whose -----------------------------------------------------------------------------------

// One tile: of which expert, its first row and column of dw[expert], how many tokens are summed over and the first one.
struct Tile {
    int expert, row, column, depth, from;
};
struct Groups {
    const int *first, *count;
    int experts, m, n;
};

// Number `number` of a result's tiles, `tall` of them high: eight rows of tiles down, then to the next column.
__device__ void place(int number, int tall, int n, int& row, int& column)
{
    constexpr int GROUP = 8;
    int across = (n + TILE_N - 1) / TILE_N;
    int first = number / (GROUP * across) * GROUP, height = min(tall - first, GROUP);
    int within = number % (GROUP * across);
    row = (first + within % height) * TILE_M;
    column = within / height * TILE_N;
}

// Tile `number` of all experts, those of expert 0 first; false behind the last one.
__device__ bool find(const Groups& groups, int number, Tile& tile)
{
    // Every expert has the same number of tiles: one without tokens has a gradient too, of zeros.
    // BEGIN SOLUTION
    // STARTER: return false;
    int tall = (groups.m + TILE_M - 1) / TILE_M, tiles = tall * ((groups.n + TILE_N - 1) / TILE_N);
    tile.expert = number / tiles;
    if (tile.expert >= groups.experts) return false;
    place(number % tiles, tall, groups.n, tile.row, tile.column);
    tile.from = groups.first[tile.expert];
    tile.depth = groups.count[tile.expert];
    return true;
    // END SOLUTION
}

// ---- Given: the ring -----------------------------------------------------------------------------------------------

struct Ring {
    unsigned stages, full, empty;
    int stage;
    unsigned phase;

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

// ---- Part 2: the producer ------------------------------------------------------------------------------------------

// One thread: what a tile needs, 64 tokens at a time. A box has 64 columns of 64 tokens, a line each: two of dy stand
// first in a stage, four of x behind them. Boxes run on into the tokens of others; columns that do not exist are zeros.
__device__ void produce(Ring& ring, const Map& map_dy, const Map& map_x, const Tile& tile)
{
    // BEGIN SOLUTION
    // STARTER: // Tell the consumers that every stage is full, with nothing in it, so that they do not wait for ever.
    // STARTER: for (int k = 0; k < tile.depth; k += TILE_K) {
    // STARTER:     wait(ring.empty_barrier(), ring.phase ^ 1);
    // STARTER:     arrive_expecting(ring.full_barrier(), 0);
    // STARTER:     ring.advance();
    // STARTER: }
    for (int k = 0; k < tile.depth; k += TILE_K) {
        wait(ring.empty_barrier(), ring.phase ^ 1);
        unsigned full = ring.full_barrier(), to = ring.data();
        arrive_expecting(full, STAGE_BYTES);
        for (int i = 0; i < TILE_M / BOX; ++i, to += BOX_BYTES)
            load_box(to, map_dy, tile.row + i * BOX, tile.from + k, full);
        for (int i = 0; i < TILE_N / BOX; ++i, to += BOX_BYTES)
            load_box(to, map_x, tile.column + i * BOX, tile.from + k, full);
        ring.advance();
    }
    // END SOLUTION
}

// ---- Part 3: the end of a group ------------------------------------------------------------------------------------

// Both consumers: tokens from `left` on are the next expert's, or nobody's and anything. A step takes 16 of them, so
// lines up to the next multiple become zeros, in both operands, as NaN times zero would stay.
__device__ void clear_tail(unsigned stage, int left)
{
    // Line t of every box is token t; swizzling moves bytes within a line only.
    // BEGIN SOLUTION
    int pieces = ((left + 15) / 16 * 16 - left) * 8, boxes = (TILE_M + TILE_N) / BOX;
    for (int i = threadIdx.x - 128; i < pieces * boxes; i += 256) {
        unsigned at = stage + i / pieces * BOX_BYTES + left * 128 + i % pieces * 16;
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(at), "r"(0) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads by another proxy than threads write
    asm volatile("bar.sync 1, 256;" ::: "memory");
    // END SOLUTION
}

// ---- Part 4: the consumers -----------------------------------------------------------------------------------------

// All threads of both consumers: sums of 64 x 256. A product is in flight while the next stage is awaited.
__device__ void consume(Ring& ring, float (&sums)[SUMS], unsigned mine, const Tile& tile)
{
    bool leader = threadIdx.x % 32 == 0;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    // BEGIN SOLUTION
    // STARTER: for (int k = 0; k < tile.depth; k += TILE_K) {
    // STARTER:     wait(ring.full_barrier(), ring.phase);
    // STARTER:     if (leader) arrive(ring.empty_barrier());
    // STARTER:     ring.advance();
    // STARTER: }
    unsigned before = 0;  // the barrier of the stage that the product in flight reads
    for (int k = 0; k < tile.depth; k += TILE_K) {
        wait(ring.full_barrier(), ring.phase);
        int left = min(tile.depth - k, TILE_K);
        if (left % 16) clear_tail(ring.data(), left);
        u64 a = descriptor(ring.data() + mine), b = descriptor(ring.data() + A_BYTES);
        products_begin();
#pragma unroll
        for (int step = 0; step < TILE_K / 16; ++step)  // 16 tokens: 16 lines
            if (16 * step < left) multiply(sums, a + step * 128, b + step * 128);
        products_commit();
        products_wait<1>();
        if (leader && before) arrive(before);
        before = ring.empty_barrier();
        ring.advance();
    }
    products_wait<0>();
    if (leader && before) arrive(before);
    // END SOLUTION
}

// ---- Given: sums to memory, and the frame --------------------------------------------------------------------------

__device__ void store(half* dw, const float (&sums)[SUMS], int row, int end, int column, int n)
{
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
        if (column + 8 * j >= n) break;
        half* at = dw + (long long)row * n + column + 8 * j;
        if (row < end) *(half2*)at = __floats2half2_rn(sums[4 * j], sums[4 * j + 1]);
        if (row + 8 < end) *(half2*)(at + 8ll * n) = __floats2half2_rn(sums[4 * j + 2], sums[4 * j + 3]);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
k_grouped_gemm(const __grid_constant__ Map map_dy, const __grid_constant__ Map map_x, const int* first,
               const int* count, half* dw, int experts, int m, int n)
{
    extern __shared__ char raw[];
    __shared__ u64 barriers[2 * STAGES];
    unsigned first_barrier = shared_address(barriers);
    Ring ring = {(shared_address(raw) + 1023) & ~1023u, first_barrier, first_barrier + 8 * STAGES, 0, 0};
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(ring.full + 8 * s, 1);
            init(ring.empty + 8 * s, 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    int warpgroup = threadIdx.x / 128;
    Groups groups = {first, count, experts, m, n};
    Tile tile = {0, 0, 0, 0, 0};
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int number = blockIdx.x; find(groups, number, tile); number += gridDim.x)
                produce(ring, map_dy, map_x, tile);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int thread = threadIdx.x % 128, below = (warpgroup - 1) * BOX + thread / 32 * 16 + thread % 32 / 4;
        float sums[SUMS];
        for (int number = blockIdx.x; find(groups, number, tile); number += gridDim.x) {
            consume(ring, sums, (warpgroup - 1) * BOX_BYTES, tile);
            half* mine = dw + (long long)tile.expert * m * n;
            store(mine, sums, tile.row + below, m, tile.column + thread % 4 * 2, n);
        }
    }
}
""",
    "k_grouped_gemm",
    options=("-std=c++17", "-arch=sm_90a"),
)
kernel.max_dynamic_shared_size_bytes = SHARED_BYTES


def k_grouped_gemm(dy, x, first, count, dw):
    """dw[e] = dy[tokens of e].T @ x[tokens of e] for each expert e: count[e] tokens, from row first[e] on.

    dy (slots x m), x (slots x n) and dw (experts x m x n) are float16, m and n multiples of 8. first and count (int32)
    are known to the device only: nothing on the host depends on them. Without tokens dw[e] is zero, and rows that are
    nobody's may hold anything.
    """
    experts, m, n = dw.shape
    maps = tensor_map(dy, (BOX, BOX)), tensor_map(x, (BOX, BOX))
    tiles = experts * -(-m // TILE_M) * -(-n // TILE_N)
    arguments = (*maps, first, count, dw, np.int32(experts), np.int32(m), np.int32(n))
    kernel((min(tiles, SMS),), (THREADS,), arguments, shared_mem=SHARED_BYTES)
