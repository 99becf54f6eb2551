"""Lab 09_fp8_gemm: y = x @ w.T on Hopper's tensor cores in FP8 with fine-grained scales, in CUDA C++.

A first kernel quantises x in blocks of 1 x 128. In the second, one warpgroup brings tiles with the tensor memory
accelerator and two multiply them with wgmma, promoting the sums of every 128 of k into float32. Parts 1 to 4 are yours;
the rest is given and works.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 128, 128, 6  # as in the source below
THREADS = 3 * 128
SMS = 132  # of an H100 or H200; a block stays on each
SHARED_BYTES = STAGES * TILE_K * (TILE_M + TILE_N) + 1024  # and what it takes to begin at a multiple of 1,024

# ---- Part 1: quantise ------------------------------------------------------------------------------------------------

quantise_kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>

// Two floats to two e4m3 in the lower 16 bits, `low` first: to nearest even, clamped to 448.
__device__ unsigned to_e4m3(float low, float high)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

// x8 and x_scale of x (m x k): warp after warp, a row's next 128 elements each. Row and block of k vary such that the
// eight warps of a block write neighbouring scales.
extern "C" __global__ void quantise(const half* x, unsigned* x8, float* x_scale, int m, int k)
{
    int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32, block = blockIdx.y;
    if (row >= m) return;
    int column = block * 128 + 4 * lane;  // of this lane's four elements; k is a multiple of 16
    // The scale is the smallest power of two of which the block's largest magnitude is at most 448; 1 for a block of
    // zeros. float16 numbers over a power of two are exact in float32.
}
""",
    "quantise",
    options=("-std=c++17", "-arch=sm_90a"),
)

gemm_kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 128, STAGES = 6;
constexpr int CONSUMERS = 2;                      // warpgroups of four warps, each with 64 rows of the tile
constexpr unsigned X_BYTES = TILE_M * TILE_K;     // 128 rows of 128 bytes
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

// ---- Given: tiles, the ring, and the producer (lab 08) -------------------------------------------------------------

// The first row and column of y that tile number `number` makes; false behind the last tile.
__device__ bool place(int number, int m, int n, int& row, int& column)
{
    constexpr int GROUP = 8;  // rows of tiles that are walked down together
    int down = (m + TILE_M - 1) / TILE_M, across = (n + TILE_N - 1) / TILE_N;
    int first = number / (GROUP * across) * GROUP, within = number % (GROUP * across);
    int height = min(down - first, GROUP);
    if (height <= 0) return false;
    row = (first + within % height) * TILE_M;
    column = within / height * TILE_N;
    return number < down * across;
}

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

// One thread of warpgroup 0: bring what a tile needs, stage by stage.
__device__ void produce(Ring& ring, const Map& map_x, const Map& map_w, int row, int column, int blocks)
{
    for (int block = 0; block < blocks; ++block) {
        wait(ring.empty_barrier(), ring.phase ^ 1);
        arrive_expecting(ring.full_barrier(), STAGE_BYTES);
        load_box(ring.data(), map_x, block * TILE_K, row, ring.full_barrier());
        load_box(ring.data() + X_BYTES, map_w, block * TILE_K, column, ring.full_barrier());
        ring.advance();
    }
}

// ---- Part 2: the products of a block of k --------------------------------------------------------------------------

// Where wgmma finds a matrix of 128-byte swizzled lines: address, and from eight lines to the next eight.
__device__ u64 descriptor(unsigned address)
{
    return (u64)(address >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// d = x w for 128 of k: `x` is this warpgroup's 64 lines of 128 bytes, `w` 128 such lines. A product takes 32 of k.
__device__ void multiply_block(float (&d)[SUMS], unsigned x, unsigned w)
{
}

// ---- Part 3: promotion ---------------------------------------------------------------------------------------------

// sums += d times the block's scales. d[4 j] and d[4 j + 1] are of this thread's upper row, the next two of its lower
// one, eight rows below.
__device__ void promote(float (&sums)[SUMS], const float (&d)[SUMS], float upper, float lower)
{
}

// ---- Part 4: the consumers -----------------------------------------------------------------------------------------

// All threads of warpgroup 1 or 2: the sums of 64 rows of a tile. `mine` is where their lines of x lie in a stage;
// `row` is this thread's upper row of x (the lower one is row + 8), `w_scale` the scales of this tile's columns.
__device__ void consume(Ring& ring, float (&sums)[SUMS], unsigned mine, const float* x_scale, const float* w_scale,
                        int row, int m, int blocks)
{
    bool leader = threadIdx.x % 32 == 0;  // a warp knows of its own products only, so each hands back for itself
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    // While one warpgroup promotes, the other one's products keep the tensor cores busy. The scales of a block are
    // read before its products are waited for.
    // Take every stage and hand it back unused, so that the producer does not wait for ever.
    for (int block = 0; block < blocks; ++block) {
        wait(ring.full_barrier(), ring.phase);
        if (leader) arrive(ring.empty_barrier());
        ring.advance();
    }
}

// ---- Given: sums to memory, and the frame --------------------------------------------------------------------------

__device__ void store(half* y, const float (&sums)[SUMS], int row, int column, int m, int n)
{
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
        if (column + 8 * j >= n) break;
        half* at = y + (long long)row * n + column + 8 * j;
        if (row < m) *(half2*)at = __floats2half2_rn(sums[4 * j], sums[4 * j + 1]);
        if (row + 8 < m) *(half2*)(at + 8ll * n) = __floats2half2_rn(sums[4 * j + 2], sums[4 * j + 3]);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
fp8_gemm(const __grid_constant__ Map map_x, const __grid_constant__ Map map_w, const float* x_scale,
         const float* w_scale, half* y, int m, int n, int k)
{
    extern __shared__ char raw[];
    __shared__ u64 barriers[2 * STAGES];
    unsigned first_barrier = shared_address(barriers);
    Ring ring = {(shared_address(raw) + 1023) & ~1023u, first_barrier, first_barrier + 8 * STAGES, 0, 0};
    if (threadIdx.x == 0) init_barriers(ring);
    __syncthreads();

    int warpgroup = threadIdx.x / 128, blocks = (k + TILE_K - 1) / TILE_K, row, column;
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int tile = blockIdx.x; place(tile, m, n, row, column); tile += gridDim.x)
                produce(ring, map_x, map_w, row, column, blocks);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int thread = threadIdx.x % 128, below = (warpgroup - 1) * 64 + thread / 32 * 16 + thread % 32 / 4;
        float sums[SUMS];
        for (int tile = blockIdx.x; place(tile, m, n, row, column); tile += gridDim.x) {
            const float* scales = w_scale + (long long)(column / 128) * blocks;
            consume(ring, sums, (warpgroup - 1) * X_BYTES / CONSUMERS, x_scale, scales, row + below, m, blocks);
            store(y, sums, row + below, column + thread % 4 * 2, m, n);
        }
    }
}
""",
    "fp8_gemm",
    options=("-std=c++17", "-arch=sm_90a"),
)
gemm_kernel.max_dynamic_shared_size_bytes = SHARED_BYTES


def quantise(x, x8, x_scale):
    """x8 and x_scale of x, m x k in float16."""
    m, k = x.shape
    grid = (m + 7) // 8, x_scale.shape[0]
    quantise_kernel(grid, (256,), (x, x8, x_scale, np.int32(m), np.int32(k)))


def multiply(x8, x_scale, w8, w_scale, y):
    """y = (x8 x_scale) @ (w8 w_scale).T: x8 is m x k and w8 n x k in e4m3, y m x n in float16."""
    (m, k), n = x8.shape, w8.shape[0]
    maps = tensor_map(x8, (TILE_M, TILE_K), swizzle=128), tensor_map(w8, (TILE_N, TILE_K), swizzle=128)
    tiles = (m + TILE_M - 1) // TILE_M * ((n + TILE_N - 1) // TILE_N)
    sizes = np.int32(m), np.int32(n), np.int32(k)
    arguments = (*maps, x_scale, w_scale, y, *sizes)
    gemm_kernel((min(tiles, SMS),), (THREADS,), arguments, shared_mem=SHARED_BYTES)


def fp8_gemm(x, w8, w_scale, x8, x_scale, y):
    """Quantise x in blocks of 1 x 128 into x8 and x_scale, then y = (x8 x_scale) @ (w8 w_scale).T.

    x is m x k and y m x n, float16; x8 (m x k) and w8 (n x k) hold e4m3 in uint8; x_scale has a row for each 128 of k
    and a column for each row of x, w_scale a row for each 128 rows of w8 and a column for each 128 of k, float32. k is
    a multiple of 16 and n of 8.
    """
    quantise(x, x8, x_scale)
    multiply(x8, x_scale, w8, w_scale, y)
