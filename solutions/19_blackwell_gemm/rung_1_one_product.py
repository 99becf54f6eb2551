"""blackwell_gemm, rung 1: one thread issues one product after another, and all wait for each stage.

128 threads copy 64 of k of both operands to shared memory, in the layout without a swizzle. One thread issues four
products of 128 x 128 x 16. The sums stay in tensor memory until the end, where each thread reads its lane.
"""

import cupy
import numpy as np

TILE, TILE_K = 128, 64  # as in the source below
SHARED_BYTES = 2 * 2 * TILE * TILE_K

kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 64;
constexpr int COLUMNS = 128;  // of tensor memory

typedef unsigned u32;
typedef unsigned long long u64;

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void wait(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}

// Without a swizzle, a tile is made of pieces of eight rows of 16 bytes, one behind the other: pieces of neighbouring
// rows are 128 bytes apart, pieces of neighbouring k as far as all rows take.
__device__ void load_tile(half* tile, const half* matrix, int row, int step, int rows, int width)
{
    for (int i = threadIdx.x; i < 128 * TILE_K / 8; i += 128) {
        int r = i / (TILE_K / 8), piece = i % (TILE_K / 8), x = step * TILE_K + 8 * piece;
        bool inside = row + r < rows && x < width;
        uint4 eight = inside ? *(const uint4*)(matrix + (long long)(row + r) * width + x) : make_uint4(0, 0, 0, 0);
        *(uint4*)(tile + piece * 128 * 8 + r * 8) = eight;
    }
}

// No swizzle: 2,048 bytes to the next eight of k, 128 to the next eight rows.
__device__ u64 descriptor(u32 address)
{
    return (u64)(address >> 4) | (u64)(2048 >> 4) << 16 | (u64)(128 >> 4) << 32 | 1ull << 46;
}
constexpr u32 INSTRUCTION = 1 << 4 | TILE_N / 8 << 17 | TILE_M / 16 << 24;  // float32 sums of float16, m and n
__device__ void multiply(u32 sums, u64 a, u64 b, bool add)  // by 16 of k
{
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                 :: "r"(sums), "l"(a), "l"(b), "r"(INSTRUCTION), "r"((u32)add) : "memory");
}
__device__ void multiply_stage(u32 sums, u32 a, u32 b, bool first)
{
    for (int i = 0; i < TILE_K / 16; ++i)
        multiply(sums, descriptor(a + 4096 * i), descriptor(b + 4096 * i), !first || i > 0);
}
__device__ void commit(u32 barrier)  // it arrives when all products issued so far are done
{
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 :: "r"(barrier) : "memory");
}
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void allocate(u32* address)
{
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                 :: "r"(shared_address(address)), "n"(COLUMNS) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}
__device__ void deallocate(u32 address)
{
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(address), "n"(COLUMNS) : "memory");
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

extern "C" __global__ void __launch_bounds__(128)
hgemm_kernel(const half* a, const half* b, half* c, int m, int n, int k)
{
    extern __shared__ __align__(128) half tiles[];
    __shared__ u64 done;
    __shared__ u32 memory;
    half *tile_a = tiles, *tile_b = tiles + TILE_M * TILE_K;
    u32 read = shared_address(&done);
    int warp = threadIdx.x / 32, row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    if (threadIdx.x == 0) init(read, 1);
    if (warp == 0) allocate(&memory);
    fence_before();
    __syncthreads();
    fence_after();
    u32 sums = memory;

    for (int step = 0; step < (k + TILE_K - 1) / TILE_K; ++step) {
        load_tile(tile_a, a, row, step, m, k);
        load_tile(tile_b, b, column, step, n, k);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the tensor core is to see these stores
        __syncthreads();
        if (threadIdx.x == 0) {
            multiply_stage(sums, shared_address(tile_a), shared_address(tile_b), step == 0);
            commit(read);
        }
        wait(read, step & 1);  // the sums are there, and the tiles may be overwritten
    }
    fence_after();
    store(c, sums, row, column, m, n);
    fence_before();
    __syncthreads();
    if (warp == 0) deallocate(sums);
}
""",
    "hgemm_kernel",
    options=("-std=c++17", "-arch=sm_100a"),
)


def hgemm(a, b, c):
    """c = a @ b.T. a is m x k, b is n x k and c is m x n, all float16 in C order; n and k are multiples of 8."""
    (m, k), n = a.shape, b.shape[0]
    grid = (n + TILE - 1) // TILE, (m + TILE - 1) // TILE
    kernel(grid, (TILE,), (a, b, c, np.int32(m), np.int32(n), np.int32(k)), shared_mem=SHARED_BYTES)
