"""Products of block-scaled elements by tcgen05, launched as a submission is (warplab.plan.capture): MXFP8 and NVFP4.

`a` has m rows and `b` n rows of codes along k. `scales_a` and `scales_b` have as many rows of scales, four bytes in a
uint32. c = (a times its scales) (b times its scales)^T is float32, m x n. Tiles are 128 x 128, one stage at a time. k
is a multiple of 128 elements of MXFP8 and of 256 of NVFP4, n one of 4.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE, ROW_BYTES = 128, 128  # as in the source below
SHARED_BYTES = 2 * TILE * ROW_BYTES + 1024

SOURCE = r"""
typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) Map { u64 words[16]; };  // a CUtensorMap

constexpr int TILE = 128, ROW_BYTES = 128;      // of a and of b, in a stage: four products of 32 bytes
constexpr u32 STAGE_BYTES = 2 * TILE * ROW_BYTES;
constexpr int SUMS = 0, SCALES_A = 128, SCALES_B = SCALES_A + 4 * WORDS, COLUMNS = 256;  // columns of tensor memory

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
__device__ void load_box(u32 to, const Map& map, int x, int y, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// Rows of 128 bytes, swizzled by 128 bytes; from eight rows to the next eight 1,024 bytes.
__device__ u64 descriptor(u32 address)
{
    return (u64)(address >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 46 | 2ull << 61;
}
// d += (a times its scales) (b times its scales). Bits 4 and 29 of the instruction name the byte of a word of scales.
__device__ void multiply(u32 sums, u32 a, u32 b, u32 scales_a, u32 scales_b, u32 byte, bool add)
{
    u32 instruction = KINDS | byte << 4 | TILE / 8 << 17 | TILE / 16 << 24 | byte << 29;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::" KIND " [%0], %1, %2, %3, [%4], [%5], p; }"
                 :: "r"(sums), "l"(descriptor(a)), "l"(descriptor(b)), "r"(instruction), "r"(scales_a), "r"(scales_b),
                    "r"((u32)add) : "memory");
}
// Scales of 128 rows for a stage: row 32 j + l has its words in lane l of column j, of every warp's lanes.
__device__ void store_scales(u32 to, const u32* scales, int row, int rows, int stage, int words)
{
    int lane = threadIdx.x % 32;
    for (int word = 0; word < WORDS; ++word) {
        u32 r[4];
        for (int j = 0; j < 4; ++j) {
            int at = row + 32 * j + lane;
            r[j] = at < rows ? scales[(long long)at * words + stage * WORDS + word] : 0;
        }
        asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %2, %3, %4};"
                     :: "r"(to + 4 * word + (threadIdx.x / 32 * 32 << 16)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                     : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(128)
product_kernel(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const u32* scales_a,
               const u32* scales_b, float* c, int m, int n, int stages)
{
    extern __shared__ char raw[];
    __shared__ u64 full, done;
    __shared__ u32 memory;
    u32 tile = (shared_address(raw) + 1023) & ~1023u, arrived = shared_address(&full), read = shared_address(&done);
    int warp = threadIdx.x / 32, row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    if (threadIdx.x == 0) {
        init(arrived, 1);
        init(read, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (warp == 0) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                     :: "r"(shared_address(&memory)), "n"(COLUMNS) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    u32 base = memory;

    for (int stage = 0; stage < stages; ++stage) {
        store_scales(base + SCALES_A, scales_a, row, m, stage, stages * WORDS);
        store_scales(base + SCALES_B, scales_b, column, n, stage, stages * WORDS);
        asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
        asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
            arrive_expecting(arrived, STAGE_BYTES);
            load_box(tile, map_a, stage * ROW_BYTES, row, arrived);
            load_box(tile + TILE * ROW_BYTES, map_b, stage * ROW_BYTES, column, arrived);
            wait(arrived, stage & 1);
            for (int i = 0; i < 4; ++i) {
                u32 word = WORDS == 4 ? 4 * i : 0, byte = WORDS == 4 ? 0 : i;
                multiply(base + SUMS, tile + 32 * i, tile + TILE * ROW_BYTES + 32 * i, base + SCALES_A + word,
                         base + SCALES_B + word, byte, stage + i > 0);
            }
            asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                         :: "r"(read) : "memory");
        }
        wait(read, stage & 1);  // the sums are there, and tile and scales may be overwritten
        asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    }

    int lanes = warp * 32, at = row + threadIdx.x;
    for (int part = 0; part < TILE; part += 4) {
        u32 r[4];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(base + SUMS + (lanes << 16) + part));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        if (at < m && column + part < n)
            *(uint4*)(c + (long long)at * n + column + part) = make_uint4(r[0], r[1], r[2], r[3]);
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 0)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "n"(COLUMNS) : "memory");
}
"""


def _kernel(kind, kinds, words):
    options = ("-std=c++17", "-arch=sm_100a", f'-DKIND="{kind}"', f"-DKINDS={kinds}", f"-DWORDS={words}")
    return cupy.RawKernel(SOURCE, "product_kernel", options=options)


# E8M0 scales are bit 23. Codes of the elements: e4m3 is 0 of f8f6f4's, e2m1 is 1 of mxf4's.
MXFP8 = _kernel("mxf8f6f4.block_scale", "(1 << 23)", 1)
NVFP4 = _kernel("mxf4nvf4.block_scale.block16", "(1 << 7 | 1 << 10)", 4)


def _product(kernel, a, b, scales_a, scales_b, c, words):
    m, n = c.shape
    stages = scales_a.shape[1] // words
    maps = [tensor_map(x, (TILE, ROW_BYTES), swizzle=128) for x in (a, b)]
    grid = (n + TILE - 1) // TILE, (m + TILE - 1) // TILE
    sizes = np.int32(m), np.int32(n), np.int32(stages)
    kernel(grid, (TILE,), (*maps, scales_a, scales_b, c, *sizes), shared_mem=SHARED_BYTES)


def mxfp8(a, b, scales_a, scales_b, c):
    """Codes of e4m3, a byte each; a power of two for 32 of k: the byte is the exponent plus 127."""
    _product(MXFP8, a, b, scales_a, scales_b, c, 1)


def nvfp4(a, b, scales_a, scales_b, c):
    """Codes of e2m1, two in a byte, the first in its lower half; an e4m3 scale for 16 of k."""
    _product(NVFP4, a, b, scales_a, scales_b, c, 4)
