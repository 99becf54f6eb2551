"""Lab 19_blackwell_gemm: c = a @ b.T on Blackwell's tensor cores, float16 with float32 sums, in CUDA C++.

Warp 0 starts tensor copies, warp 1 issues products, and warps 2 to 5 store the result. Parts 1 to 3 are yours; the rest
is given and works. As it stands, a block works alone, and parts 2 and 3 are enough for one stage of one tile.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

BLOCKS = 1  # that make a tile together, as in the source below
TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4  # TILE_M rows of each block
THREADS = 6 * 32
SHARED_BYTES = STAGES * 2 * TILE_K * (TILE_M + TILE_N // BLOCKS) + 1024  # 1,024 more to align

hgemm_kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>

constexpr int BLOCKS = 1;
#define GROUP "cta_group::1"
constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64, STAGES = 4;
constexpr int B_ROWS = TILE_N / BLOCKS;              // rows of b that a block loads
constexpr unsigned A_BYTES = 2 * TILE_M * TILE_K;    // 128 rows of 128 bytes
constexpr unsigned STAGE_BYTES = A_BYTES + 2 * B_ROWS * TILE_K;
constexpr int COLUMNS = 256;                         // of tensor memory: one float32 of each lane for each column of c

typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) Map { u64 words[16]; };  // a CUtensorMap

// ---- Given: one instruction each -----------------------------------------------------------------------------------

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// The same place in the shared memory of another block of the cluster.
__device__ u32 in_block(u32 address, u32 rank)
{
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
// An mbarrier's phase ends when `count` arrivals and all expected bytes have come; then the next phase begins.
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
// Arrive, and make the phase wait for so many bytes of copies besides.
__device__ void arrive_expecting(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
// Wait for the end of the phase of that parity: phases are numbered from 0. Of a new barrier, the phase before its
// first one counts as ended: waiting for parity 1 returns at once.
__device__ void wait(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
// Copy a box of a matrix, from element (x, y), to this block's shared memory; its bytes count at the barrier, which may
// be another block's (in_block). x is along the rows.
__device__ void load_box(u32 to, const Map& map, int x, int y, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes." GROUP
                 " [%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// d += a b, or d = a b: d in tensor memory from column `sums` on, a and b in shared memory, 16 of k.
__device__ void multiply(u32 sums, u64 a, u64 b, u32 instruction, bool add)
{
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0;\n"
                 "tcgen05.mma." GROUP ".kind::f16 [%0], %1, %2, %3, p; }"
                 :: "r"(sums), "l"(a), "l"(b), "r"(instruction), "r"((u32)add) : "memory");
}
// One arrival at a barrier, in each block of the mask (bit 0 is block 0), when all products issued so far are done.
__device__ void commit(u32 barrier, unsigned short blocks)
{
    asm volatile("tcgen05.commit." GROUP ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 :: "r"(barrier), "h"(blocks) : "memory");
}
// Between what happened to tensor memory and a barrier; between a barrier and what happens to tensor memory.
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
// A warp: columns of tensor memory. Their address is stored to shared memory.
__device__ void allocate(u32* address)
{
    asm volatile("tcgen05.alloc." GROUP ".sync.aligned.shared::cta.b32 [%0], %1;"
                 :: "r"(shared_address(address)), "n"(COLUMNS) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit." GROUP ".sync.aligned;");
}
__device__ void deallocate(u32 address)
{
    asm volatile("tcgen05.dealloc." GROUP ".sync.aligned.b32 %0, %1;" :: "r"(address), "n"(COLUMNS) : "memory");
}
// A warp: 32 columns of 32 lanes, each thread its lane. Bits 16 and up of the address are the first lane.
#define R8(i) "=r"(r[i]), "=r"(r[i + 1]), "=r"(r[i + 2]), "=r"(r[i + 3]), "=r"(r[i + 4]), "=r"(r[i + 5]), \
              "=r"(r[i + 6]), "=r"(r[i + 7])
__device__ void load_sums(u32 (&r)[32], u32 from)
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
                 : R8(0), R8(8), R8(16), R8(24) : "r"(from));
}
__device__ void wait_for_loads() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// ---- Part 1: one product -------------------------------------------------------------------------------------------

// Where the tensor core finds a matrix whose rows are lines of 128 bytes, swizzled by 128 bytes.
__device__ u64 descriptor(u32 address)
{
    // Bits 0-13: address / 16. Bits 16-29: leading offset / 16, which is 1 with a swizzle. Bits 32-45: stride / 16,
    // from eight rows to the next eight. Bit 46: 1. Bits 61-63: the swizzle, 2 for one of 128 bytes.
    return 0;
}

// What the product is: types and shape. The rows of all blocks count.
__device__ u32 instruction()
{
    // Bits 4-5: the type of d, 1 for float32. Bits 7-9 and 10-12: those of a and b, 0 for float16. Bits 17-22: n / 8.
    // Bits 24-28: m / 16.
    return 0;
}

// One thread: add a stage to the sums. `a` is 128 rows of 128 bytes, `b` B_ROWS such rows.
__device__ void multiply_stage(u32 sums, u32 a, u32 b, bool first)
{
    // Four products of 16 k each; the first one of a tile replaces the sums.
}

// A warp: columns `part` to `part` + 31 of the sums, for row `lane` of the warp's 32. A warp reaches the lanes from
// 32 (warp % 4) on.
__device__ void read_sums(u32 (&r)[32], u32 sums, int warp, int part)
{
    for (int i = 0; i < 32; ++i) r[i] = 0;
}

// ---- Part 2: the ring of stages ------------------------------------------------------------------------------------

// A stage is full when its copies have come, and empty when the products that read it are done.
struct Ring {
    u32 stages, full, empty;  // shared addresses: of stage 0, and of the first barrier of each kind
    int stage;
    u32 phase;                // which parity of `full` the stage at hand completes

    __device__ u32 data() const { return stages + stage * STAGE_BYTES; }
    __device__ u32 full_barrier() const { return full + 8 * stage; }
    __device__ u32 empty_barrier() const { return empty + 8 * stage; }
    __device__ void advance()
    {
    }
};

// ---- Part 3: a pair of blocks --------------------------------------------------------------------------------------

// Block `rank` loads TILE_M rows of a from this one on, where the tile begins at `row`; it has the same rows of c.
__device__ int my_row(int row, u32 rank)
{
    return row;
}

// And B_ROWS rows of b from this one on, where the tile begins at `column` of c.
__device__ int my_row_of_b(int column, u32 rank)
{
    return column;
}

// One thread of warp 0 of each block: copy what the block needs, stage by stage.
__device__ void produce(Ring& ring, const Map& map_a, const Map& map_b, int row, int column, int steps, u32 rank)
{
    for (int step = 0; step < steps; ++step) {
        // Not before the stage is empty (part 2). Block 0's barrier alone counts bytes: those of all blocks (part 3).
        // A box of a is TILE_M x TILE_K, a box of b B_ROWS x TILE_K. Elements outside a matrix arrive as zeros, and
        // count as bytes like all others.
        u32 barrier = ring.full_barrier();
        arrive_expecting(barrier, STAGE_BYTES);
        load_box(ring.data(), map_a, step * TILE_K, row, barrier);
        load_box(ring.data() + A_BYTES, map_b, step * TILE_K, column, barrier);
        ring.advance();
    }
}

// One thread of warp 1 of block 0: the products of a tile, for all blocks. `done` signals that the sums are there.
__device__ void make_products(Ring& ring, u32 sums, int steps, u32 done)
{
    for (int step = 0; step < steps; ++step) {
        wait(ring.full_barrier(), ring.phase);
        multiply_stage(sums, ring.data(), ring.data() + A_BYTES, step == 0);
        // Hand the stage back, in all blocks, when its products are done.
        ring.advance();
    }
    commit(done, 1);
}

// ---- Given: sums to memory, and the frame --------------------------------------------------------------------------

__device__ u32 pack(u32 low, u32 high)
{
    half2 both = __floats2half2_rn(__uint_as_float(low), __uint_as_float(high));
    return *(u32*)&both;
}

// Warps 2 to 5: TILE_M rows of c from `row` on.
__device__ void store(half* c, u32 sums, int row, int column, int m, int n)
{
    int warp = threadIdx.x / 32;
    row += warp % 4 * 32 + threadIdx.x % 32;
    half* out = c + (long long)row * n + column;
    for (int part = 0; part < TILE_N && column + part < n; part += 32) {
        u32 r[32];
        read_sums(r, sums, warp, part);
#pragma unroll
        for (int i = 0; i < 32; i += 8)
            if (row < m && column + part + i < n)
                *(uint4*)(out + part + i) = make_uint4(pack(r[i], r[i + 1]), pack(r[i + 2], r[i + 3]),
                                                       pack(r[i + 4], r[i + 5]), pack(r[i + 6], r[i + 7]));
    }
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(192, 1)
hgemm_kernel(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, half* c, int m, int n, int k)
{
    extern __shared__ char raw[];
    __shared__ u64 barriers[2 * STAGES + 1];
    __shared__ u32 memory;
    u32 first_barrier = shared_address(barriers), done = first_barrier + 8 * 2 * STAGES;
    Ring ring = {(shared_address(raw) + 1023) & ~1023u, first_barrier, first_barrier + 8 * STAGES, 0, 0};
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = (k + TILE_K - 1) / TILE_K;
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    int down = (m + BLOCKS * TILE_M - 1) / (BLOCKS * TILE_M), tile = blockIdx.x / BLOCKS;
    int row = tile % down * BLOCKS * TILE_M, column = tile / down * TILE_N;

    if (threadIdx.x == 0) {
        for (int i = 0; i <= 2 * STAGES; ++i) init(first_barrier + 8 * i, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (warp == 0) allocate(&memory);
    fence_before();
    __syncthreads();
    cluster_sync();  // nobody signals a peer whose barriers are not there yet
    fence_after();
    u32 sums = memory;

    if (warp == 0 && lane == 0) {
        produce(ring, map_a, map_b, my_row(row, rank), my_row_of_b(column, rank), steps, rank);
    } else if (warp == 1 && lane == 0 && rank == 0) {
        make_products(ring, sums, steps, done);
    } else if (warp > 1) {
        wait(done, 0);
        fence_after();
        store(c, sums, my_row(row, rank), column, m, n);
        fence_before();
    }
    __syncthreads();
    cluster_sync();  // no block leaves while a peer may still signal it
    if (warp == 0) deallocate(sums);
}
""",
    "hgemm_kernel",
    options=("-std=c++17", "-arch=sm_100a"),
)
hgemm_kernel.max_dynamic_shared_size_bytes = SHARED_BYTES


def hgemm(a, b, c):
    """c = a @ b.T. a is m x k, b is n x k and c is m x n, all float16 in C order; n and k are multiples of 8."""
    (m, k), n = a.shape, b.shape[0]
    map_a = tensor_map(a, (TILE_M, TILE_K), swizzle=128)
    map_b = tensor_map(b, (TILE_N // BLOCKS, TILE_K), swizzle=128)
    tiles = (m + BLOCKS * TILE_M - 1) // (BLOCKS * TILE_M) * ((n + TILE_N - 1) // TILE_N)
    sizes = np.int32(m), np.int32(n), np.int32(k)
    hgemm_kernel((BLOCKS * tiles,), (THREADS,), (map_a, map_b, c, *sizes), shared_mem=SHARED_BYTES)
