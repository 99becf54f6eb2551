"""fp8_gemm, rung 4: the products of the next block of k are issued before this one's sums are promoted.

Each consumer has two sets of 64 sums for the tensor core, which fills one while the warps scale the other into a third.
A stage goes back when the products that read it are done, which is now after the next ones have been issued.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 128, 128, 6  # the scales are those of 128 of k
CONSUMERS, THREADS = 2, 384  # warpgroups that multiply; one more that copies
GROUP = 8  # rows of tiles that are computed together
BLOCKS = 132  # an H200's SMs
SHARED = STAGES * TILE_K * (TILE_M + TILE_N) + 1024  # bytes, with room to align
SUMS = TILE_N // 2  # float32 that a thread keeps of a product of 64 rows
OPTIONS = (
    "-std=c++17",
    "-arch=sm_90a",
    *(
        f"-DTILE_M={TILE_M} -DTILE_N={TILE_N} -DTILE_K={TILE_K} -DSTAGES={STAGES} -DCONSUMERS={CONSUMERS} "
        f"-DTHREADS={THREADS} -DGROUP={GROUP} -DSUMS={SUMS}"
    ).split(),
    '-DREGISTERS="' + ", ".join(f"%{i}" for i in range(SUMS)) + '"',
    "-DOPERANDS=" + ", ".join(f'"+f"(d[{i}])' for i in range(SUMS)),
    f'-DWIDTH="{TILE_N}"',
    f'-DINPUTS="%{SUMS}, %{SUMS + 1}"',
    f'-DFLAG="%{SUMS + 2}"',
)

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };  // a CUtensorMap
#define X_BYTES (TILE_M * TILE_K)
#define W_BYTES (TILE_N * TILE_K)
#define STAGE_BYTES (X_BYTES + W_BYTES)

// Two floats to two e4m3 in the lower 16 bits, `low` first: to nearest even.
__device__ u32 to_e4m3(float low, float high)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}
// A warp for each 128 of a row, four neighbours a lane; the eight warps of a block write neighbouring scales.
extern "C" __global__ void quantise(const half* x, u32* x8, float* x_scale, int m, int k)
{
    int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32, column = blockIdx.y * 128 + 4 * lane;
    if (row >= m) return;
    u64 at = (u64)row * k + column;
    uint2 word = make_uint2(0, 0);
    if (column < k) word = *(const uint2*)(x + at);
    float2 a = __half22float2(*(half2*)&word.x), b = __half22float2(*(half2*)&word.y);
    float largest = fmaxf(fmaxf(fabsf(a.x), fabsf(a.y)), fmaxf(fabsf(b.x), fabsf(b.y)));
    for (int distance = 16; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, distance));
    // 448 is 1.75 times 2^8: a larger fraction than 0.75 needs the next power of two.
    u32 exponent = largest == 0 ? 127 : ((__float_as_uint(largest) + 0x1fffff) >> 23) - 8;
    float scale = __uint_as_float(exponent << 23), inverse = __uint_as_float((254 - exponent) << 23);
    if (column < k) x8[at / 4] = to_e4m3(a.x * inverse, a.y * inverse) | to_e4m3(b.x * inverse, b.y * inverse) << 16;
    if (lane == 0) x_scale[(u64)blockIdx.y * m + row] = scale;
}

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void arrive(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ void expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ void wait(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
__device__ void load(const Map& map, u32 to, u32 barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Where a matrix lies, for wgmma: lines of 128 bytes along k, swizzled, 1024 bytes from eight lines to the next eight
// (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", matrix descriptor).
__device__ u64 descriptor(u32 at)
{
    return u64((at & 0x3FFFF) >> 4) | 1ull << 16 | u64(1024 >> 4) << 32 | 1ull << 62;
}
// d (64 x TILE_N) = a (64 x 32) b (32 x TILE_N) in e4m3, added to d if `add`.
__device__ void multiply(float (&d)[SUMS], u64 a, u64 b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " FLAG ", 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n" WIDTH "k32.f32.e4m3.e4m3 {" REGISTERS "}, " INPUTS ", p, 1, 1; }"
                 : OPERANDS : "l"(a), "l"(b), "r"(add));
}
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}
// Begin d = x w for 128 of k: 64 lines of x and TILE_N of w.
__device__ void multiply_block(float (&d)[SUMS], u32 x, u32 w)
{
    u64 a = descriptor(x), b = descriptor(w);
    begin_products();
    #pragma unroll
    for (int i = 0; i < TILE_K / 32; ++i) multiply(d, a + 2 * i, b + 2 * i, i > 0);
    commit_products();
}
// sums += d, each row times its scale: d[4 j] and d[4 j + 1] are of the upper row, the next two of the lower one.
__device__ void promote(float (&sums)[SUMS], const float (&d)[SUMS], float upper, float lower)
{
    #pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] += d[i] * (i % 4 < 2 ? upper : lower);
}

// The first of the rows `row` of a warpgroup that this thread has sums of; the other is eight below. Of every eight
// columns it has two, from 2 (lane % 4) on.
__device__ int upper_row(int row) { return row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }
__device__ void write(half* y, const float (&d)[SUMS], int upper, int column, int m, int n)
{
    column += threadIdx.x % 4 * 2;
    #pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j)
        if (column + 8 * j < n) {
            half* at = y + (u64)upper * n + column + 8 * j;
            if (upper < m) *(half2*)at = __floats2half2_rn(d[4 * j], d[4 * j + 1]);
            if (upper + 8 < m) *(half2*)(at + 8ll * n) = __floats2half2_rn(d[4 * j + 2], d[4 * j + 3]);
        }
}

// The first row and column of tile `number`: down the columns of GROUP rows of tiles. False behind the last tile.
__device__ bool place(int number, int m, int n, int& row, int& column)
{
    int rows = (m + TILE_M - 1) / TILE_M, columns = (n + TILE_N - 1) / TILE_N;
    if (number >= rows * columns) return false;
    int first = number / (GROUP * columns) * GROUP, height = min(rows - first, GROUP);
    row = (first + number % (GROUP * columns) % height) * TILE_M;
    column = number % (GROUP * columns) / height * TILE_N;
    return true;
}

extern "C" __global__ void __launch_bounds__(THREADS)
fp8_gemm(const __grid_constant__ Map map_x, const __grid_constant__ Map map_w, const float* x_scale,
         const float* w_scale, half* y, int m, int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES, stage = 0, phase = 0;
    int blocks = (k + TILE_K - 1) / TILE_K;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 4 * CONSUMERS);  // a warp knows of its own products only
        }
        fence_init();
    }
    __syncthreads();

    int group = threadIdx.x / 128, row, column;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x > 0) return;
        for (int tile = blockIdx.x; place(tile, m, n, row, column); tile += gridDim.x)
            for (int block = 0; block < blocks; ++block) {
                wait(empty + 8 * stage, phase ^ 1);  // passes at once the first time round
                u32 signal = full + 8 * stage, to = base + stage * STAGE_BYTES;
                expect(signal, STAGE_BYTES);
                load(map_x, to, signal, block * TILE_K, row);
                load(map_w, to + X_BYTES, signal, block * TILE_K, column);
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        u32 mine = (group - 1) * (X_BYTES / CONSUMERS);
        float sums[SUMS], even[SUMS], odd[SUMS];
        for (int tile = blockIdx.x; place(tile, m, n, row, column); tile += gridDim.x) {
            int upper = upper_row(row + (group - 1) * 64);
            int inside = min(upper, m - 1), below = min(upper + 8, m - 1);  // rows outside are not written
            const float* of_w = w_scale + (u64)(column / 128) * blocks;
            auto begin = [&](float (&d)[SUMS]) {
                wait(full + 8 * stage, phase);
                u32 at = base + stage * STAGE_BYTES;
                multiply_block(d, at + mine, at + X_BYTES);
            };
            // What follows on the products of a block: its stage goes back, and its sums are scaled and added up.
            auto finish = [&](const float (&d)[SUMS], float2 scale, u32 done) {
                if (threadIdx.x % 32 == 0) arrive(empty + 8 * done);
                promote(sums, d, scale.x, scale.y);
            };
            // Of this thread's two rows; read before the products that they belong to are waited for.
            auto scales = [&](int block) {
                const float* of_x = x_scale + (u64)block * m;
                return make_float2(of_x[inside] * of_w[block], of_x[below] * of_w[block]);
            };
            auto advance = [&]() {
                u32 before = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
                return before;
            };
            for (int i = 0; i < SUMS; ++i) sums[i] = 0;
            begin(even);
            int block = 0;
            for (; block + 2 < blocks; block += 2) {
                float2 scale = scales(block);
                u32 before = advance();
                begin(odd);
                wait_products<1>();
                finish(even, scale, before);
                scale = scales(block + 1);
                before = advance();
                begin(even);
                wait_products<1>();
                finish(odd, scale, before);
            }
            // One or two blocks are left. Branches around `begin` in the loop would have the assembler wait for the
            // products before each promotion ("wgmma.mma_async instructions are serialized").
            float2 scale = scales(block);
            u32 before = advance();
            if (block + 2 == blocks) {
                begin(odd);
                wait_products<1>();
                finish(even, scale, before);
                scale = scales(block + 1);
                before = advance();
                wait_products<0>();
                finish(odd, scale, before);
            } else {
                wait_products<0>();
                finish(even, scale, before);
            }
            write(y, sums, upper, column, m, n);
        }
    }
}
""",
    options=OPTIONS,
)
quantise_kernel, gemm_kernel = module.get_function("quantise"), module.get_function("fp8_gemm")
gemm_kernel.max_dynamic_shared_size_bytes = SHARED


def fp8_gemm(x, w8, w_scale, x8, x_scale, y):
    """Quantise x in blocks of 1 x 128 into x8 and x_scale, then y = (x8 x_scale) @ (w8 w_scale).T.

    x is m x k and y m x n, float16; x8 (m x k) and w8 (n x k) hold e4m3 in uint8; x_scale has a row for each 128 of k
    and a column for each row of x, w_scale a row for each 128 rows of w8 and a column for each 128 of k, float32. k is
    a multiple of 16 and n of 8.
    """
    (m, k), n = x.shape, w8.shape[0]
    quantise_kernel(((m + 7) // 8, x_scale.shape[0]), (256,), (x, x8, x_scale, np.int32(m), np.int32(k)))
    maps = tensor_map(x8, (TILE_M, TILE_K)), tensor_map(w8, (TILE_N, TILE_K))
    sizes = np.int32(m), np.int32(n), np.int32(k)
    tiles = (m + TILE_M - 1) // TILE_M * ((n + TILE_N - 1) // TILE_N)
    gemm_kernel((min(tiles, BLOCKS),), (THREADS,), (*maps, x_scale, w_scale, y, *sizes), shared_mem=SHARED)
