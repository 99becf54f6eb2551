"""hopper_hgemm, rung 9: a warp says once that a stage is empty, not 32 times.

Arrivals at an mbarrier are atomic operations on one word of shared memory. What a warp waited for is done for all of
its lanes, so that one lane can speak for it; for the other warps of its warpgroup it cannot.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4
CONSUMERS, THREADS = 2, 384  # warpgroups that multiply; one more that copies
BLOCKS = 132  # an H200's SMs
GROUP = 16  # rows of tiles that are computed together
SHARED = STAGES * 2 * TILE_K * (TILE_M + TILE_N) + 1024  # bytes, with room to align
SUMS = TILE_N // 2  # float32 that a thread keeps of a product of 64 rows
OPTIONS = (
    "-arch=sm_90a",
    *(
        f"-DTILE_M={TILE_M} -DTILE_N={TILE_N} -DTILE_K={TILE_K} -DSTAGES={STAGES} -DCONSUMERS={CONSUMERS} "
        f"-DTHREADS={THREADS} -DSUMS={SUMS} -DGROUP={GROUP}"
    ).split(),
    '-DREGISTERS="' + ", ".join(f"%{i}" for i in range(SUMS)) + '"',
    "-DOPERANDS=" + ", ".join(f'"+f"(d[{i}])' for i in range(SUMS)),
    f'-DWIDTH="{TILE_N}"',
    f'-DINPUTS="%{SUMS}, %{SUMS + 1}"',
    f'-DFLAG="%{SUMS + 2}"',
)

kernel = cupy.RawModule(
    code=r"""
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };  // a CUtensorMap
#define A_BYTES (TILE_M * TILE_K * 2)
#define PART_BYTES (TILE_K * 64 * 2)  // 64 columns of b: rows of 128 bytes, the span of the swizzle
#define B_BYTES (TILE_N / 64 * PART_BYTES)
#define STAGE_BYTES (A_BYTES + B_BYTES)

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
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
__device__ void arrive(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ void load(const Map& map, u32 to, u32 barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Where a matrix lies, for wgmma: address, distance of parts (`leading`), 1024 bytes from eight rows to the next eight,
// rows of 128 bytes swizzled (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", matrix descriptor).
__device__ u64 descriptor(u32 at, u32 leading)
{
    return u64((at & 0x3FFFF) >> 4) | u64(leading >> 4) << 16 | u64(1024 >> 4) << 32 | 1ull << 62;
}
// d (64 x TILE_N) = a (64 x 16) b (16 x TILE_N), added to d if `add`; b has its columns side by side ("transposed").
__device__ void multiply(float (&d)[SUMS], u64 a, u64 b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " FLAG ", 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n" WIDTH "k16.f32.f16.f16 {" REGISTERS "}, " INPUTS
                 ", p, 1, 1, 0, 1; }" : OPERANDS : "l"(a), "l"(b), "r"(add));
}
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}
__device__ u32 pack(float low, float high)
{
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

// 64 x TILE_N sums of a warpgroup to rows `row` and on of c. Lane l of warp w has rows 16 w + l / 4 and eight more, and
// of every eight columns two, from 2 (l % 4) on.
__device__ void write(u32* c, const float (&d)[SUMS], int row, int column, int m, int n)
{
    int t = threadIdx.x % 128, upper = row + t / 32 * 16 + t % 32 / 4, lower = upper + 8;
    column += t % 4 * 2;
    #pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j)
        if (column + 8 * j < n) {
            if (upper < m) c[((u64)upper * n + column + 8 * j) / 2] = pack(d[4 * j], d[4 * j + 1]);
            if (lower < m) c[((u64)lower * n + column + 8 * j) / 2] = pack(d[4 * j + 2], d[4 * j + 3]);
        }
}

// The row and column of a tile, in tiles: down the columns of GROUP rows.
__device__ void place(int tile, int rows, int columns, int& row, int& column)
{
    int first = tile / (GROUP * columns) * GROUP, height = min(rows - first, GROUP);
    row = first + tile % (GROUP * columns) % height;
    column = tile % (GROUP * columns) / height;
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, u32* c, int m, int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    int group = threadIdx.x / 128, steps = (k + TILE_K - 1) / TILE_K;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 4 * CONSUMERS);
        }
        fence_init();
    }
    __syncthreads();

    int rows = (m + TILE_M - 1) / TILE_M, columns = (n + TILE_N - 1) / TILE_N, tiles = rows * columns;
    u32 stage = 0, phase = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                int row, column;
                place(tile, rows, columns, row, column);
                row *= TILE_M, column *= TILE_N;
                for (int step = 0; step < steps; ++step) {
                    wait(empty + 8 * stage, phase ^ 1);  // passes at once the first time round
                    u32 signal = full + 8 * stage, to = base + stage * STAGE_BYTES;
                    expect(signal, STAGE_BYTES);
                    load(map_a, to, signal, step * TILE_K, row);
                    for (int part = 0; part < TILE_N / 64; ++part)
                        load(map_b, to + A_BYTES + part * PART_BYTES, signal, column + 64 * part, step * TILE_K);
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        u32 mine = (group - 1) * (A_BYTES / CONSUMERS);
        int lane = threadIdx.x % 32;
        float d[SUMS];
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int row, column;
            place(tile, rows, columns, row, column);
            row *= TILE_M, column *= TILE_N;
            for (int step = 0; step < steps; ++step) {
                wait(full + 8 * stage, phase);
                u32 at = base + stage * STAGE_BYTES;
                u64 a = descriptor(at + mine, 16), b = descriptor(at + A_BYTES, PART_BYTES);
                begin_products();
                #pragma unroll
                for (int i = 0; i < TILE_K / 16; ++i)
                    multiply(d, a + 2 * i, b + 128 * i, step > 0 || i > 0);
                commit_products();
                wait_products<0>();
                if (lane == 0) arrive(empty + 8 * stage);
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
            write(c, d, row + (group - 1) * 64, column, m, n);
        }
    }
}
""",
    options=OPTIONS,
).get_function("gemm")
kernel.max_dynamic_shared_size_bytes = SHARED


def hgemm(a, b, c):
    """c = a @ b, float16 with float32 sums; k and n are multiples of 8."""
    m, k = a.shape
    n = b.shape[1]
    map_a, map_b = tensor_map(a, (TILE_M, TILE_K)), tensor_map(b, (TILE_K, 64))
    blocks = min(-(-m // TILE_M) * -(-n // TILE_N), BLOCKS)
    sizes = np.int32(m), np.int32(n), np.int32(k)
    kernel((blocks,), (THREADS,), (map_a, map_b, c, *sizes), shared_mem=SHARED)
