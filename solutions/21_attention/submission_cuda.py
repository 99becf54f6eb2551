"""Lab 21_attention: out = softmax(q k^T / sqrt(d)) v for each head, in CUDA C++.

A block has 128 queries of a head, 16 per warp, and walks over tiles of 64 keys.
"""

import math

import cupy
import numpy as np

QUERIES, KEYS = 128, 64  # as in the source below
THREADS = QUERIES // 16 * 32

SOURCE = r"""
#include <cuda_fp16.h>

typedef unsigned u32;
constexpr int QUERIES = 128, KEYS = 64;
constexpr int PIECES = WIDTH / 8;             // of 16 bytes in a row of a head
constexpr u32 TILE_BYTES = KEYS * WIDTH * 2;  // of keys, or of values; a stage has one of each

// ---- Given: one instruction each -----------------------------------------------------------------------------------

// Four pieces of 8 x 8: lane 8 i + r gives the address of row r of piece i.
__device__ void load_pieces(u32 (&r)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ void load_pieces_transposed(u32 (&r)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
// d (16 x 8) += a (16 x 16) b (16 x 8).
__device__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Copy 16 bytes to shared memory, or zeros if not `inside`; not waited for.
__device__ void copy(u32 to, const half* from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ void wait_for_copies()  // until at most so many of this thread's groups are in flight
{
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}
__device__ u32 pack(float low, float high)
{
    half2 both = __floats2half2_rn(low, high);
    return *(u32*)&both;
}
// Where piece `piece` of row `row` lies in a tile: the pieces that ldmatrix reads at once are in different banks.
__device__ u32 place(int row, int piece) { return row * WIDTH * 2 + ((piece ^ (row & 7)) << 4); }

// ---- A tile of queries and all their keys --------------------------------------------------------------------------

// BEGIN SOLUTION
// Start to copy `rows` rows of a head to shared memory; zeros behind its end.
__device__ void fetch(u32 tile, const half* from, int row0, int rows, int n)
{
    for (int p = threadIdx.x; p < rows * PIECES; p += blockDim.x) {
        int row = p / PIECES, piece = p % PIECES;
        copy(tile + place(row, piece), from + (long long)min(row0 + row, n - 1) * WIDTH + 8 * piece, row0 + row < n);
    }
}
__device__ void fetch_stage(u32 stage, const half* k, const half* v, int key, int n)
{
    fetch(stage, k, key, KEYS, n);
    fetch(stage + TILE_BYTES, v, key, KEYS, n);
    commit_copies();
}
__device__ float largest_of_four(float x)  // of the lanes that share a row
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ float sum_of_four(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}
// END SOLUTION

extern "C" __global__ void __launch_bounds__(256)
attention(const half* q, const half* k, const half* v, half* out, int n, int causal, float scale)
{
    extern __shared__ uint4 memory[];  // two stages: 8 KEYS WIDTH bytes
    // BEGIN SOLUTION
    // STARTER: // All are heads x n x WIDTH. Stage 1, a warp per query, needs none of the functions above.
    u32 stage = (u32)__cvta_generic_to_shared(memory), next = stage + 2 * TILE_BYTES;
    int row0 = (gridDim.x - 1 - blockIdx.x) * QUERIES, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long first = (long long)blockIdx.y * n * WIDTH;
    q += first, k += first, v += first, out += first;
    fetch(next, q, row0, QUERIES, n);  // a stage has room for the queries
    commit_copies();
    fetch_stage(stage, k, v, 0, n);
    wait_for_copies<1>();
    __syncthreads();
    u32 queries[WIDTH / 16][4];
#pragma unroll
    for (int i = 0; i < WIDTH / 16; ++i)
        load_pieces(queries[i], next + place(16 * warp + lane % 16, 2 * i + lane / 16));

    // Of the thread's two rows, eight apart: the largest score so far, the sum of its columns' weights, and values.
    float largest[2] = {-1e30f, -1e30f}, total[2] = {0, 0}, o[WIDTH / 8][4] = {};
    int row = row0 + 16 * warp + lane / 4, pair = lane % 4 * 2, end = causal ? min(n, row0 + QUERIES) : n;
    for (int start = 0; start < end; start += KEYS) {
        wait_for_copies<0>();
        __syncthreads();  // everybody's copies have come, and everybody has read the stage that is filled next
        if (start + KEYS < end) fetch_stage(next, k, v, start + KEYS, n);
        float s[KEYS / 8][4] = {};
#pragma unroll
        for (int i = 0; i < WIDTH / 16; ++i)
#pragma unroll
            for (int j = 0; j < KEYS / 16; ++j) {
                u32 b[4];
                load_pieces(b, stage + place(16 * j + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
                multiply(s[2 * j], queries[i], b[0], b[1]);
                multiply(s[2 * j + 1], queries[i], b[2], b[3]);
            }
        bool hides = start + KEYS > n || (causal && start + KEYS > row0);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            int visible = causal ? min(n, row + 8 * r + 1) : n;
            float before = largest[r], now = before, sum = 0;
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; ++e) {
                    if (hides && start + 8 * j + pair + e % 2 >= visible) s[j][e] = -1e30f;
                    now = fmaxf(now, s[j][e]);
                }
            now = largest_of_four(now);
            float shrink = exp2f((before - now) * scale);
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; ++e) {
                    s[j][e] = exp2f((s[j][e] - now) * scale);
                    sum += s[j][e];
                }
#pragma unroll
            for (int i = 0; i < WIDTH / 8; ++i) o[i][2 * r] *= shrink, o[i][2 * r + 1] *= shrink;
            largest[r] = now;
            total[r] = total[r] * shrink + sum;
        }
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
            // The sums of two pieces of scores are laid out as the first operand of the next product.
            u32 weights[4] = {pack(s[2 * j][0], s[2 * j][1]), pack(s[2 * j][2], s[2 * j][3]),
                              pack(s[2 * j + 1][0], s[2 * j + 1][1]), pack(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
            for (int i = 0; i < WIDTH / 16; ++i) {
                u32 b[4];
                load_pieces_transposed(b, stage + TILE_BYTES + place(16 * j + lane % 16, 2 * i + lane / 16));
                multiply(o[2 * i], weights, b[0], b[1]);
                multiply(o[2 * i + 1], weights, b[2], b[3]);
            }
        }
        u32 used = stage;
        stage = next, next = used;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float part = 1 / sum_of_four(total[r]);
        if (row + 8 * r >= n) continue;
        half* to = out + (long long)(row + 8 * r) * WIDTH + pair;
#pragma unroll
        for (int i = 0; i < WIDTH / 8; ++i) *(u32*)(to + 8 * i) = pack(o[i][2 * r] * part, o[i][2 * r + 1] * part);
    }
    // END SOLUTION
}
"""


def module(width):
    """The kernel for heads of `width`."""
    kernel = cupy.RawModule(code=SOURCE, options=("-std=c++17", f"-DWIDTH={width}")).get_function("attention")
    kernel.max_dynamic_shared_size_bytes = 8 * KEYS * width
    return kernel


KERNELS = {64: module(64), 128: module(128)}


def attention(q, k, v, causal, out):
    """out = softmax(q k^T / sqrt(d)) v for each head; with causal != 0 query i sees keys 0 to i."""
    heads, n, d = q.shape
    scale = np.float32(math.log2(math.e) / math.sqrt(d))  # powers of two take the place of exponentials
    grid, sizes = ((n + QUERIES - 1) // QUERIES, heads), (np.int32(n), np.int32(causal), scale)
    KERNELS[d](grid, (THREADS,), (q, k, v, out, *sizes), shared_mem=8 * KEYS * d)
