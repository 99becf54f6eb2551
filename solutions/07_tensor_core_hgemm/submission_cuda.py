"""Lab 07_tensor_core_hgemm: c = a @ b on tensor cores in CUDA C++, float16 in and out, added up in float32."""

import cupy
import numpy as np

# BEGIN SOLUTION
# STARTER: # Parts 1 to 3 are yours, one after the other; each earns points by itself. README.md says what each is.
# STARTER: M, N = 16, 8  # of one product, which a warp makes
TILE_M, TILE_N, TILE_K, STAGES, THREADS = 128, 256, 64, 4, 256
SHARED_BYTES = STAGES * 2 * TILE_K * (TILE_M + TILE_N)
TILE, EDGE_THREADS = 64, 128  # for sizes that are not whole tiles
# END SOLUTION

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>
typedef unsigned u32;
// BEGIN SOLUTION
// STARTER:
// STARTER: // d += a b: 16 x 8 sums and 16 steps of k, by a warp.
// STARTER: __device__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2])
// STARTER: {
// STARTER:     asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
// STARTER:                  "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
// STARTER:                  : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
// STARTER:                  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
// STARTER: }
// STARTER:
// STARTER: __device__ u32 pair(half first, half second)
// STARTER: {
// STARTER:     return __half_as_ushort(first) | __half_as_ushort(second) << 16;
// STARTER: }
// STARTER:
// STARTER: // An element of a matrix of rows x cols, or zero outside of it.
// STARTER: __device__ half element(const half* matrix, int rows, int cols, int row, int col)
// STARTER: {
// STARTER:     return row < rows && col < cols ? matrix[(size_t)row * cols + col] : __float2half(0);
// STARTER: }
// STARTER:
// STARTER: // What lane 4 g + q holds of the 16 x 16 elements of a from (row, p) on: four pairs of neighbours.
// STARTER: __device__ void fragment_a(u32 (&d)[4], const half* a, int m, int k, int row, int p, int g, int q)
// STARTER: {
// STARTER:     d[0] = pair(element(a, m, k, row + g, p + 2 * q), element(a, m, k, row + g, p + 2 * q + 1));
// STARTER:     // Part 1: the other three: row g + 8, and both rows again eight columns further on.
// STARTER:     d[1] = d[2] = d[3] = d[0];
// STARTER: }
// STARTER:
// STARTER: // What it holds of the 16 x 8 elements of b from (p, col) on: two pairs of neighbours along k, of column g.
// STARTER: __device__ void fragment_b(u32 (&d)[2], const half* b, int k, int n, int p, int col, int g, int q)
// STARTER: {
// STARTER:     // Part 1: rows 2 q and 2 q + 1, and the same eight further on.
// STARTER:     d[0] = d[1] = 0;
// STARTER: }

// Whole tiles: eight warps of 64 x 64 outputs, the tiles of four stages in shared memory. A row of a tile is a whole
// number of 128 bytes: the 16-byte piece q of row r lies at place q ^ (r % 8), so that rows begin in different banks.
constexpr int M = 128, N = 256, K = 64, STAGES = 4, THREADS = 256;
constexpr int GROUP = 8;  // rows of tiles that are computed together, so that what they share of b stays in L2
constexpr u32 A_BYTES = 2 * M * K, STAGE_BYTES = A_BYTES + 2 * K * N;

__device__ u32 piece(u32 row, u32 q, u32 row_bytes) { return row * row_bytes + ((q ^ (row & 7)) << 4); }

__device__ void copy16(u32 to, const half* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}

__device__ void load4(u32 (&d)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
}

__device__ void load4_down(u32 (&d)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
}

__device__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct Fragments {
    u32 a[4][4], b[4][4];

    // What 64 x 64 outputs need for 16 steps of k, of step `step` of a stage.
    __device__ void load(u32 stage, u32 row, u32 col_piece, u32 lane, u32 step)
    {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            load4(a[i], stage + piece(row + 16 * i + (lane & 15), 2 * step + (lane >> 4), 2 * K));
#pragma unroll
        for (int j = 0; j < 4; ++j)
            load4_down(b[j], stage + A_BYTES + piece(16 * step + (lane & 15), col_piece + 2 * j + (lane >> 4), 2 * N));
    }

    // Row after row, forth and back: neighbouring products share the fragment of a, or of b where a row ends.
    __device__ void add_to(float (&sums)[4][8][4])
    {
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int step = 0; step < 8; ++step) {
                const int j = i % 2 ? 7 - step : step;
                multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
whole_tiles_kernel(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char memory[];
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(memory));
    const u32 t = threadIdx.x, lane = t & 31, warp_row = t / 128 * 64, warp_col = t / 32 % 4 * 64;
    const int tiles_m = m / M, tiles_n = n / N, first = blockIdx.x / (GROUP * tiles_n) * GROUP;
    const int height = min(tiles_m - first, GROUP), place = blockIdx.x % (GROUP * tiles_n);
    const size_t row0 = (first + place % height) * M, col0 = place / height * N;

    const half* from_a = a + (row0 + t / 8) * k + t % 8 * 8;
    const half* from_b = b + static_cast<size_t>(t / 32) * n + col0 + t % 32 * 8;
    auto fetch = [&](u32 stage) {
#pragma unroll
        for (int i = 0; i < 4; ++i) copy16(stage + piece(t / 8 + 32 * i, t % 8, 2 * K), from_a + 32ull * i * k);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            copy16(stage + A_BYTES + piece(t / 32 + 8 * i, t % 32, 2 * N), from_b + 8ull * i * n);
        from_a += K;
        from_b += static_cast<size_t>(K) * n;
    };
    auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };
    auto wait_for_next_stage = [] {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();
    };

    float sums[4][8][4] = {};
    for (int s = 0; s < STAGES - 1; ++s) {
        fetch(base + s * STAGE_BYTES);
        commit();
    }
    u32 read = base, fill = base + (STAGES - 1) * STAGE_BYTES;
    const u32 end = base + STAGES * STAGE_BYTES;
    Fragments even, odd;
    wait_for_next_stage();
    even.load(read, warp_row, warp_col / 8, lane, 0);
    const int steps = k / K;
    for (int step = 0; step < steps; ++step) {
        odd.load(read, warp_row, warp_col / 8, lane, 1);
        even.add_to(sums);
        even.load(read, warp_row, warp_col / 8, lane, 2);
        if (step + STAGES - 1 < steps) fetch(fill);
        commit();  // an empty group keeps the count of the wait right
        fill = fill + STAGE_BYTES == end ? base : fill + STAGE_BYTES;
        odd.add_to(sums);
        odd.load(read, warp_row, warp_col / 8, lane, 3);
        even.add_to(sums);
        wait_for_next_stage();
        read = read + STAGE_BYTES == end ? base : read + STAGE_BYTES;
        even.load(read, warp_row, warp_col / 8, lane, 0);
        odd.add_to(sums);
    }

    // A warp's results, put into rows of 128 bytes where its operands were, leave 16 bytes a lane.
    __syncthreads();
    unsigned char* mine = memory + t / 32 * (2 * 64 * 64);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                u32 at = piece(16 * i + 8 * h + lane / 4, j, 128) + 4 * (lane % 4);
                *reinterpret_cast<half2*>(mine + at) = __floats2half2_rn(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
            }
    __syncwarp();
    half* to = c + (row0 + warp_row + lane / 8) * n + col0 + warp_col + lane % 8 * 8;
#pragma unroll
    for (int i = 0; i < 16; ++i)
        *reinterpret_cast<uint4*>(to + 4ull * i * n) =
            *reinterpret_cast<const uint4*>(mine + piece(4 * i + lane / 8, lane % 8, 128));
}

constexpr int TILE = 64, EDGE_THREADS = 128;

// A tile of 64 x 64 elements of a matrix of rows x cols, eight at once if rows begin at multiples of 16 bytes; zeros
// beyond the edges.
__device__ void fill_tile(half* tile, const half* matrix, int rows, int cols, int row0, int col0)
{
    for (int i = threadIdx.x; i < TILE * TILE / 8; i += EDGE_THREADS) {
        int row = row0 + i / 8, col = col0 + i % 8 * 8;
        const half* from = matrix + static_cast<size_t>(row) * cols + col;
        half* to = tile + piece(i / 8, i % 8, 2 * TILE) / 2;
        if (cols % 8 == 0 && row < rows && col < cols)
            *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
        else
            for (int e = 0; e < 8; ++e) to[e] = row < rows && col + e < cols ? from[e] : __float2half(0.0f);
    }
}
// END SOLUTION

extern "C" __global__ void gemm_kernel(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c,
                                       int m, int n, int k)
{
    // BEGIN SOLUTION
    // STARTER: // a is m x k, b is k x n, c is m x n. A block is one warp, and makes 16 x 8 elements of c.
    // STARTER: const int g = threadIdx.x / 4, q = threadIdx.x % 4;
    // STARTER: // Part 2: where this block's elements begin.
    // STARTER: const int row = 0, col = 0;
    // STARTER: float d[4] = {0, 0, 0, 0};
    // STARTER: u32 of_a[4], of_b[2];
    // STARTER: // Part 3: all steps of k.
    // STARTER: fragment_a(of_a, a, m, k, row, 0, g, q);
    // STARTER: fragment_b(of_b, b, k, n, 0, col, g, q);
    // STARTER: multiply(d, of_a, of_b);
    // STARTER: for (int i = 0; i < 4; ++i) {
    // STARTER:     int out_row = row + g + 8 * (i / 2), out_col = col + 2 * q + i % 2;
    // STARTER:     if (out_row < m && out_col < n) c[(size_t)out_row * n + out_col] = __float2half(d[i]);
    // STARTER: }
    // Any size: 64 x 64 outputs a block, zeros beyond the edges.
    __shared__ __align__(128) half tile_a[TILE * TILE];
    __shared__ __align__(128) half tile_b[TILE * TILE];
    const u32 at_a = static_cast<u32>(__cvta_generic_to_shared(tile_a));
    const u32 at_b = static_cast<u32>(__cvta_generic_to_shared(tile_b));
    const int lane = threadIdx.x & 31, warp_row = threadIdx.x / 64 * 32, warp_col = threadIdx.x / 32 % 2 * 32;
    const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
    float sums[2][4][4] = {};
    for (int p0 = 0; p0 < k; p0 += TILE) {
        fill_tile(tile_a, a, m, k, row0, p0);
        fill_tile(tile_b, b, k, n, p0, col0);
        __syncthreads();
        for (int step = 0; step < 4; ++step) {
            u32 part_a[2][4], part_b[4];
#pragma unroll
            for (int i = 0; i < 2; ++i)
                load4(part_a[i], at_a + piece(warp_row + 16 * i + (lane & 15), 2 * step + (lane >> 4), 2 * TILE));
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                load4_down(part_b, at_b + piece(16 * step + (lane & 15), warp_col / 8 + 2 * j + (lane >> 4), 2 * TILE));
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    multiply(sums[i][2 * j], part_a[i], part_b[0], part_b[1]);
                    multiply(sums[i][2 * j + 1], part_a[i], part_b[2], part_b[3]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int row = row0 + warp_row + 16 * i + 8 * (e / 2) + lane / 4;
                int col = col0 + warp_col + 8 * j + 2 * (lane % 4) + e % 2;
                if (row < m && col < n) c[static_cast<size_t>(row) * n + col] = __float2half(sums[i][j][e]);
            }
    // END SOLUTION
}
"""
)


def hgemm(a, b, c):
    """c = a @ b. a is m x k, b is k x n and c is m x n, all float16 and in C order."""
    m, n = c.shape
    k = a.shape[1]
    sizes = np.int32(m), np.int32(n), np.int32(k)
    # BEGIN SOLUTION
    # STARTER: blocks = (1, 1)  # Part 2: along n, along m
    # STARTER: module.get_function("gemm_kernel")(blocks, (32,), (a, b, c, *sizes))
    if m % TILE_M == 0 and n % TILE_N == 0 and k % TILE_K == 0 and k >= STAGES * TILE_K:
        kernel = module.get_function("whole_tiles_kernel")
        kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
        kernel((m // TILE_M * (n // TILE_N),), (THREADS,), (a, b, c, *sizes), shared_mem=SHARED_BYTES)
    else:
        blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
        module.get_function("gemm_kernel")(blocks, (EDGE_THREADS,), (a, b, c, *sizes))
    # END SOLUTION
