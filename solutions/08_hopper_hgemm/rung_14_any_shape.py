"""hopper_hgemm, rung 14: tiles and parts of k chosen for the shape, and any m, n and k.

The last rung's kernel: a producer warpgroup, two consumers of 64 rows each, blocks that stay, pairs of blocks that
share b, results stored by tensor copies. Few tiles leave SMs idle: then the tiles are narrower, or the blocks of a
cluster take parts of k and add up their sums through shared memory. float16, or bfloat16 in arrays of uint16; float32
sums; any m, n and k.
"""

from functools import cache

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_K = 128, 64
CONSUMERS, THREADS = 2, 384  # warpgroups that multiply; one more that copies
# Clusters of so many blocks that an H200 runs at once; elsewhere ask cuOccupancyMaxActiveClusters.
CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
GROUP = 8  # rows of tiles, or of pairs of tiles, that are computed together
STAGES = {256: 4, 128: 6, 64: 8}  # by the columns of a tile
STORE_BYTES = 4 * CONSUMERS * 2 * 16 * 128  # two pieces of 16 x 64 for each warp that multiplies
CODE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };  // a CUtensorMap
#define A_BYTES (TILE_M * TILE_K * 2)
#define PART_BYTES (TILE_K * 64 * 2)  // 64 columns of b: rows of 128 bytes, the span of the swizzle
#define PARTS (TILE_N / 64)
#define STAGE_BYTES (A_BYTES + PARTS * PART_BYTES)
#define PITCH (TILE_N + 8)  // floats from row to row of sums in shared memory: quads of lanes use other banks
#define OUT_BYTES (16 * 128)  // 16 rows of 64 columns, what a warp stores at once
// TURNS steps before its end the second consumer waits for the first, which needs as many stages meanwhile.
static_assert(TURNS == 0 || TURNS < STAGES, "consumers in turn need more stages than steps that one waits");

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
#if CLUSTER == 1
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
#else
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" :: "r"(barrier), "r"(rank) : "memory");
#endif
}
__device__ void sync_blocks()  // of a cluster, or the threads of a block alone
{
#if CLUSTER * SPLITS == 1
    __syncthreads();
#else
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#endif
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

__device__ float4 read_peer(u32 address, u32 rank)  // shared memory of another block of the cluster
{
    float4 r;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w) : "r"(address), "r"(rank) : "memory");
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

// c = a b. A cluster is CLUSTER blocks with tiles above each other, or SPLITS blocks with parts of k of the same tile.
extern "C" __global__ void
#if CLUSTER * SPLITS > 1
__cluster_dims__(CLUSTER * SPLITS, 1, 1)
#endif
__launch_bounds__(THREADS)
gemm(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const __grid_constant__ Map map_c,
     uint2* c, int m, int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    int group = __shfl_sync(~0u, threadIdx.x / 128, 0), lane = threadIdx.x % 32;
    u32 rank = 0;
    if (CLUSTER * SPLITS > 1) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 4 * CONSUMERS * CLUSTER);
        }
        fence_init();
    }
    sync_blocks();  // nobody signals a peer whose barriers are not there yet

    int rows = (m + TILE_M * CLUSTER - 1) / (TILE_M * CLUSTER), columns = (n + TILE_N - 1) / TILE_N;
    int first = blockIdx.x / (CLUSTER * SPLITS), next = gridDim.x / (CLUSTER * SPLITS), tiles = rows * columns;
    u32 above = rank % CLUSTER, part_of_k = rank / CLUSTER;
    int all_steps = (k + TILE_K - 1) / TILE_K, start = part_of_k * all_steps / SPLITS;
    int steps = (part_of_k + 1) * all_steps / SPLITS - start;
    u32 stage = 0, phase = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            for (int tile = first; tile < tiles; tile += next) {
                int row, column;
                place(tile, rows, columns, row, column);
                row = (row * CLUSTER + above) * TILE_M, column *= TILE_N;
                for (int step = start; step < start + steps; ++step) {
                    wait(empty + 8 * stage, phase ^ 1);  // passes at once the first time round
                    u32 signal = full + 8 * stage, to = base + stage * STAGE_BYTES;
                    expect(signal, STAGE_BYTES);
                    load(map_a, to, signal, step * TILE_K, row);
                    for (int part = above; part < PARTS; part += CLUSTER) {  // a share of b, to all
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
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        u32 mine = (group - 1) * (A_BYTES / CONSUMERS);
        int warp = threadIdx.x / 32 - 4;
        u32 out = base + STAGES * STAGE_BYTES + warp * 2 * OUT_BYTES;  // two pieces of 16 x 64 a warp
        u32 out_row = out + lane % 16 * 128, half = lane / 16, turn = lane % 8;
        float d[SUMS];
        for (int tile = first; tile < tiles; tile += next) {
            int row, column;
            place(tile, rows, columns, row, column);
            row = (row * CLUSTER + above) * TILE_M + 16 * warp, column *= TILE_N;
            u32 before = stage;
            for (int step = 0; step < steps; ++step) {
                // The second consumer lets the first one finish, whose results then leave while the second multiplies.
                if (TURNS && group == 2 && step == max(steps - TURNS, 0)) asm volatile("bar.sync 1, 256;" ::: "memory");
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
            if (TURNS && group == 1) asm volatile("bar.arrive 1, 256;" ::: "memory");
            wait_products<0>();
            if (lane < CLUSTER) arrive_at(empty + 8 * before, lane);
#if SPLITS == 1
            #pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                u32 to = part % 2 * OUT_BYTES;
                // What this piece held last has been read: the pieces alternate, unless a tile has only one.
                if (lane == 0) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PARTS > 1) : "memory");
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
#else
            asm volatile("bar.sync 2, 256;" ::: "memory");  // the other consumer has read the last stage too
            float* sums = (float*)(memory + (base - shared_address(memory)));
            float* to = sums + (16 * warp + lane / 4) * PITCH + lane % 4 * 2;
            #pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j) {
                *(float2*)(to + 8 * j) = make_float2(d[4 * j], d[4 * j + 1]);
                *(float2*)(to + 8 * PITCH + 8 * j) = make_float2(d[4 * j + 2], d[4 * j + 3]);
            }
#endif
        }
        if (SPLITS == 1 && lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncwarp();
    }
    if (SPLITS > 1) {  // every block adds up some rows of the tile, always in the same order
        sync_blocks();
        int row, column, quads = TILE_N / 4, top = rank * TILE_M / SPLITS;
        place(first, rows, columns, row, column);
        for (int i = threadIdx.x; i < ((rank + 1) * TILE_M / SPLITS - top) * quads; i += THREADS) {
            u32 at = base + ((top + i / quads) * PITCH + i % quads * 4) * 4;
            float4 sum = read_peer(at, 0);
            #pragma unroll
            for (int s = 1; s < SPLITS; ++s) {
                float4 more = read_peer(at, s);
                sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
            }
            int y = row * TILE_M + top + i / quads, x = column * TILE_N + i % quads * 4;
            if (y < m && x < n) c[((u64)y * n + x) / 4] = make_uint2(pack(sum.x, sum.y), pack(sum.z, sum.w));
        }
    }
    sync_blocks();  // no block leaves while a peer may still signal or read it
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
def kernel(name, tile_n, cluster, splits, bfloat16, in_turn=False):
    """A kernel of the module for tiles of 128 x tile_n."""
    sums = tile_n // 2  # float32 that a thread keeps
    options = (
        "-arch=sm_90a",
        *(
            f"-DTILE_M={TILE_M} -DTILE_N={tile_n} -DTILE_K={TILE_K} -DSTAGES={STAGES[tile_n]} -DCONSUMERS={CONSUMERS} "
            f"-DTHREADS={THREADS} -DSUMS={sums} -DGROUP={GROUP} -DCLUSTER={cluster} -DSPLITS={splits} "
            f"-DTURNS={3 if in_turn else 0}"
        ).split(),
        f'-DTYPE="{"bf16" if bfloat16 else "f16"}"',
        '-DREGISTERS="' + ", ".join(f"%{i}" for i in range(sums)) + '"',
        "-DOPERANDS=" + ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
        f'-DWIDTH="{tile_n}"',
        f'-DINPUTS="%{sums}, %{sums + 1}"',
        f'-DFLAG="%{sums + 2}"',
    )
    made = cupy.RawModule(code=CODE, options=options).get_function(name)
    if name == "gemm":
        made.max_dynamic_shared_size_bytes = shared_bytes(tile_n)
    return made


def shared_bytes(tile_n):
    """Of a block: the ring of stages, what is stored at once, and room to align."""
    return STAGES[tile_n] * 2 * TILE_K * (TILE_M + tile_n) + STORE_BYTES + 1024


def up(number, unit):
    """`number` in whole units, rounded up."""
    return -(-number // unit)


def estimate(m, n, k, tile_n, cluster, splits):
    """About how many microseconds a choice takes on an H200: what the heuristic below compares."""
    units, blocks = up(m, TILE_M * cluster) * up(n, tile_n), cluster * splits
    step = {256: 0.54, 128: 0.27, 64: 0.17}[tile_n]  # of k
    if splits > 1:  # neighbours no longer read the same tiles at the same time
        step *= 1.6 if tile_n == 64 else 1.3
    elif units * blocks > 80:  # the L2 and the power have to do for all
        step *= 1.19 if cluster == 2 else {256: 1.2, 128: 1.25, 64: 1.25}[tile_n]
    store = {256: 0.8, 128: 0.4, 64: 0.1}[tile_n]
    turns = up(units, CLUSTERS[blocks])
    return 6 + (blocks > 1) + 1.6 * (splits > 1) * tile_n / 128 + turns * (up(up(k, TILE_K), splits) * step + store)


def choose(m, n, k):
    """Columns of a tile, blocks that share b, and parts of k for a shape."""
    choices = [(256, 2, 1), (256, 1, 1), (128, 2, 1), (128, 1, 1), (64, 1, 1)]
    choices += [
        (tile_n, 1, splits)
        for tile_n in (256, 128, 64)
        for splits in range(2, 9)
        if splits <= up(k, TILE_K) // 2 and up(m, TILE_M) * up(n, tile_n) <= CLUSTERS[splits]
    ]
    return min(choices, key=lambda choice: estimate(m, n, k, *choice))


def copy_rows(from_array, to_array):
    """Copy rows into narrower or wider ones."""
    (rows, from_width), to_width = from_array.shape, to_array.shape[1]
    for first in range(0, rows, 65535):  # the most blocks along y
        part = slice(first, min(first + 65535, rows))
        grid = (up(to_width, 128), part.stop - first)
        sizes = np.int32(from_width), np.int32(to_width)
        kernel("copy_rows", 64, 1, 1, False)(grid, (128,), (from_array[part], to_array[part], *sizes))


def multiply(a, b, c, tile_n, cluster, splits):
    """c = a @ b for k and n that are multiples of 8, with tiles of 128 x tile_n and k in `splits` parts."""
    (m, k), n = a.shape, b.shape[1]
    bfloat16 = a.dtype == np.uint16
    kind = "bfloat16" if bfloat16 else "float16"
    boxes = (a, (TILE_M, TILE_K)), (b, (TILE_K, 64)), (c, (16, 64))
    maps = [tensor_map(array, box, dtype=kind) for array, box in boxes]
    units = up(m, TILE_M * cluster) * up(n, tile_n)
    # The fewest blocks that are done in as many turns; those that share a tile have one turn only.
    turns = 1 if splits > 1 else up(units, CLUSTERS[cluster])
    blocks = up(units, turns) * cluster * splits
    # Where there are no next tiles to hide behind, the consumers finish one after the other.
    in_turn = tile_n == 256 and turns == splits == 1 and k >= 16 * TILE_K
    gemm = kernel("gemm", tile_n, cluster, splits, bfloat16, in_turn)
    sizes = np.int32(m), np.int32(n), np.int32(k)
    gemm((blocks,), (THREADS,), (*maps, c, *sizes), shared_mem=shared_bytes(tile_n))


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
