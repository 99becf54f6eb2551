"""hopper_hgemm, rung 14: tiles and parts of k chosen for the shape, and any m, n and k.

The last rung's kernel: a producer warpgroup, two consumers of 64 rows each, blocks that stay, pairs of blocks that
share b, results stored by tensor copies. Few tiles leave SMs idle: then the tiles are narrower, or k is split into
parts whose sums are added up by a second kernel. float16, or bfloat16 in arrays of uint16; float32 sums; any m, n, k.
"""

from functools import cache
from itertools import product

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_K = 128, 64
CONSUMERS, THREADS = 2, 384  # warpgroups that multiply; one more that copies
BLOCKS = 132  # an H200's SMs
GROUP = 8  # rows of tiles, or of pairs of tiles, that are computed together
STAGES = {256: 4, 128: 6, 64: 8}  # by the columns of a tile
OUT_BYTES = 4 * CONSUMERS * 2 * 16 * 128
CODE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };  // a CUtensorMap
#define A_BYTES (TILE_M * TILE_K * 2)
#define PART_BYTES (TILE_K * 64 * 2)  // 64 columns of b: rows of 128 bytes, the span of the swizzle
#define PARTS (TILE_N / 64)
#define STAGE_BYTES (A_BYTES + PARTS * PART_BYTES)
#define OUT_BYTES (16 * 128)  // 16 rows of 64 columns, what a warp stores at once

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
__device__ void arrive_at(u32 barrier, u32 rank)  // at the barrier in the same place of another block of the cluster
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" :: "r"(barrier), "r"(rank) : "memory");
}
__device__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ void load(const Map& map, u32 to, u32 barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ void load_to_all(const Map& map, u32 to, u32 barrier, int x, int y)  // the same place in every block
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"((short)((1 << CLUSTER) - 1)) : "memory");
}
__device__ void store(const Map& map, u32 from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
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
                 "wgmma.mma_async.sync.aligned.m64n" WIDTH "k16.f32." TYPE "." TYPE " {" REGISTERS "}, " INPUTS
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
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

// Down the columns of GROUP rows of tiles, then back through the next GROUP rows, which meets b again in the L2.
__device__ void place(int tile, int rows, int columns, int& row, int& column)
{
    int first = tile / (GROUP * columns) * GROUP, height = min(rows - first, GROUP);
    row = first + tile % (GROUP * columns) % height;
    column = tile % (GROUP * columns) / height;
    if (first / GROUP % 2) column = columns - 1 - column;
}

// c = a b, or with PARTIAL one of `splits` sums over a part of k, in float32, to partial[split][m][n].
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
gemm(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const __grid_constant__ Map map_c,
     float* partial, int splits, int m, int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    int group = __shfl_sync(~0u, threadIdx.x / 128, 0), lane = threadIdx.x % 32;
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 4 * CONSUMERS * CLUSTER);
        }
        fence_init();
    }
    cluster_sync();  // nobody signals a peer whose barriers are not there yet

    int rows = (m + TILE_M * CLUSTER - 1) / (TILE_M * CLUSTER), columns = (n + TILE_N - 1) / TILE_N;
    int tiles = rows * columns, all_steps = (k + TILE_K - 1) / TILE_K;
    u32 stage = 0, phase = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            for (int work = blockIdx.x / CLUSTER; work < tiles * splits; work += gridDim.x / CLUSTER) {
                int row, column, split = work / tiles;
                place(work % tiles, rows, columns, row, column);
                row = (row * CLUSTER + rank) * TILE_M, column *= TILE_N;
                int end = (split + 1) * all_steps / splits;
                for (int step = split * all_steps / splits; step < end; ++step) {
                    wait(empty + 8 * stage, phase ^ 1);  // passes at once the first time round
                    u32 signal = full + 8 * stage, to = base + stage * STAGE_BYTES;
                    expect(signal, STAGE_BYTES);
                    load(map_a, to, signal, step * TILE_K, row);
                    for (int part = rank; part < PARTS; part += CLUSTER) {  // a share of b, to all
                        u32 place = to + A_BYTES + part * PART_BYTES;
                        if (CLUSTER > 1) load_to_all(map_b, place, signal, column + 64 * part, step * TILE_K);
                        else load(map_b, place, signal, column + 64 * part, step * TILE_K);
                    }
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        u32 mine = (group - 1) * (A_BYTES / CONSUMERS);
        int warp = threadIdx.x / 32 - 4;
        u32 out = base + STAGES * STAGE_BYTES + warp * 2 * OUT_BYTES;  // two pieces of 16 x 64 a warp
        u32 out_row = out + lane % 16 * 128, half = lane / 16, turn = lane % 8;
        float d[SUMS];
        for (int work = blockIdx.x / CLUSTER; work < tiles * splits; work += gridDim.x / CLUSTER) {
            int row, column, split = work / tiles;
            place(work % tiles, rows, columns, row, column);
            row = (row * CLUSTER + rank) * TILE_M, column *= TILE_N;
            int steps = (split + 1) * all_steps / splits - split * all_steps / splits;
            u32 before = stage;
            for (int step = 0; step < steps; ++step) {
                wait(full + 8 * stage, phase);
                u32 at = base + stage * STAGE_BYTES;
                u64 a = descriptor(at + mine, 16), b = descriptor(at + A_BYTES, PART_BYTES);
                begin_products();
                #pragma unroll
                for (int i = 0; i < TILE_K / 16; ++i)  // 16 steps of k: 32 bytes of a's rows, 16 rows of b
                    multiply(d, a + 2 * i, b + 128 * i, step > 0 || i > 0);
                commit_products();
                if (step > 0) {
                    wait_products<1>();  // those of the step before: this step's stay in flight
                    if (lane < CLUSTER) arrive_at(empty + 8 * before, lane);
                }
                before = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
            wait_products<0>();
            if (lane < CLUSTER) arrive_at(empty + 8 * before, lane);
            row += 16 * warp;
#if PARTIAL
            float* to = partial + (u64)split * m * n;
            int upper = row + lane / 4, lower = upper + 8, at = column + lane % 4 * 2;
            #pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j, at += 8) {
                if (at < n && upper < m) *(float2*)(to + (u64)upper * n + at) = make_float2(d[4 * j], d[4 * j + 1]);
                if (at < n && lower < m) *(float2*)(to + (u64)lower * n + at) = make_float2(d[4 * j + 2], d[4 * j + 3]);
            }
#else
            #pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                u32 to = part % 2 * OUT_BYTES;
                if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");  // it has been read
                __syncwarp();
                #pragma unroll
                for (int q = 0; q < 4; ++q) {
                    const float* s = d + 32 * part + 8 * q;
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                                 :: "r"(out_row + to + (((2 * q + half) ^ turn) << 4)), "r"(pack(s[0], s[1])),
                                    "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7])) : "memory");
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncwarp();
                if (lane == 0) store(map_c, out + to, column + 64 * part, row);
            }
#endif
        }
        if (!PARTIAL && lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        __syncwarp();
    }
    cluster_sync();  // no block leaves while a peer may still signal it
}

// c = the sum of the partial sums, four elements a thread, always in the same order.
extern "C" __global__ void add_up(const float4* partial, uint2* c, int splits, long long quads)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    float4 sum = partial[i];
    for (int s = 1; s < splits; ++s) {
        float4 more = partial[s * quads + i];
        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    c[i] = make_uint2(pack(sum.x, sum.y), pack(sum.z, sum.w));
}

// Rows of `from_width` elements into rows of `to_width`: cut off, or filled up with zeros.
extern "C" __global__ void copy_rows(const unsigned short* from, unsigned short* to, int from_width, int to_width)
{
    u64 row = blockIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < to_width) to[row * to_width + column] = column < from_width ? from[row * from_width + column] : 0;
}
"""


@cache
def module(tile_n, cluster, partial, bfloat16):
    """The kernels for tiles of 128 x tile_n."""
    sums = tile_n // 2  # float32 that a thread keeps
    options = (
        "-arch=sm_90a",
        *(
            f"-DTILE_M={TILE_M} -DTILE_N={tile_n} -DTILE_K={TILE_K} -DSTAGES={STAGES[tile_n]} -DCONSUMERS={CONSUMERS} "
            f"-DTHREADS={THREADS} -DSUMS={sums} -DGROUP={GROUP} -DCLUSTER={cluster} -DPARTIAL={int(partial)}"
        ).split(),
        f'-DTYPE="{"bf16" if bfloat16 else "f16"}"',
        '-DREGISTERS="' + ", ".join(f"%{i}" for i in range(sums)) + '"',
        "-DOPERANDS=" + ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
        f'-DWIDTH="{tile_n}"',
        f'-DINPUTS="%{sums}, %{sums + 1}"',
        f'-DFLAG="%{sums + 2}"',
    )
    return cupy.RawModule(code=CODE, options=options)


def up(number, unit):
    """`number` in whole units, rounded up."""
    return -(-number // unit)


def estimate(m, n, k, tile_n, cluster, splits):
    """About how many microseconds a choice takes: what the heuristic below compares."""
    units = up(m, TILE_M * cluster) * up(n, tile_n) * splits
    waves = up(units, BLOCKS // cluster)
    step = {256: 1024, 128: 560, 64: 400}[tile_n] * (1 if cluster == 2 else 1.1)  # cycles of a step of k
    cycles = waves * (up(up(k, TILE_K), splits) * step + 1500) + 2500
    added = 3 + m * n * (8 * splits + 2) / 3.5e6 if splits > 1 else 0
    return cycles / 1700 + added


def choose(m, n, k):
    """Columns of a tile, blocks of a cluster and parts of k for a shape."""
    steps = up(k, TILE_K)
    choices = [
        (tile_n, cluster, splits)
        for tile_n, cluster, splits in product((256, 128, 64), (2, 1), (1, 2, 3, 4, 6, 8, 12, 16))
        if splits <= max(1, steps // 4) and not (tile_n == 64 and cluster == 2)
    ]
    return min(choices, key=lambda choice: estimate(m, n, k, *choice))


def copy_rows(from_array, to_array):
    """Copy rows into narrower or wider ones."""
    (rows, from_width), to_width = from_array.shape, to_array.shape[1]
    kernel = module(128, 1, False, False).get_function("copy_rows")
    for first in range(0, rows, 65535):  # the most blocks along y
        part = slice(first, min(first + 65535, rows))
        grid = (up(to_width, 128), part.stop - first)
        sizes = np.int32(from_width), np.int32(to_width)
        kernel(grid, (128,), (from_array[part], to_array[part], *sizes))


def multiply(a, b, c, tile_n, cluster, splits):
    """c = a @ b for k and n that are multiples of 8, with tiles of 128 x tile_n and k in `splits` parts."""
    (m, k), n = a.shape, b.shape[1]
    bfloat16 = a.dtype == np.uint16
    kinds = {"dtype": "bfloat16" if bfloat16 else "float16"}
    kernels = module(tile_n, cluster, splits > 1, bfloat16)
    maps = (
        tensor_map(a, (TILE_M, TILE_K), **kinds),
        tensor_map(b, (TILE_K, 64), **kinds),
        tensor_map(c, (16, 64), **kinds),
    )
    partial = cupy.empty((splits, m, n), np.float32) if splits > 1 else None
    units = up(m, TILE_M * cluster) * up(n, tile_n) * splits
    blocks = cluster * min(units, BLOCKS // cluster)
    gemm = kernels.get_function("gemm")
    shared = STAGES[tile_n] * 2 * TILE_K * (TILE_M + tile_n) + OUT_BYTES + 1024  # with room to align
    gemm.max_dynamic_shared_size_bytes = shared
    sizes = np.int32(splits), np.int32(m), np.int32(n), np.int32(k)
    gemm((blocks,), (THREADS,), (*maps, partial, *sizes), shared_mem=shared)
    if splits > 1:
        quads = m * n // 4
        grid = (up(quads, 256),)
        kernels.get_function("add_up")(grid, (256,), (partial, c, np.int32(splits), np.int64(quads)))


def hgemm(a, b, c):
    """c = a @ b: float16, or bfloat16 where the arrays are of uint16; float32 sums."""
    (m, k), n = a.shape, b.shape[1]
    # A tensor map wants rows that are a multiple of 16 bytes long.
    whole_k, whole_n = 8 * up(k, 8), 8 * up(n, 8)
    inputs, out = [a, b], c
    for i, width in ((0, whole_k), (1, whole_n)):
        if inputs[i].shape[1] != width:
            wide = cupy.empty((inputs[i].shape[0], width), a.dtype)
            copy_rows(inputs[i], wide)
            inputs[i] = wide
    if n != whole_n:
        out = cupy.empty((m, whole_n), a.dtype)
    multiply(*inputs, out, *choose(m, whole_n, k))
    if n != whole_n:
        copy_rows(out, c)
