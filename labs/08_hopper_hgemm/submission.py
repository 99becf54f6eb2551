"""Lab 08_hopper_hgemm: c = a @ b on Hopper's tensor cores, float16 with float32 sums, in CUDA C++.

One warpgroup brings tiles with the tensor memory accelerator, two multiply them with wgmma, and each block takes tile
after tile. Parts 1 to 4 are yours; the rest is given and works. What stands in parts 2 to 4 is enough for one stage of
one tile, so that each part can be tried when those before it are right.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4  # as in the source below
THREADS = 3 * 128
SMS = 132  # of an H100 or H200; a block stays on each
SHARED_BYTES = STAGES * 2 * TILE_K * (TILE_M + TILE_N) + 1024  # and what it takes to begin at a multiple of 1,024

hgemm_kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64, STAGES = 4;
constexpr int CONSUMERS = 2;                          // warpgroups of four warps, each with 64 rows of the tile
constexpr unsigned A_BYTES = 2 * TILE_M * TILE_K;     // 128 rows of 128 bytes
constexpr unsigned PANEL_BYTES = 2 * TILE_K * 64;     // b comes in panels of 64 columns: 64 rows of 128 bytes
constexpr unsigned STAGE_BYTES = A_BYTES + TILE_N / 64 * PANEL_BYTES;

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
// Arrive, and make the phase wait for so many bytes of copies besides.
__device__ void arrive_expecting(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
// Wait for the end of the phase of that parity: phases are numbered from 0. Of a new barrier, the phase before its
// first one counts as ended: waiting for parity 1 returns at once.
__device__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
// Copy a box of a matrix, from element (x, y), to shared memory; its bytes count at the barrier. x is along the rows.
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
// d (64 x 256) += a (64 x 16) b (16 x 256), or d = a b: k runs along a's lines in shared memory, n along b's.
#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
              "+f"(d[i + 6]), "+f"(d[i + 7])
#define D32(i) D8(i), D8(i + 8), D8(i + 16), D8(i + 24)
__device__ void multiply(float (&d)[TILE_N / 2], u64 a, u64 b, bool add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, %128, %129, p, 1, 1, 0, 1; }"
                 : D32(0), D32(32), D32(64), D32(96) : "l"(a), "l"(b), "r"((int)add));
}

// ---- Part 1: descriptors -------------------------------------------------------------------------------------------

// Where wgmma finds a matrix: address, leading and stride offset in bytes, all of 128-byte swizzled lines.
__device__ u64 descriptor(unsigned address, unsigned leading, unsigned stride)
{
    // Bits 0-13: address / 16. Bits 16-29: leading / 16. Bits 32-45: stride / 16. Bits 62-63: the swizzle.
    return 0;
}

// Add one stage to the sums: `a` is this warpgroup's 64 rows of 128 bytes, `b` four panels of 64 rows of 128 bytes.
__device__ void multiply_stage(float (&d)[TILE_N / 2], unsigned a, unsigned b, bool first)
{
    // Four products of 16 k each; the first one of a tile replaces the sums.
}

// ---- Part 2: the order of tiles ------------------------------------------------------------------------------------

// The first row and column of c that tile number `number` makes; false behind the last tile. Each block takes the tiles
// blockIdx.x, blockIdx.x + gridDim.x, ...: tiles with neighbouring numbers are made at the same time.
__device__ bool place(int number, int m, int n, int& row, int& column)
{
    row = column = 0;
    return number == 0;
}

// ---- Part 3: the ring of stages ------------------------------------------------------------------------------------

// A stage is full when its copies have come, and empty when all warps of both consumers are done with it. Producer and
// consumers each walk round the ring, through all tiles, without ever meeting at another barrier.
struct Ring {
    unsigned stages, full, empty;  // shared addresses: of stage 0, and of the first barrier of each kind
    int stage;
    unsigned phase;                // which parity of `full` the stage at hand completes

    __device__ unsigned data() const { return stages + stage * STAGE_BYTES; }
    __device__ unsigned full_barrier() const { return full + 8 * stage; }
    __device__ unsigned empty_barrier() const { return empty + 8 * stage; }
    __device__ void advance()
    {
    }
};

// One thread of the block: make the barriers.
__device__ void init_barriers(const Ring& ring)
{
    for (int s = 0; s < STAGES; ++s) {
        init(ring.full + 8 * s, 1);
        // How many arrivals end a phase of `empty`?
        init(ring.empty + 8 * s, 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One thread of warpgroup 0: bring what a tile needs, stage by stage.
__device__ void produce(Ring& ring, const Map& map_a, const Map& map_b, int row, int column, int steps)
{
    for (int step = 0; step < steps; ++step) {
        // Not before the stage is empty.
        // A box of a is TILE_M x TILE_K, a box of b TILE_K x 64. What lies outside of a matrix comes as zeros, and
        // counts as bytes like everything else.
        arrive_expecting(ring.full_barrier(), STAGE_BYTES);
        load_box(ring.data(), map_a, step * TILE_K, row, ring.full_barrier());
        for (int panel = 0; panel < TILE_N / 64; ++panel) {
            unsigned to = ring.data() + A_BYTES + panel * PANEL_BYTES;
            load_box(to, map_b, column + 64 * panel, step * TILE_K, ring.full_barrier());
        }
        ring.advance();
    }
}

// ---- Part 4: the consumers -----------------------------------------------------------------------------------------

// All threads of warpgroup 1 or 2: the sums of 64 rows of a tile. `mine` is where their rows of a lie in a stage.
__device__ void consume(Ring& ring, float (&d)[TILE_N / 2], unsigned mine, int steps)
{
    bool leader = threadIdx.x % 32 == 0;  // a warp knows of its own products only, so each hands back for itself
    unsigned before = 0;                  // the empty barrier of the stage before
    for (int step = 0; step < steps; ++step) {
        wait(ring.full_barrier(), ring.phase);
        products_begin();
        multiply_stage(d, ring.data() + mine, ring.data() + A_BYTES, step == 0);
        products_commit();
        // Let the tensor cores run on: wait for the products of the stage *before*, and hand that stage back.
        products_wait<0>();
        if (leader) arrive(ring.empty_barrier());
        before = ring.empty_barrier();
        ring.advance();
    }
}

// ---- Given: sums to memory, and the frame --------------------------------------------------------------------------

__device__ void store(half* c, const float (&d)[TILE_N / 2], int row, int column, int m, int n)
{
    int thread = threadIdx.x % 128;
    row += thread / 32 * 16 + thread % 32 / 4;
    column += thread % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
        if (column + 8 * j >= n) break;
        half* at = c + (long long)row * n + column + 8 * j;
        if (row < m) *(half2*)at = __floats2half2_rn(d[4 * j], d[4 * j + 1]);
        if (row + 8 < m) *(half2*)(at + 8ll * n) = __floats2half2_rn(d[4 * j + 2], d[4 * j + 3]);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
hgemm_kernel(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, half* c, int m, int n, int k)
{
    extern __shared__ char raw[];
    __shared__ u64 barriers[2 * STAGES];
    unsigned first_barrier = shared_address(barriers);
    Ring ring = {(shared_address(raw) + 1023) & ~1023u, first_barrier, first_barrier + 8 * STAGES, 0, 0};
    if (threadIdx.x == 0) init_barriers(ring);
    __syncthreads();

    int warpgroup = threadIdx.x / 128, steps = (k + TILE_K - 1) / TILE_K, row, column;
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int tile = blockIdx.x; place(tile, m, n, row, column); tile += gridDim.x)
                produce(ring, map_a, map_b, row, column, steps);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[TILE_N / 2];
        for (int tile = blockIdx.x; place(tile, m, n, row, column); tile += gridDim.x) {
            consume(ring, d, (warpgroup - 1) * A_BYTES / CONSUMERS, steps);
            store(c, d, row + (warpgroup - 1) * 64, column, m, n);
        }
    }
}
""",
    "hgemm_kernel",
    options=("-std=c++17", "-arch=sm_90a"),
)
hgemm_kernel.max_dynamic_shared_size_bytes = SHARED_BYTES


def hgemm(a, b, c):
    """c = a @ b. a is m x k, b is k x n and c is m x n, all float16 in C order; n and k are multiples of 8."""
    (m, k), n = a.shape, b.shape[1]
    map_a = tensor_map(a, (TILE_M, TILE_K), swizzle=128)
    map_b = tensor_map(b, (TILE_K, 64), swizzle=128)
    tiles = (m + TILE_M - 1) // TILE_M * ((n + TILE_N - 1) // TILE_N)
    sizes = np.int32(m), np.int32(n), np.int32(k)
    hgemm_kernel((min(tiles, SMS),), (THREADS,), (map_a, map_b, c, *sizes), shared_mem=SHARED_BYTES)
