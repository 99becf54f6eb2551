"""hgemm, for a T4 (sm_75): the same in CUDA C++.

Products of 16 x 8 x 8; the next tile waits in registers while the present one is multiplied, in two stages of 24 KiB.
"""

import cupy
import numpy as np

TILE_M, TILE_N, TILE_K, THREADS = 128, 256, 32, 256
SHARED_BYTES = 2 * 2 * TILE_K * (TILE_M + TILE_N)
TILE, EDGE_THREADS = 64, 128  # for sizes that are not whole tiles

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>
typedef unsigned u32;

constexpr int M = 128, N = 256, K = 32, THREADS = 256;
constexpr int GROUP = 8;  // rows of tiles that are computed together, so that what they share of b stays in L2
constexpr u32 A_BYTES = 2 * M * K, STAGE_BYTES = A_BYTES + 2 * K * N;

// Where the 16-byte piece q of a row lies, so that eight rows below each other are in different banks: a row of b's
// tile is a whole number of 128 bytes, two rows of a's tile are 128.
__device__ u32 piece(u32 row, u32 q, u32 row_bytes) { return row * row_bytes + ((q ^ (row & 7)) << 4); }
__device__ u32 piece_of_a(u32 row, u32 q) { return row * (2 * K) + ((q ^ (row >> 1 & 3)) << 4); }

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

__device__ void multiply(float (&d)[4], u32 a0, u32 a1, u32 b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b));
}

struct Fragments {
    u32 a[2][4], b[2][4];

    // What 64 x 64 outputs need for 8 steps of k, of step `step` of a stage.
    __device__ void load(u32 stage, u32 row, u32 col_piece, u32 lane, u32 step)
    {
#pragma unroll
        for (int i = 0; i < 2; ++i) load4(a[i], stage + piece_of_a(row + 32 * i + lane, step));
#pragma unroll
        for (int j = 0; j < 2; ++j)
            load4_down(b[j], stage + A_BYTES + piece(8 * step + (lane & 7), col_piece + 4 * j + lane / 8, 2 * N));
    }

    __device__ void add_to(float (&sums)[4][8][4])
    {
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 8; ++j)
                multiply(sums[i][j], a[i / 2][i % 2 * 2], a[i / 2][i % 2 * 2 + 1], b[j / 4][j % 4]);
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

    const half* from_a = a + (row0 + t / 4) * k + t % 4 * 8;
    const half* from_b = b + static_cast<size_t>(t / 32) * n + col0 + t % 32 * 8;
    uint4 of_a[2], of_b[4];
    auto fetch = [&] {
#pragma unroll
        for (int i = 0; i < 2; ++i) of_a[i] = *reinterpret_cast<const uint4*>(from_a + 64ull * i * k);
#pragma unroll
        for (int i = 0; i < 4; ++i) of_b[i] = *reinterpret_cast<const uint4*>(from_b + 8ull * i * n);
        from_a += K;
        from_b += static_cast<size_t>(K) * n;
    };
    auto put = [&](u32 stage) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            *reinterpret_cast<uint4*>(memory + stage + piece_of_a(t / 4 + 64 * i, t % 4)) = of_a[i];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            *reinterpret_cast<uint4*>(memory + stage + A_BYTES + piece(t / 32 + 8 * i, t % 32, 2 * N)) = of_b[i];
    };

    float sums[4][8][4] = {};
    Fragments even, odd;
    fetch();
    put(0);
    __syncthreads();
    u32 read = 0;
    even.load(base, warp_row, warp_col / 8, lane, 0);
    for (int left = k / K; left > 0; --left) {
        if (left > 1) fetch();
        odd.load(base + read, warp_row, warp_col / 8, lane, 1);
        even.add_to(sums);
        even.load(base + read, warp_row, warp_col / 8, lane, 2);
        odd.add_to(sums);
        odd.load(base + read, warp_row, warp_col / 8, lane, 3);
        even.add_to(sums);
        if (left > 1) {  // everybody has read this stage: the last barrier came after its last fragments
            read = STAGE_BYTES - read;
            put(read);
            __syncthreads();
            even.load(base + read, warp_row, warp_col / 8, lane, 0);
        }
        odd.add_to(sums);
    }

    // Half of a warp's results at a time, put into rows of 128 bytes where its operands were, leaves 16 bytes a lane.
    __syncthreads();
    unsigned char* mine = memory + t / 32 * (2 * 32 * 64);
    half* to = c + (row0 + warp_row + lane / 8) * n + col0 + warp_col + lane % 8 * 8;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 8; ++j)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const float* two = &sums[2 * part + i][j][2 * h];
                    u32 at = piece(16 * i + 8 * h + lane / 4, j, 128) + 4 * (lane % 4);
                    *reinterpret_cast<half2*>(mine + at) = __floats2half2_rn(two[0], two[1]);
                }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 8; ++i)
            *reinterpret_cast<uint4*>(to + (32ull * part + 4 * i) * n) =
                *reinterpret_cast<const uint4*>(mine + piece(4 * i + lane / 8, lane % 8, 128));
        __syncwarp();
    }
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

// Any size: 64 x 64 outputs a block, zeros beyond the edges.
extern "C" __global__ void gemm_kernel(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c,
                                       int m, int n, int k)
{
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
        for (int step = 0; step < 8; ++step) {
            u32 part_a[4], part_b[4];
            load4(part_a, at_a + piece(warp_row + lane, step, 2 * TILE));
            load4_down(part_b, at_b + piece(8 * step + (lane & 7), warp_col / 8 + lane / 8, 2 * TILE));
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply(sums[i][j], part_a[2 * i], part_a[2 * i + 1], part_b[j]);
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
}
"""
)


def hgemm(a, b, c):
    """c = a @ b. a is m x k, b is k x n and c is m x n, all float16 and in C order."""
    m, n = c.shape
    k = a.shape[1]
    sizes = np.int32(m), np.int32(n), np.int32(k)
    if m % TILE_M == 0 and n % TILE_N == 0 and k % TILE_K == 0:
        blocks = (m // TILE_M * (n // TILE_N),)
        module.get_function("whole_tiles_kernel")(blocks, (THREADS,), (a, b, c, *sizes), shared_mem=SHARED_BYTES)
    else:
        blocks = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
        module.get_function("gemm_kernel")(blocks, (EDGE_THREADS,), (a, b, c, *sizes))
