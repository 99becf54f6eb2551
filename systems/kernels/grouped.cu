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
#define SCALES (TILE_M + 4)     // of x in a stage, from a multiple of four rows on
#define SCALES_AT (X_BYTES + W_BYTES)
#define STAGE_BYTES (SCALES_AT + 1024)
#define OUT_BYTES (TILE_M * TILE_N * 2)  // what a tile stores, in boxes of 64 rows, or fewer, of BOX columns
#define BOX_BYTES (64 * 2 * BOX)
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
__device__ void meet_in_group(int consumer)  // its 128 threads
{
    asm volatile("bar.sync %0, 128;" :: "r"(consumer + 1) : "memory");
}
// One lane of a warp whose lanes are together. Behind `if (lane == 0)` the compiler cannot know that one lane is left,
// and puts a loop over lanes around every copy.
__device__ bool elected()
{
    u32 yes;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(yes));
    return yes;
}
__device__ int uniform(int value) { return __shfl_sync(~0u, value, 0); }  // equal in all lanes, and the compiler knows
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
}
// Where a matrix of 128-byte swizzled rows lies: address, and in the upper half, which all share, 1,024 bytes from
// eight rows to the next eight.
constexpr u64 SWIZZLED = 64ull << 32 | 1ull << 62;
__device__ u64 descriptor(u32 at) { return u64((at & 0x3FFFF) >> 4) | 1ull << 16 | SWIZZLED; }
// d (64 x 2 PIECE) = a (64 x 32) b (32 x 2 PIECE) in e4m3, added to d if `add`.
__device__ void multiply(float (&d)[PIECE], u64 a, u64 b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " FLAG ", 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n" WIDTH "k32.f32.e4m3.e4m3 {" REGISTERS "}, " INPUTS ", p, 1, 1; }"
                 : OPERANDS : "l"(a), "l"(b), "r"(add));
}
// The products of a block of k, one group: what lies at the descriptors a and b, added to d if `add`.
__device__ void multiply_block(float (&d)[PIECE], u64 a, u64 b, int add)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < 4; ++i) multiply(d, a + 2 * i, b + 2 * i, add || i > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ void finish() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ void finish_older() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// A block of k: its stage, the scales of this thread's two rows of x, and of w's one or two panels of 128 columns.
struct Scales { float upper, lower, first, second; };
struct Block { u32 stage; Scales by; };

// The sums from FIRST on += d times scales; the tile's columns from `cut` on, a multiple of 32, are of the second
// panel.
template <int FIRST> __device__ void promote(float (&sums)[SUMS], const float (&d)[PIECE], const Scales& by, int cut)
{
    #pragma unroll
    for (int j = 0; j < PIECE; j += 16) {  // 32 columns
        float w = TWO_PANELS && 2 * (FIRST + j) >= cut ? by.second : by.first;
        float upper = by.upper * w, lower = by.lower * w;
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
     const __grid_constant__ Map map_tall, const float* x_scale, const float* w_scale, const int* first,
     const int* count, half* y, int slots, int experts, int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    u32 outs = base + STAGES * STAGE_BYTES;
    int warp = uniform(threadIdx.x / 32), group = warp / 4, lane = threadIdx.x % 32;
    warp %= 4;
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
        if (warp == 0) {  // all of it: what one lane works out alone is moved to a uniform register for every copy
            for (int number = blockIdx.x / CLUSTER;
                 uniform(find(first, count, experts, columns, number, tile)); number += gridDim.x / CLUSTER) {
                int row = uniform(tile.row) + member * TILE_M, some = uniform(tile.end) - row;
                int halves = min(max((some + 63) / 64, 0), TILE_M / 64);  // that the expert has rows in
                int aligned = row & ~3;
                u32 scale_bytes = COPIED && some > 0 ? 4 * min(SCALES, slots - aligned) : 0;
                constexpr int SHARE = TILE_N / CLUSTER;  // rows of w that this block brings, to all
                int from = uniform(tile.expert * n + tile.column) + member * SHARE;
                for (int step = 0; step < steps; ++step) {
                    wait(empty + 8 * stage, phase ^ 1);  // passes at once the first time round
                    u32 signal = full + 8 * stage, x = base + stage * STAGE_BYTES, w = x + X_BYTES;
                    if (elected()) {
                        expect(signal, W_BYTES + halves * 64 * 128 + scale_bytes);
                        if (scale_bytes)
                            load_line(x_scale + (u64)step * slots + aligned, x + SCALES_AT, signal, scale_bytes);
                        #pragma unroll
                        for (int half = 0; half < TILE_M / 64; ++half)
                            if (half < halves) load(map_x, x + half * 64 * 128, signal, step * 128, row + half * 64);
                        if (CLUSTER == 1) load(map_w, w, signal, step * 128, from);
                        else load_to_all(map_w, w + member * SHARE * 128, signal, step * 128, from);
                    }
                    __syncwarp();
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMERS == 1 ? 240 : 232));
        int consumer = group - 1;
        u32 first_x = uniform(descriptor(base + consumer * 64 * 128)), first_w = uniform(descriptor(base + X_BYTES));
        // Where this consumer's results go, and where in a box of them this lane writes: chunks of 16 bytes are
        // swizzled as the tensor map says.
        u32 out = outs + consumer * (TILE_N / BOX) * BOX_BYTES, out_row = out + (16 * warp + lane % 16) * 2 * BOX;
        u32 half_of_eight = lane / 16, turn = (lane % 16 * 2 * BOX >> 7) & (BOX / 8 - 1);
        float sums[SUMS];
        // As in lab 09: x's scales are read right before the products of their block and arrive meanwhile, w's are
        // handed from lane to lane a block ahead, and read by 32: of this lane's block of 32, and of the 32 after them,
        // which may be the next tile's.
        float soon_first, soon_second = 0, first_of[2] = {}, second_of[2] = {};
        auto cut_of = [&](const Tile& of) { return TILE_N % 128 ? (of.column / 128 + 1) * 128 - of.column : 128; };
        auto ask = [&](const Tile& of, bool found, int step, int into) {
            bool there = found && step + lane < steps;
            const float* line = w_scale + ((u64)of.expert * panels + of.column / 128) * steps + step + lane;
            first_of[into] = there ? line[0] : 0;
            if (TWO_PANELS) second_of[into] = there ? line[of.column + cut_of(of) < n ? steps : 0] : 0;
        };
        auto next_scales = [&]() { first_of[0] = first_of[1], second_of[0] = second_of[1]; };
        auto hand = [&](int step) {
            // threadIdx.y is 0, which the compiler cannot know: what looks the same in all lanes would be waited for at
            // once, to have it in a uniform register.
            int from = step % 32 + threadIdx.y;
            soon_first = __shfl_sync(~0u, first_of[0], from);
            if (TWO_PANELS) soon_second = __shfl_sync(~0u, second_of[0], from);
        };
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
        int number = blockIdx.x / CLUSTER;
        bool found = find(first, count, experts, columns, number, tile);
        ask(tile, found, 0, 0);
        while (found) {
            int top = tile.row + member * TILE_M, strip = top + 64 * consumer, row = strip + 16 * warp;
            int column = tile.column, end = tile.end, cut = cut_of(tile);
            number += gridDim.x / CLUSTER;
            Tile following = tile;
            bool some = strip < end;  // of this warpgroup's rows are the expert's
            if (some) {
                int upper = min(row + lane / 4, end - 1), lower = min(row + lane / 4 + 8, end - 1);
                u32 upper_at = SCALES_AT + 4 * (upper - (top & ~3)), lower_at = SCALES_AT + 4 * (lower - (top & ~3));
                auto take = [&](int step) {  // a block of k that has come
                    Block of{stage, {0, 0, soon_first, soon_second}};
                    wait(full + 8 * stage, phase);
#if COPIED
                    u32 at = base + stage * STAGE_BYTES;
                    of.by.upper = read_shared(at + upper_at), of.by.lower = read_shared(at + lower_at);
#else
                    const float* line = x_scale + (u64)step * slots;
                    of.by.upper = line[upper], of.by.lower = line[lower];
#endif
                    if (step % 32 == 31) next_scales();
                    hand(step + 1);
                    advance();
                    return of;
                };
                auto prepare = [&](int step) {  // what comes after a block, while its products run
                    if (step == 0) {
                        found = find(first, count, experts, columns, number, following);
                        #pragma unroll
                        for (int i = 0; i < SUMS; ++i) sums[i] = 0;
                    }
                    if (step % 32 == 0) {
                        if (step + 32 < steps) ask(tile, true, step + 32, 1);
                        else ask(following, found, 0, 1);
                    }
                };
                auto issue = [&](float (&d)[PIECE], const Block& of, int piece) {
                    u32 at = of.stage * (STAGE_BYTES / 16);
                    u64 x = SWIZZLED | (first_x + at), w = SWIZZLED | (first_w + at + piece * 2 * PIECE * 128 / 16);
                    multiply_block(d, x, w, 0);
                };
                hand(0);
#if ACCUMULATORS == 1  // while one consumer promotes, the other's products run
                float d[PIECE];
                #pragma unroll 4
                for (int step = 0; step < steps; ++step) {
                    Block of = take(step);
                    issue(d, of, 0);
                    prepare(step);
                    finish();
                    if (PIECES == 1) release(of.stage);
                    promote<0>(sums, d, of.by, cut);
                    if (PIECES == 1) continue;
                    issue(d, of, 1);
                    finish();
                    release(of.stage);
                    promote<SUMS - PIECE>(sums, d, of.by, cut);
                }
#else  // two groups of products are on their way: one waits for the other in the tensor cores' queue
                float d[PIECE], e[PIECE];
                int step = 0;
                for (; step + 4 <= steps; step += 4) {
                    Block a = take(step);
                    issue(d, a, 0);
                    prepare(step);
                    Block b = take(step + 1);
                    issue(e, b, 0);
                    prepare(step + 1);
                    finish_older();
                    release(a.stage);
                    promote<0>(sums, d, a.by, cut);
                    a = take(step + 2);
                    issue(d, a, 0);
                    prepare(step + 2);
                    finish_older();
                    release(b.stage);
                    promote<0>(sums, e, b.by, cut);
                    b = take(step + 3);
                    issue(e, b, 0);
                    prepare(step + 3);
                    finish_older();
                    release(a.stage);
                    promote<0>(sums, d, a.by, cut);
                    finish();
                    release(b.stage);
                    promote<0>(sums, e, b.by, cut);
                }
                for (; step < steps; ++step) {
                    Block of = take(step);
                    issue(d, of, 0);
                    prepare(step);
                    finish();
                    release(of.stage);
                    promote<0>(sums, d, of.by, cut);
                }
#endif
                next_scales();  // the next tile's
            } else {
                found = find(first, count, experts, columns, number, following);
                ask(following, found, 0, 0);
                for (int step = 0; step < steps; ++step) {
                    wait(full + 8 * stage, phase);
                    release(stage);
                    advance();
                }
            }
            tile = following;
            if (!some) continue;
            bool full = row + 16 <= end;  // rows behind the end are not this expert's: no box of them
            if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // the last tile's are stored
            meet_in_group(consumer);
            if (full) {
                #pragma unroll
                for (int part = 0; part < TILE_N / 16; ++part) {
                    const float* s = sums + 8 * part;
                    u32 box = part / (BOX / 16), chunk = part % (BOX / 16) * 2 + half_of_eight;
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                                 :: "r"(out_row + box * BOX_BYTES + ((chunk ^ turn) << 4)), "r"(pack(s[0], s[1])),
                                    "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7])) : "memory");
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            }
            meet_in_group(consumer);
            if (strip + 64 <= end) {  // one copy of 64 rows, where each warp's 16 would be four
                if (lane == 0)
                    for (int box = warp; box < TILE_N / BOX; box += 4)
                        store(map_tall, out + box * BOX_BYTES, column + BOX * box, strip);
            } else if (full) {
                if (lane == 0)
                    for (int box = 0; box < TILE_N / BOX; ++box)
                        store(map_y, out + box * BOX_BYTES + warp * 16 * 2 * BOX, column + BOX * box, row);
            } else {
                half* at = y + (u64)(row + lane / 4) * n + column + lane % 4 * 2;
                #pragma unroll
                for (int j = 0; j < TILE_N / 8; ++j) {
                    if (column + 8 * j >= n) break;
                    if (row + lane / 4 < end) *(u32*)(at + 8 * j) = pack(sums[4 * j], sums[4 * j + 1]);
                    if (row + lane / 4 + 8 < end)
                        *(u32*)(at + 8 * n + 8 * j) = pack(sums[4 * j + 2], sums[4 * j + 3]);
                }
            }
            if (lane == 0) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            __syncwarp();
        }
        if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncwarp();
    }
    sync_blocks();  // no block leaves while a peer may still signal or read it
}
