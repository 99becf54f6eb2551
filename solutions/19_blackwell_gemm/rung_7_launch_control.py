"""blackwell_gemm, rung 7: the hardware hands out tiles (cluster launch control).

The grid has a pair of blocks for each tile. While a pair makes its tile, it asks the hardware to cancel a pair that has
not started, and takes over its tile (clusterlaunchcontrol). So a pair that is late takes fewer tiles, and blocks of
other kernels can start in between.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 6  # as in the source below
THREADS = 192
SHARED_BYTES = STAGES * 2 * TILE_K * (TILE_M + TILE_N // 2) + 1024  # and what it takes to begin at a multiple of 1,024

kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64, STAGES = 6;  // TILE_M rows of each block of the pair
constexpr unsigned A_BYTES = 2 * TILE_M * TILE_K, STAGE_BYTES = A_BYTES + 2 * TILE_N / 2 * TILE_K;
constexpr int COLUMNS = 512;  // of tensor memory

typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) Map { u64 words[16]; };  // a CUtensorMap

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void arrive_expecting(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ void wait(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
__device__ u32 of_leader(u32 address)  // the same place in the shared memory of the pair's even block
{
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(address));
    return there;
}
__device__ void arrive_at(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(barrier) : "memory");
}
// Ask for a pair of blocks that has not started; the answer, 16 bytes, goes to both blocks and counts at `barrier`.
__device__ void ask(u32 answer, u32 barrier)
{
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
                 ".multicast::cluster::all.b128 [%0], [%1];" :: "r"(answer), "r"(barrier) : "memory");
}
// Whether a pair was cancelled, and the number of its first block.
__device__ bool cancelled(u32 answer, int& block)
{
    u32 found;
    asm volatile("{ .reg .b128 q; .reg .pred p;\n"
                 "ld.shared.b128 q, [%2];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "mov.u32 %1, 0;\n"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, q; }"
                 : "=r"(found), "=r"(block) : "r"(answer) : "memory");
    return found;
}
__device__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ void load_box(u32 to, const Map& map, int x, int y, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Rows of 128 bytes, swizzled by 128 bytes; from eight rows to the next eight 1,024 bytes.
__device__ u64 descriptor(u32 address)
{
    return (u64)(address >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 46 | 2ull << 61;
}
constexpr u32 INSTRUCTION = 1 << 4 | TILE_N / 8 << 17 | (2 * TILE_M) / 16 << 24;  // float32 sums of float16, m and n
__device__ void multiply(u32 sums, u64 a, u64 b, bool add)  // by 16 of k
{
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }"
                 :: "r"(sums), "l"(a), "l"(b), "r"(INSTRUCTION), "r"((u32)add) : "memory");
}
__device__ void multiply_stage(u32 sums, u32 a, u32 b, bool first)
{
    for (int i = 0; i < TILE_K / 16; ++i)
        multiply(sums, descriptor(a + 32 * i), descriptor(b + 32 * i), !first || i > 0);
}
__device__ void commit(u32 barrier)  // arrives in both blocks when all products issued so far are done
{
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 :: "r"(barrier), "h"((unsigned short)3) : "memory");
}
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void allocate(u32* address)
{
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;"
                 :: "r"(shared_address(address)), "n"(COLUMNS) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
}
__device__ void deallocate(u32 address)
{
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" :: "r"(address), "n"(COLUMNS) : "memory");
}

#define R8(i) "=r"(r[i]), "=r"(r[i + 1]), "=r"(r[i + 2]), "=r"(r[i + 3]), "=r"(r[i + 4]), "=r"(r[i + 5]), \
              "=r"(r[i + 6]), "=r"(r[i + 7])
__device__ void load_sums(u32 (&r)[32], u32 from)  // 32 columns of this thread's lane
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
                 : R8(0), R8(8), R8(16), R8(24) : "r"(from));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
__device__ u32 pack(u32 low, u32 high)
{
    half2 both = __floats2half2_rn(__uint_as_float(low), __uint_as_float(high));
    return *(u32*)&both;
}
// Four warps: sums of a tile to c. A warp reaches 32 lanes of tensor memory, those of its number modulo 4.
__device__ void store(half* c, u32 sums, int row, int column, int m, int n)
{
    int lanes = threadIdx.x / 32 % 4 * 32;
    row += lanes + threadIdx.x % 32;
    half* out = c + (long long)row * n + column;
    for (int part = 0; part < TILE_N && column + part < n; part += 32) {
        u32 r[32];
        load_sums(r, sums + (lanes << 16) + part);
#pragma unroll
        for (int i = 0; i < 32; i += 8)
            if (row < m && column + part + i < n)
                *(uint4*)(out + part + i) = make_uint4(pack(r[i], r[i + 1]), pack(r[i + 2], r[i + 3]),
                                                       pack(r[i + 4], r[i + 5]), pack(r[i + 6], r[i + 7]));
    }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192, 1)
hgemm_kernel(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, half* c, int m, int n, int k)
{
    extern __shared__ char raw[];
    __shared__ u64 barriers[2 * STAGES + 8];
    __shared__ alignas(16) u32 answers[2][4];
    __shared__ u32 memory;
    u32 stages = (shared_address(raw) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES, done = empty + 8 * STAGES, free = done + 16;
    u32 asked = free + 16, heard = asked + 16;
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = (k + TILE_K - 1) / TILE_K;
    int down = (m + 2 * TILE_M - 1) / (2 * TILE_M), tile = blockIdx.x / 2;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * STAGES + 2; ++i) init(full + 8 * i, 1);
        for (int i = 0; i < 2; ++i) {
            init(free + 8 * i, 2 * 4);       // warps that store, of both blocks
            init(asked + 8 * i, 1);
            init(heard + 8 * i, 2 * 5 + 1);  // who reads an answer: warps 0 and 2 to 5 of both blocks, warp 1 of one
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (warp == 0) allocate(&memory);
    fence_before();
    __syncthreads();
    cluster_sync();  // nobody signals a peer whose barriers are not there yet
    fence_after();
    u32 sums = memory;

    // One thread of a warp: hear the answer of turn `turn`, and say so. The next tile, or -1.
    auto next = [&](u32 turn) {
        u32 slot = turn % 2;
        int block;
        wait(asked + 8 * slot, turn / 2 & 1);
        bool found = cancelled(shared_address(answers[slot]), block);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        arrive_at(of_leader(heard + 8 * slot));
        return found ? block / 2 : -1;
    };
    if (warp == 0 && lane == 0) {
        u32 at = 0, phase = 0;
        for (u32 turn = 0; tile >= 0; ++turn) {
            u32 slot = turn % 2;
            arrive_expecting(asked + 8 * slot, 16);
            if (rank == 0) {
                wait(heard + 8 * slot, turn / 2 & 1 ^ 1);
                ask(shared_address(answers[slot]), asked + 8 * slot);
            }
            int row = tile % down * 2 * TILE_M + rank * TILE_M, column = tile / down * TILE_N + rank * TILE_N / 2;
            for (int step = 0; step < steps; ++step) {
                u32 to = stages + at * STAGE_BYTES, signal = of_leader(full + 8 * at);
                wait(empty + 8 * at, phase ^ 1);  // in the first round it returns at once
                if (rank == 0) arrive_expecting(full + 8 * at, 2 * STAGE_BYTES);  // of both blocks
                load_box(to, map_a, step * TILE_K, row, signal);
                load_box(to + A_BYTES, map_b, step * TILE_K, column, signal);
                if (++at == STAGES) at = 0, phase ^= 1;
            }
            tile = next(turn);
        }
    } else if (warp == 1 && lane == 0 && rank == 0) {
        u32 at = 0, phase = 0;
        for (u32 turn = 0; tile >= 0; ++turn) {
            u32 set = turn % 2;
            wait(free + 8 * set, turn / 2 & 1 ^ 1);
            fence_after();
            for (int step = 0; step < steps; ++step) {
                u32 from = stages + at * STAGE_BYTES;
                wait(full + 8 * at, phase);
                multiply_stage(sums + set * TILE_N, from, from + A_BYTES, step == 0);
                commit(empty + 8 * at);
                if (++at == STAGES) at = 0, phase ^= 1;
            }
            commit(done + 8 * set);
            tile = next(turn);
        }
    } else if (warp > 1) {
        for (u32 turn = 0; tile >= 0; ++turn) {
            u32 set = turn % 2;
            wait(done + 8 * set, turn / 2 & 1);
            fence_after();
            store(c, sums + set * TILE_N, tile % down * 2 * TILE_M + rank * TILE_M, tile / down * TILE_N, m, n);
            fence_before();
            __syncwarp();
            if (lane == 0) {
                arrive_at(of_leader(free + 8 * set));
                tile = next(turn);
            }
            tile = __shfl_sync(~0u, tile, 0);
        }
    }
    __syncthreads();
    cluster_sync();
    if (warp == 0) deallocate(sums);
}
""",
    "hgemm_kernel",
    options=("-std=c++17", "-arch=sm_100a"),
)
kernel.max_dynamic_shared_size_bytes = SHARED_BYTES


def hgemm(a, b, c):
    """c = a @ b.T. a is m x k, b is n x k and c is m x n, all float16 in C order; n and k are multiples of 8."""
    (m, k), n = a.shape, b.shape[0]
    map_a = tensor_map(a, (TILE_M, TILE_K), swizzle=128)
    map_b = tensor_map(b, (TILE_N // 2, TILE_K), swizzle=128)
    pairs = (n + TILE_N - 1) // TILE_N * ((m + 2 * TILE_M - 1) // (2 * TILE_M))
    sizes = np.int32(m), np.int32(n), np.int32(k)
    kernel((2 * pairs,), (THREADS,), (map_a, map_b, c, *sizes), shared_mem=SHARED_BYTES)
