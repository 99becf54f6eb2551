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


extern "C" __global__ void __launch_bounds__(256)
attention(const half* q, const half* k, const half* v, half* out, int n, int causal, float scale)
{
    extern __shared__ uint4 memory[];  // two stages: 8 KEYS WIDTH bytes
    // All are heads x n x WIDTH. Stage 1, a warp per query, needs none of the functions above.
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
