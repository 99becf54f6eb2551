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
#define SCALES_AT (X_BYTES + W_BYTES)  // x's scales in a stage
#define STAGE_BYTES (SCALES_AT + 1024)
#define PITCH (TILE_N + 8)    // floats from row to row of sums in shared memory: quads of lanes use other banks
#define STRIP_BYTES (64 * TILE_N * 2)  // what a consumer stores, in boxes of BOX columns
#define BOX_BYTES (64 * 2 * BOX)
#define BLOCKS (CLUSTER * SPLITS)
#define EARLY (CLUSTER > 1 ? 0 : STAGES < 4 ? STAGES : 4)  // steps whose copies go before the block meets
#define PANELS ((255 - UNIT + TILE_N) / 128)  // of 128 columns, each with a scale, that have a part in one tile
static_assert(PANELS <= 2, "promote knows two");
// Columns that have one scale, wherever a tile begins: UNIT, or half as many where those are all of an accumulator,
// since nvcc unrolls no loop over k in which a loop over such columns has one turn.
#define RUN (UNIT < 2 * PIECE ? UNIT : UNIT / 2)

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
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
__device__ void sync_blocks()  // of a cluster, or the threads of a block alone
{
#if BLOCKS == 1
    __syncthreads();
#else
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
// Nobody signals a peer whose barriers are not there yet. They are fenced, so that arriving need not release what this
// thread did before: it would wait for the scales that the thread has asked for.
__device__ void meet_first()
{
#if BLOCKS == 1
    __syncthreads();
#else
    asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
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

// A block of k: its stage, the scales of this thread's two rows of x, and of w's panels of 128 columns.
struct Scales { float upper, lower, w[PANELS]; };
struct Block { u32 stage; Scales by; };

// The sums from FIRST on += d times scales; the tile's columns from `cut` on, a multiple of RUN, are of the second
// panel.
template <int FIRST> __device__ void promote(float (&sums)[SUMS], const float (&d)[PIECE], const Scales& by, int cut)
{
    #pragma unroll
    for (int j = 0; j < PIECE; j += RUN / 2) {
        int column = 2 * (FIRST + j);  // the first are of the first panel, those from 128 on of the second
        float w = column >= 128 || (column >= UNIT && column >= cut) ? by.w[PANELS - 1] : by.w[0];
        float upper = by.upper * w, lower = by.lower * w;
        #pragma unroll
        for (int i = 0; i < RUN / 2; ++i) sums[FIRST + j + i] += d[j + i] * (i % 4 < 2 ? upper : lower);
    }
}
__device__ u32 pack(float low, float high)
{
    half2 pair = __floats2half2_rn(low, high);
    return *(u32*)&pair;
}
__device__ float4 read_peer(u32 address, u32 rank)  // shared memory of another block of the cluster
{
    float4 r;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w) : "r"(address), "r"(rank) : "memory");
    return r;
}

// Down the columns of GROUP rows of tiles, then back through the next GROUP rows, which meets w again in the L2. A
// division takes long: `inverse` is 2^32 over GROUP * columns, rounded up, which can give one group too many.
__device__ void place(u32 tile, u32 rows, u32 columns, u32 inverse, int& row, int& column)
{
    u32 group = __umulhi(tile, inverse);
    if (group * GROUP * columns > tile) --group;
    u32 rest = tile - group * GROUP * columns, first = group * GROUP;
    u32 height = rows - first < GROUP ? rows - first : GROUP;
    column = height == GROUP ? rest / GROUP : rest / height;
    row = first + rest - column * height;
    if (group % 2) column = columns - 1 - column;
}

// y = (x x_scale) (w w_scale)^T. A cluster is CLUSTER blocks with tiles above each other, which share w, or SPLITS
// blocks with parts of k of the same tile.
extern "C" __global__ void
#if BLOCKS > 1
__cluster_dims__(BLOCKS, 1, 1)
#endif
__launch_bounds__(THREADS, 1)
gemm(const float* x_scale, const float* w_scale, uint2* y, int m, int n, int k, u32 inverse,
     const __grid_constant__ Map map_x, const __grid_constant__ Map map_w, const __grid_constant__ Map map_y)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    u32 outs = base + STAGES * STAGE_BYTES;
    // Lane 0's, which is every lane's: so the compiler knows that no branch on them parts a warp.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), group = warp / 4, lane = threadIdx.x % 32;
    warp %= 4;
    u32 rank = 0;
    if (BLOCKS > 1) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    int rows = (m + TILE_M * CLUSTER - 1) / (TILE_M * CLUSTER), columns = (n + TILE_N - 1) / TILE_N;
    int first = blockIdx.x / BLOCKS, next = gridDim.x / BLOCKS, tiles = rows * columns;
    u32 member = rank % CLUSTER, part_of_k = rank / CLUSTER;
    int all_steps = (k + 127) / 128, start = part_of_k * all_steps / SPLITS;
    int steps = (part_of_k + 1) * all_steps / SPLITS - start;
    if (group == 0) {
        // The whole first warp brings, and an elected lane issues: what one lane works out alone is moved to a uniform
        // register for each operand of each copy. Stages are counted by the producer and by the consumers for
        // themselves: in one variable for both they would differ between lanes, as far as the compiler can see.
        u32 stage = 0, phase = 0;
        bool again = false;  // whether the stage has been used before
        u32 share = member * (TILE_N / CLUSTER);  // the first row of w that this block brings, to all
        auto bring = [&](int row, int column, int step) {  // what a block of k of a tile needs
            row = (row * CLUSTER + member) * TILE_M, column *= TILE_N, step += start;
            if (again) wait(empty + 8 * stage, phase ^ 1);
            u32 signal = full + 8 * stage, x = base + stage * STAGE_BYTES, w = x + X_BYTES;
            int scales = COPIED ? max(min(TILE_M, m - row), 0) : 0;  // of x's rows that are there
            if (elected()) {
                expect(signal, X_BYTES + W_BYTES + 4 * scales);
                load(map_x, x, signal, step * 128, row);
                if (CLUSTER == 1) load(map_w, w, signal, step * 128, column);
                else load_to_all(map_w, w + share * 128, signal, step * 128, column + share);
                if (scales) load_line(x_scale + (u64)step * m + row, x + SCALES_AT, signal, 4 * scales);
            }
            __syncwarp();
            if (++stage == STAGES) {
                stage = 0;
                phase ^= 1;
                again = true;
            }
        };
        int under_way = 0, row, column;
        if (warp == 0) {  // the code is in no cache yet: only what the first copies need goes before them
            if (elected()) {
                #pragma unroll
                for (int s = 0; s < EARLY; ++s) init(full + 8 * s, 1);
                fence_barriers();
            }
            __syncwarp();
            place(first, rows, columns, inverse, row, column);
            #pragma unroll 1
            while (under_way < min(steps, EARLY)) bring(row, column, under_way++);
            if (SPLITS == 1 && elected()) asm volatile("prefetch.tensormap [%0];" :: "l"(&map_y) : "memory");
            __syncwarp();
        }
        meet_first();
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(CONSUMERS == 1 ? 80 : 40));
        if (warp == 0) {
            for (int tile = first; tile < tiles; tile += next, under_way = 0) {
                place(tile, rows, columns, inverse, row, column);
                for (int step = under_way; step < steps; ++step) bring(row, column, step);
            }
        }
    } else {
        if (threadIdx.x == 128) {
            #pragma unroll
            for (int s = 0; s < STAGES; ++s) {
                if (s >= EARLY) init(full + 8 * s, 1);
                init(empty + 8 * s, 4 * CONSUMERS * CLUSTER);
            }
            fence_barriers();
        }
        __syncwarp();
        u32 stage = 0, phase = 0;
        int consumer = group - 1;
        // Lane 0's as well: the compiler keeps descriptors in uniform registers.
        u32 first_x = __shfl_sync(~0u, (u32)descriptor(base + consumer * 64 * 128), 0);
        u32 first_w = __shfl_sync(~0u, (u32)descriptor(base + X_BYTES), 0);
        // Where this consumer's results go, and where in a box of them this lane writes: chunks of 16 bytes are
        // swizzled as the tensor map says.
        u32 out = outs + consumer * STRIP_BYTES, out_row = out + (16 * warp + lane % 16) * 2 * BOX;
        u32 half_of_eight = lane / 16, turn = (lane % 16 * 2 * BOX >> 7) & (BOX / 8 - 1);
        // A tile: where this consumer's 64 rows of it begin, where this thread's two scales of x lie in a stage (in a
        // row of x_scale if they are not copied), from which column on w's second scale counts, and w's scales.
        struct Tile { int row, column, upper, lower, cut; const float* w[PANELS]; };
        auto tile_of = [&](int number) {
            Tile of;
            place(number, rows, columns, inverse, of.row, of.column);
            int top = (of.row * CLUSTER + member) * TILE_M;
            of.row = top + 64 * consumer, of.column *= TILE_N;
            int mine = of.row + 16 * warp + lane / 4;
            of.upper = min(mine, m - 1), of.lower = min(mine + 8, m - 1);
#if COPIED
            bool there = top < m;  // else any of x's bytes will do: they are zeros
            of.upper = there ? SCALES_AT + 4 * (of.upper - top) : 0;
            of.lower = there ? SCALES_AT + 4 * (of.lower - top) : 0;
#endif
            int panel = min(of.column, n - 1) / 128, last = (n - 1) / 128;  // blocks of a cluster can lie outside
            of.cut = TILE_N % 128 ? (panel + 1) * 128 - of.column : 128;
            #pragma unroll
            for (int p = 0; p < PANELS; ++p) of.w[p] = w_scale + (u64)min(panel + p, last) * all_steps + start;
            return of;
        };
        Tile tile = tile_of(first), following = tile;
        int number = first;
        // Scales must not make products wait. Between one block's products and the next's there is little time, and
        // while products run, shared memory answers late: x's scales are read right before the products of their block
        // and arrive meanwhile, w's are handed from lane to lane a block ahead. Those come from global memory 32 blocks
        // at a time: of this lane's block of 32, and of the 32 after them, which may be the next tile's.
        float soon[PANELS], w_of[2][PANELS] = {};
        auto ask = [&](const Tile& of, int step, int into, bool there) {
            there = there && step + lane < steps;
            #pragma unroll
            for (int p = 0; p < PANELS; ++p) w_of[into][p] = there ? of.w[p][step + lane] : 0;
        };
        auto next_scales = [&]() {
            #pragma unroll
            for (int p = 0; p < PANELS; ++p) w_of[0][p] = w_of[1][p];
        };
        auto hand = [&](int step) {
            // threadIdx.y is 0, which the compiler cannot know: what looks the same in all lanes would be waited for at
            // once, to have it in a uniform register.
            int from = step % 32 + threadIdx.y;
            #pragma unroll
            for (int p = 0; p < PANELS; ++p) soon[p] = __shfl_sync(~0u, w_of[0][p], from);
        };
        ask(tile, 0, 0, true);
        meet_first();
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMERS == 1 ? 240 : 232));
        hand(0);
        auto take = [&](int step) {  // a block of k that has come
            Block of;
            of.stage = stage;
            #pragma unroll
            for (int p = 0; p < PANELS; ++p) of.by.w[p] = soon[p];
            wait(full + 8 * stage, phase);
#if COPIED
            u32 at = base + stage * STAGE_BYTES;
            of.by.upper = read_shared(at + tile.upper), of.by.lower = read_shared(at + tile.lower);
#else
            const float* line = x_scale + (u64)(start + step) * m;
            of.by.upper = line[tile.upper], of.by.lower = line[tile.lower];
#endif
            if (step % 32 == 31) next_scales();
            hand(step + 1);
            if (++stage == STAGES) {
                stage = 0;
                phase ^= 1;
            }
            return of;
        };
        float sums[SUMS];
        auto prepare = [&](int step) {  // what comes after a block, while its products run
            if (step == 0) {
                if (number + next < tiles) following = tile_of(number + next);
#if ACCUMULATORS > 0
                #pragma unroll
                for (int i = 0; i < SUMS; ++i) sums[i] = 0;
#endif
            }
            if (step % 32 == 0) {
                if (step + 32 < steps) ask(tile, step + 32, 1, true);
                else ask(following, 0, 1, number + next < tiles);
            }
        };
        auto issue = [&](float (&d)[PIECE], const Block& of, int piece, int add) {
            u32 at = of.stage * (STAGE_BYTES / 16);
            multiply_block(d, SWIZZLED | (first_x + at), SWIZZLED | (first_w + at + piece * 2 * PIECE * 128 / 16), add);
        };
        auto release = [&](const Block& of) {  // by every warp, when all of its lanes have read the scales
            __syncwarp();
            if (lane < CLUSTER) arrive_at(empty + 8 * of.stage, lane);
        };
        auto put = [&](const Tile& of) {  // the sums to where results belong
#if SPLITS == 1
            if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // the last tile's are stored
            meet_in_group(consumer);
            #pragma unroll
            for (int part = 0; part < TILE_N / 16; ++part) {
                const float* s = sums + 8 * part;
                u32 box = part / (BOX / 16), chunk = part % (BOX / 16) * 2 + half_of_eight;
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                             :: "r"(out_row + box * BOX_BYTES + ((chunk ^ turn) << 4)), "r"(pack(s[0], s[1])),
                                "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7])) : "memory");
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            meet_in_group(consumer);
            if (lane == 0) {  // warps take boxes in turns: one copy of 64 rows, where each warp's 16 would be four
                for (int box = warp; box < TILE_N / BOX; box += 4)
                    store(map_y, out + box * BOX_BYTES, of.column + BOX * box, of.row);
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            }
            __syncwarp();
#else
            asm volatile("bar.sync 3, %0;" :: "n"(128 * CONSUMERS) : "memory");  // all have read the last stage
            float* all = (float*)(memory + (base - shared_address(memory)));
            float* to = all + (64 * consumer + 16 * warp + lane / 4) * PITCH + lane % 4 * 2;
            #pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j) {
                *(float2*)(to + 8 * j) = make_float2(sums[4 * j], sums[4 * j + 1]);
                *(float2*)(to + 8 * PITCH + 8 * j) = make_float2(sums[4 * j + 2], sums[4 * j + 3]);
            }
#endif
        };
        for (; number < tiles; number += next) {
#if ACCUMULATORS == 1  // while one consumer promotes, the other's products run
            float d[PIECE];
            #pragma unroll 4
            for (int step = 0; step < steps; ++step) {
                Block of = take(step);
                issue(d, of, 0, 0);
                prepare(step);
                finish();
                if (PIECES == 1) release(of);
                promote<0>(sums, d, of.by, tile.cut);
                if (PIECES == 1) continue;
                issue(d, of, 1, 0);
                finish();
                release(of);
                promote<SUMS - PIECE>(sums, d, of.by, tile.cut);
            }
#elif ACCUMULATORS == 2  // two groups of products are on their way: one waits for the other in the tensor cores' queue
            float d[PIECE], e[PIECE];
            int step = 0;
            for (; step + 4 <= steps; step += 4) {
                Block a = take(step);
                issue(d, a, 0, 0);
                prepare(step);
                Block b = take(step + 1);
                issue(e, b, 0, 0);
                prepare(step + 1);
                finish_older();
                release(a);
                promote<0>(sums, d, a.by, tile.cut);
                a = take(step + 2);
                issue(d, a, 0, 0);
                prepare(step + 2);
                finish_older();
                release(b);
                promote<0>(sums, e, b.by, tile.cut);
                b = take(step + 3);
                issue(e, b, 0, 0);
                prepare(step + 3);
                finish_older();
                release(a);
                promote<0>(sums, d, a.by, tile.cut);
                finish();
                release(b);
                promote<0>(sums, e, b.by, tile.cut);
            }
            for (; step < steps; ++step) {
                Block of = take(step);
                issue(d, of, 0, 0);
                prepare(step);
                finish();
                release(of);
                promote<0>(sums, d, of.by, tile.cut);
            }
#else  // no promotion and no scales: wrong, and what promotion costs
            Block before;
            for (int step = 0; step < steps; ++step) {
                Block of = take(step);
                issue(sums, of, 0, step > 0);
                prepare(step);
                if (step > 0) {
                    finish_older();
                    release(before);
                }
                before = of;
            }
            finish();
            release(before);
#endif
            next_scales();  // the next tile's
            hand(0);
            put(tile);
            tile = following;
        }
        if (SPLITS == 1 && lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncwarp();
    }
    if (SPLITS > 1) {  // every block adds up some rows of the tile, always in the same order
        sync_blocks();
        int row, column, quads = TILE_N / 4, top = rank * TILE_M / SPLITS;
        place(first, rows, columns, inverse, row, column);
        for (int i = threadIdx.x; i < ((rank + 1) * TILE_M / SPLITS - top) * quads; i += THREADS) {
            u32 at = base + ((top + i / quads) * PITCH + i % quads * 4) * 4;
            float4 sum = read_peer(at, 0);
            #pragma unroll
            for (int s = 1; s < SPLITS; ++s) {
                float4 more = read_peer(at, s);
                sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
            }
            int down = row * TILE_M + top + i / quads, across = column * TILE_N + i % quads * 4;
            if (down < m && across < n)
                y[((u64)down * n + across) / 4] = make_uint2(pack(sum.x, sum.y), pack(sum.z, sum.w));
        }
    }
    sync_blocks();  // no block leaves while a peer may still signal or read it
}
