"""grouped_gemm, rung 4: the tiles of lab 09's last rung, for groups.

Two blocks of a cluster have tiles above each other and share the strip of w that both need, scales of x come with their
stage, a consumer promotes one accumulator while products go into the other, and results are stored by tensor copies:
16 rows at a time, which a group's last ones may not fill. Those leave from registers.
"""

from functools import cache

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_K = 128  # as many as share a scale
SMS = 132  # of an H100 or H200; a block stays on each
GROUP = 8  # rows of tiles, or of pairs of tiles, that are computed together
ROOM = 227 * 1024  # bytes of shared memory that a block may have
CODE = r"""
#include <cuda_fp16.h>
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };  // a CUtensorMap
#define CONSUMERS (TILE_M / 64)
#define THREADS (128 * (CONSUMERS + 1))
#define SUMS (TILE_N / 2)       // of a thread
#define PIECE (SUMS / PIECES)   // of them that one product makes
#define X_BYTES (TILE_M * 128)
#define W_BYTES (TILE_N * 128)
#define STAGE_BYTES (X_BYTES + W_BYTES)
#define SCALES (TILE_M + 4)     // of x in a stage, from a multiple of four rows on; they lie behind all stages
#define OUT_BYTES (16 * 64)   // 16 rows of 32 columns, what a warp stores at once
#define TWO_PANELS (128 % TILE_N != 0)  // whether columns of one tile can have two scales

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
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
#if CLUSTER == 1
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
__device__ void load_line(const void* from, u32 to, u32 barrier, u32 bytes)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
__device__ float read_shared(u32 at)
{
    float r;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(r) : "r"(at) : "memory");
    return r;
}
__device__ void store(const Map& map, u32 from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Where a matrix of 128-byte swizzled rows lies: address, and 1,024 bytes from eight rows to the next eight.
__device__ u64 descriptor(u32 at) { return u64((at & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
// d (64 x 2 PIECE) = a (64 x 32) b (32 x 2 PIECE) in e4m3, added to d if `add`.
__device__ void multiply(float (&d)[PIECE], u64 a, u64 b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " FLAG ", 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n" WIDTH "k32.f32.e4m3.e4m3 {" REGISTERS "}, " INPUTS ", p, 1, 1; }"
                 : OPERANDS : "l"(a), "l"(b), "r"(add));
}
__device__ void multiply_block(float (&d)[PIECE], u32 x, u32 w, int add)
{
    u64 a = descriptor(x), b = descriptor(w);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < 4; ++i) multiply(d, a + 2 * i, b + 2 * i, add || i > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// What a block of k is scaled by: x's two rows of this thread, and w's one or two panels of 128 columns.
struct Scales { float upper, lower, first, second; };

// The sums from FIRST on += d times scales; the tile's columns from `cut` on, a multiple of 32, are of the second
// panel.
template <int FIRST> __device__ void promote(float (&sums)[SUMS], const float (&d)[PIECE], const Scales& s, int cut)
{
    #pragma unroll
    for (int j = 0; j < PIECE; j += 16) {  // 32 columns
        float w = TWO_PANELS && 2 * (FIRST + j) >= cut ? s.second : s.first;
        float upper = s.upper * w, lower = s.lower * w;
        #pragma unroll
        for (int i = 0; i < 16; ++i) sums[FIRST + j + i] += d[j + i] * (i % 4 < 2 ? upper : lower);
    }
}
__device__ u32 pack(float low, float high)
{
    half2 pair = __floats2half2_rn(low, high);
    return *(u32*)&pair;
}
// Down the columns of GROUP rows of tiles, then back through the next GROUP rows, which meets w again in the L2.
__device__ void place(int tile, int rows, int columns, int& row, int& column)
{
    int first = tile / (GROUP * columns) * GROUP, height = min(rows - first, GROUP);
    row = first + tile % (GROUP * columns) % height;
    column = tile % (GROUP * columns) / height;
    if (first / GROUP % 2) column = columns - 1 - column;
}

// One tile of a cluster: columns from `column` on of rows that begin at `row` and end before `end`, of an expert whose
// first tile is number `before`.
struct Tile { int expert, row, end, column, before; };

// Tile number `number` of all experts' tiles; false behind the last one. Numbers only grow: the search goes on at the
// expert of the tile before.
__device__ bool find(const int* first, const int* count, int experts, int columns, int number, Tile& tile)
{
    for (; tile.expert < experts; ++tile.expert) {
        int rows = count[tile.expert], tall = (rows + TILE_M * CLUSTER - 1) / (TILE_M * CLUSTER);
        if (number < tile.before + tall * columns) {
            place(number - tile.before, tall, columns, tile.row, tile.column);
            tile.row = first[tile.expert] + tile.row * TILE_M * CLUSTER, tile.column *= TILE_N;
            tile.end = first[tile.expert] + rows;
            return true;
        }
        tile.before += tall * columns;
    }
    return false;
}

// y = (x x_scale) (w w_scale)^T for the rows of every expert. A cluster is CLUSTER blocks with tiles above each other,
// which share w.
extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ Map map_x, const __grid_constant__ Map map_w, const __grid_constant__ Map map_y,
     const float* x_scale, const float* w_scale, const int* first, const int* count, half* y, int slots, int experts,
     int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    u32 outs = base + STAGES * STAGE_BYTES, scales = outs + 4 * CONSUMERS * 2 * OUT_BYTES;
    int group = __shfl_sync(~0u, threadIdx.x / 128, 0), lane = threadIdx.x % 32;
    u32 member = 0;  // of the cluster
    if (CLUSTER > 1) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(member));
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 4 * CONSUMERS * CLUSTER);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    sync_blocks();  // nobody signals a peer whose barriers are not there yet

    int columns = (n + TILE_N - 1) / TILE_N, panels = (n + 127) / 128, steps = (k + 127) / 128;
    Tile tile = {0, 0, 0, 0, 0};
    u32 stage = 0, phase = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(CONSUMERS == 1 ? 80 : 40));
        if (threadIdx.x == 0) {
            for (int number = blockIdx.x / CLUSTER; find(first, count, experts, columns, number, tile);
                 number += gridDim.x / CLUSTER) {
                int row = tile.row + member * TILE_M, some = tile.end - row;
                int halves = min(max((some + 63) / 64, 0), TILE_M / 64);  // that the expert has rows in
                int aligned = row & ~3;
                u32 scale_bytes = COPIED && some > 0 ? 4 * min(SCALES, slots - aligned) : 0;
                for (int step = 0; step < steps; ++step) {
                    wait(empty + 8 * stage, phase ^ 1);  // passes at once the first time round
                    u32 signal = full + 8 * stage, x = base + stage * STAGE_BYTES, w = x + X_BYTES;
                    expect(signal, W_BYTES + halves * 64 * 128 + scale_bytes);
                    if (scale_bytes)
                        load_line(x_scale + (u64)step * slots + aligned, scales + stage * SCALES * 4, signal,
                                  scale_bytes);
                    for (int half = 0; half < halves; ++half)
                        load(map_x, x + half * 64 * 128, signal, step * 128, row + half * 64);
                    constexpr int SHARE = TILE_N / CLUSTER;  // rows of w that this block brings, to all
                    int from = tile.expert * n + tile.column + member * SHARE;
                    if (CLUSTER > 1) load_to_all(map_w, w + member * SHARE * 128, signal, step * 128, from);
                    else load(map_w, w, signal, step * 128, from);
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMERS == 1 ? 240 : 232));
        u32 mine = (group - 1) * 64 * 128;
        int warp = threadIdx.x / 32 - 4;
        u32 out = outs + warp * 2 * OUT_BYTES;  // two pieces of 16 x 32 a warp
        u32 out_row = out + lane % 16 * 64, half_of_eight = lane / 16, turn = lane / 2 % 4;
        float sums[SUMS];
        for (int number = blockIdx.x / CLUSTER; find(first, count, experts, columns, number, tile);
             number += gridDim.x / CLUSTER) {
            int top = tile.row + member * TILE_M, row = top + 16 * warp, column = tile.column, end = tile.end;
            auto advance = [&]() {
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            };
            auto release = [&](u32 used) {  // by every warp, when all of its lanes have read the scales
                __syncwarp();
                if (lane < CLUSTER) arrive_at(empty + 8 * used, lane);
            };
            if (top + (group - 1) * 64 >= end) {  // none of this warpgroup's rows is the expert's
                for (int step = 0; step < steps; ++step) {
                    wait(full + 8 * stage, phase);
                    release(stage);
                    advance();
                }
                continue;
            }
            int panel = column / 128, cut = TILE_N % 128 ? (panel + 1) * 128 - column : 128;
            const float* first_w = w_scale + ((u64)tile.expert * panels + panel) * steps;
            const float* second_w = TWO_PANELS && column + cut < n ? first_w + steps : first_w;
            int upper_row = min(row + lane / 4, end - 1), lower_row = min(row + lane / 4 + 8, end - 1);
            u32 upper_at = 4 * (upper_row - (top & ~3)), lower_at = 4 * (lower_row - (top & ~3));  // in a stage
            #pragma unroll
            for (int i = 0; i < SUMS; ++i) sums[i] = 0;
            // Issues the products of a block of k, or of one of its pieces; gives the block's scales.
            auto issue = [&](float (&d)[PIECE], int piece, int step) {
                Scales of{0, 0, first_w[step], TWO_PANELS ? second_w[step] : 0.f};
#if !COPIED
                const float* of_step = x_scale + (u64)step * slots;
                of.upper = of_step[upper_row], of.lower = of_step[lower_row];
#endif
                if (piece == 0) wait(full + 8 * stage, phase);
                u32 at = base + stage * STAGE_BYTES;
                multiply_block(d, at + mine, at + X_BYTES + piece * 2 * PIECE * 128, 0);
#if COPIED
                u32 of_x = scales + stage * SCALES * 4;
                of.upper = read_shared(of_x + upper_at), of.lower = read_shared(of_x + lower_at);
#endif
                return of;
            };
            auto finish = [&](int piece) {
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                if (piece < PIECES - 1) return;
                release(stage);
                advance();
            };
#if ACCUMULATORS == 2  // one's products are on their way while the other's are promoted
            constexpr int LAST = PIECES - 1;
            float d[PIECE], e[PIECE];
            int item = 0;  // a block of k, or one of its pieces
#if AHEAD  // four at a time, of which two are on their way: one waits for the other in the tensor cores' queue
            auto issued = [&](int piece) {
                if (piece == LAST) advance();
            };
            auto finish_older = [&](u32 used, int piece) {
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (piece == LAST) release(used);
            };
            for (; item + 4 <= steps * PIECES; item += 4) {
                u32 of_first = stage;
                Scales a = issue(d, 0, item / PIECES);
                issued(0);
                u32 of_second = stage;
                Scales b = issue(e, LAST, (item + 1) / PIECES);
                issued(LAST);
                finish_older(of_first, 0);
                promote<0>(sums, d, a, cut);
                u32 of_third = stage;
                a = issue(d, 0, (item + 2) / PIECES);
                issued(0);
                finish_older(of_second, LAST);
                promote<LAST * PIECE>(sums, e, b, cut);
                b = issue(e, LAST, (item + 3) / PIECES);
                finish_older(of_third, 0);
                promote<0>(sums, d, a, cut);
                finish(LAST);
                promote<LAST * PIECE>(sums, e, b, cut);
            }
            for (; item < steps * PIECES; item += PIECES) {
                Scales a = issue(d, 0, item / PIECES);
                finish(0);
                promote<0>(sums, d, a, cut);
                if (PIECES == 1) continue;
                a = issue(e, LAST, item / PIECES);
                finish(LAST);
                promote<LAST * PIECE>(sums, e, a, cut);
            }
#else
            Scales of_d = issue(d, 0, 0), of_e;
            finish(0);
            for (item = 1; item + 1 < steps * PIECES; item += 2) {
                of_e = issue(e, LAST, item / PIECES);
                promote<0>(sums, d, of_d, cut);
                finish(LAST);
                of_d = issue(d, 0, (item + 1) / PIECES);
                promote<LAST * PIECE>(sums, e, of_e, cut);
                finish(0);
            }
            if (item < steps * PIECES) {
                of_e = issue(e, LAST, item / PIECES);
                promote<0>(sums, d, of_d, cut);
                finish(LAST);
                promote<LAST * PIECE>(sums, e, of_e, cut);
            } else {
                promote<0>(sums, d, of_d, cut);
            }
#endif
#else  // the other consumer's products are on their way, if it is ahead or behind
            float d[PIECE];
            for (int step = 0; step < steps; ++step) {
                Scales of_d = issue(d, 0, step);
                finish(0);
                promote<0>(sums, d, of_d, cut);
                if (PIECES == 1) continue;
                of_d = issue(d, PIECES - 1, step);
                finish(PIECES - 1);
                promote<(PIECES - 1) * PIECE>(sums, d, of_d, cut);
            }
#endif
            if (row + 16 > end) {  // rows behind the end are not this expert's: no box of them
                half* at = y + (u64)(row + lane / 4) * n + column + lane % 4 * 2;
                #pragma unroll
                for (int j = 0; j < TILE_N / 8; ++j) {
                    if (column + 8 * j >= n) break;
                    if (row + lane / 4 < end) *(u32*)(at + 8 * j) = pack(sums[4 * j], sums[4 * j + 1]);
                    if (row + lane / 4 + 8 < end)
                        *(u32*)(at + 8 * n + 8 * j) = pack(sums[4 * j + 2], sums[4 * j + 3]);
                }
                continue;
            }
            #pragma unroll
            for (int part = 0; part < TILE_N / 32; ++part) {
                u32 to = part % 2 * OUT_BYTES;
                // What this piece held last has been read: pieces alternate, but an odd number of them begins the next
                // tile with the piece that ended this one.
                if (lane == 0) {
                    if (part == 0 && TILE_N / 32 % 2) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
                    else asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
                }
                __syncwarp();
                #pragma unroll
                for (int q = 0; q < 2; ++q) {
                    const float* s = sums + 16 * part + 8 * q;
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                                 :: "r"(out_row + to + (((2 * q + half_of_eight) ^ turn) << 4)), "r"(pack(s[0], s[1])),
                                    "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7])) : "memory");
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncwarp();
                if (lane == 0) store(map_y, out + to, column + 32 * part, row);
            }
        }
        if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncwarp();
    }
    sync_blocks();  // no block leaves while a peer may still signal or read it
}
"""


def stages(tile_m, tile_n):
    """Of the ring: as many as there is room for beside what is stored."""
    return min((ROOM - 1024 - 128 * tile_m) // (TILE_K * (tile_m + tile_n) + 4 * (tile_m + 4)), 12)


def shared_bytes(tile_m, tile_n):
    """Of a block: the ring of stages with x's scales, what is stored at once, and room to align."""
    return stages(tile_m, tile_n) * (TILE_K * (tile_m + tile_n) + 4 * (tile_m + 4)) + 128 * tile_m + 1024


@cache
def kernel(tile_m, tile_n, cluster, style, copied):
    """The kernel for one choice; `copied` if scales of x can come by bulk copies."""
    pieces = 2 if style in ("half", "halves", "halves ahead") else 1
    sums = tile_n // 2 // pieces  # float32 that a product makes in a thread
    options = (
        "-arch=sm_90a",
        "-std=c++17",
        *(
            f"-DTILE_M={tile_m} -DTILE_N={tile_n} -DSTAGES={stages(tile_m, tile_n)} -DGROUP={GROUP} "
            f"-DCLUSTER={cluster} -DPIECES={pieces} -DACCUMULATORS={1 if style in ('one', 'half') else 2} "
            f"-DAHEAD={int('ahead' in style)} -DCOPIED={int(copied)}"
        ).split(),
        '-DREGISTERS="' + ", ".join(f"%{i}" for i in range(sums)) + '"',
        "-DOPERANDS=" + ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
        f'-DWIDTH="{2 * sums}"',
        f'-DINPUTS="%{sums}, %{sums + 1}"',
        f'-DFLAG="%{sums + 2}"',
    )
    made = cupy.RawModule(code=CODE, options=options).get_function("gemm")
    made.max_dynamic_shared_size_bytes = shared_bytes(tile_m, tile_n)
    return made


def up(number, unit):
    """`number` in whole units, rounded up."""
    return -(-number // unit)


def choices(most):
    """What can be chosen if no expert has more than `most` rows, the most promising first: rows and columns of a tile,
    blocks of a cluster that share w, and whether a consumer has "one" accumulator, of the tile's width or of "half" of
    it, "two", or two of "halves", the products of one of which may wait "ahead" in the tensor cores' queue.
    """
    # They won for thousands of rows, on an H100 (benchmarks/results/experts_nvidia_h100_80gb_hbm3.json) and, when there
    # was no wider one, on an H200 (experts.json).
    wide = [(128, 256, 1, "half"), (128, 192, 1, "one")]
    tall = [(128, 128, 2, "two"), (128, 128, 2, "two ahead"), (128, 192, 2, "one"), (128, 192, 1, "halves")]
    low = [(64, 128, 1, "two ahead"), (64, 192, 1, "halves ahead"), (64, 64, 1, "two ahead"), (64, 192, 1, "one")]
    few = [(128, 128, 1, "two ahead")]  # won there for 20 rows an expert of k = 7168, by less than 1% over low[0]
    return [*wide, *tall, *few] if most > 512 else [*few, *low, *wide, *(tall if most > 128 else ())]


def multiply_by(choice, most, x8, x_scale, w8, w_scale, first, count, y):
    """As `grouped_gemm`, by one of the choices."""
    tile_m, tile_n, cluster, _ = choice
    (slots, k), (experts, n, _) = x8.shape, w8.shape
    map_x = tensor_map(x8, (64, TILE_K), swizzle=128)
    map_w = tensor_map(w8.reshape(experts * n, k), (tile_n // cluster, TILE_K), swizzle=128)
    map_y = tensor_map(y, (16, 32), swizzle=64)
    rows = tile_m * cluster
    tall = min(experts * up(most, rows), slots // rows + experts)  # rows of tiles, whatever the counts are
    blocks = min(tall * up(n, tile_n), SMS // cluster) * cluster
    sizes = np.int32(slots), np.int32(experts), np.int32(n), np.int32(k)
    arguments = map_x, map_w, map_y, x_scale, w_scale, first, count, y, *sizes
    threads = 128 * (tile_m // 64 + 1)
    copied = slots % 4 == 0  # bulk copies take multiples of 16 bytes
    kernel(*choice, copied)((blocks,), (threads,), arguments, shared_mem=shared_bytes(tile_m, tile_n))


def grouped_gemm(most, x8, x_scale, w8, w_scale, first, count, y):
    """y = (x8 x_scale) @ (w8[e] w_scale[e]).T for the rows of each expert e: count[e] of them, from first[e] on."""
    multiply_by(choices(most)[0], most, x8, x_scale, w8, w_scale, first, count, y)
