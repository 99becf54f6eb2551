"""hopper_hgemm, rung 1: tensor copies bring the tiles, wgmma multiplies them: 64 x 64 outputs a block.

One thread asks for a whole tile, with the bytes swizzled as wgmma reads them; an mbarrier counts what has arrived. The
four warps of the block multiply from shared memory. Copying and multiplying take turns.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K = 64, 64, 64
SUMS = TILE_N // 2  # float32 that a thread keeps of a product of 64 rows
OPTIONS = (
    "-arch=sm_90a",
    *f"-DTILE_M={TILE_M} -DTILE_N={TILE_N} -DTILE_K={TILE_K} -DSUMS={SUMS}".split(),
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

extern "C" __global__ void __launch_bounds__(128)
gemm(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, u32* c, int m, int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 full;
    u32 at_a = (shared_address(memory) + 1023) & ~1023u, at_b = at_a + A_BYTES;  // the swizzle repeats every 1024 bytes
    int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    if (threadIdx.x == 0) {
        init(shared_address(&full), 1);
        fence_init();
    }
    __syncthreads();

    float d[SUMS];
    for (int step = 0; step * TILE_K < k; ++step) {
        if (threadIdx.x == 0) {
            expect(shared_address(&full), A_BYTES + B_BYTES);
            load(map_a, at_a, shared_address(&full), step * TILE_K, row);
            for (int part = 0; part < TILE_N / 64; ++part)
                load(map_b, at_b + part * PART_BYTES, shared_address(&full), column + 64 * part, step * TILE_K);
        }
        wait(shared_address(&full), step & 1);
        u64 a = descriptor(at_a, 16), b = descriptor(at_b, PART_BYTES);
        begin_products();
        #pragma unroll
        for (int i = 0; i < TILE_K / 16; ++i)  // 16 steps of k: 32 bytes of a's rows, 16 rows of b
            multiply(d, a + 2 * i, b + 128 * i, step > 0 || i > 0);
        commit_products();
        wait_products<0>();
        __syncthreads();  // nobody reads the tiles any more
    }
    write(c, d, row, column, m, n);
}
""",
    options=OPTIONS,
).get_function("gemm")


def hgemm(a, b, c):
    """c = a @ b, float16 with float32 sums; k and n are multiples of 8."""
    m, k = a.shape
    n = b.shape[1]
    map_a, map_b = tensor_map(a, (TILE_M, TILE_K)), tensor_map(b, (TILE_K, 64))
    grid = (-(-n // TILE_N), -(-m // TILE_M))
    shared = 2 * TILE_K * (TILE_M + TILE_N) + 1024
    sizes = np.int32(m), np.int32(n), np.int32(k)
    kernel(grid, (128,), (map_a, map_b, c, *sizes), shared_mem=shared)
