"""A mixture-of-experts layer in one kernel, from router scores to combined outputs, for 1 to 256 tokens.

Few tokens make reading weights the whole work. A block stays on each SM, and one thread of it streams weights through a
ring of shared memory without ever waiting for a result: when the blocks have to wait for each other, what comes next is
on its way. The steps of the layer:

route     every block chooses the experts of all tokens by itself, which takes less than telling others would
quantise  each token once, into one row for each of its experts, in the order and the form that products want
up        64 gates and the 64 values of the same columns: a thread has both, applies SwiGLU and quantises
down      equal shares of all products for every block; results are added to their tokens in global memory
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

SMS = 132  # of an H100 or H200; a block stays on each
W_STAGES, X_STAGES, MOST_N, MOST_TOKENS = 8, 4, 128, 256  # as in the source below
THREADS = 3 * 128
SHARED_BYTES = W_STAGES * 128 * 128 + X_STAGES * (MOST_N * 128 + 2 * MOST_N * 4) + 1024

SOURCE = r"""
#include <cuda_fp16.h>
typedef unsigned int u32;
typedef unsigned long long u64;

// D: hidden size, F: inside an expert, E: experts, K: of a token, AHEAD: stages of weights that L2 is asked for early
constexpr int W_STAGES = 8, X_STAGES = 4, MOST_N = 128, MOST_TOKENS = 256, THREADS = 384, WARPS = THREADS / 32;
constexpr int CONSUMERS = 256;                       // threads, two warpgroups
constexpr u32 W_BYTES = 128 * 128;                   // a stage: 128 rows of weights, 128 of k
constexpr u32 CODES = MOST_N * 128, X_BYTES = CODES + 2 * MOST_N * 4;  // up to 128 rows, with a scale for each 64 of k
constexpr int UP_BLOCKS = D / 128, DOWN_BLOCKS = F / 128;              // blocks of k of the two products
constexpr int UP_TILES = F / 64, PANELS = D / 128;                     // tiles beside each other
constexpr int MOST_ROWS = MOST_TOKENS * K + 7 * E;   // every expert's rows begin at a multiple of eight
constexpr u32 ALL = 0xffffffff;
static_assert(D % 128 == 0 && F % 128 == 0 && E <= 32 && K <= E, "sizes that this kernel is made for");

struct alignas(64) Map { u64 words[16]; };

// ---- One instruction each ------------------------------------------------------------------------------------------

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void arrive(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
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
constexpr u64 READ_ONCE = 0x12F0000000000000;  // a cache policy: weights leave L2 first, so that activations stay
__device__ void load_down(const Map& map, u32 to, u32 barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "l"(READ_ONCE) : "memory");
}
// Of an expert's gates and values eight rows each in turn: axes of the map are k, eight rows, gate or value, eights.
__device__ void load_up(const Map& map, u32 to, u32 barrier, int x, int eight, int expert)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3, %3, %4, %5}], [%6], %7;" :: "r"(to), "l"(&map), "r"(x), "r"(0), "r"(eight),
                 "r"(expert), "r"(barrier), "l"(READ_ONCE) : "memory");
}
__device__ void prefetch_down(const Map& map, int x, int y)
{
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" :: "l"(&map), "r"(x), "r"(y));
}
__device__ void prefetch_up(const Map& map, int x, int eight, int expert)
{
    asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %2, %3, %4}];"
                 :: "l"(&map), "r"(x), "r"(0), "r"(eight), "r"(expert));
}
__device__ void load_line(const void* from, u32 to, u32 barrier, u32 bytes)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
__device__ void show_to_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ int acquire(const int* flag)
{
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}
__device__ void add(float* to, float value)
{
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" :: "l"(to), "f"(value) : "memory");
}
__device__ void meet() { asm volatile("bar.sync 1, 256;" ::: "memory"); }  // of all consumers
__device__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void products_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

// d (64 x N) += a (64 x 32) b (32 x N) in e4m3, or d = a b: a are rows of weights, b has rows of activations.
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define PRODUCT(n, registers, a, b, p, ...) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" p ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" n "k32.f32.e4m3.e4m3 {" registers "}, %" a ", %" b ", p, 1, 1; }" \
                 : __VA_ARGS__ : "l"(rows), "l"(columns), "r"((int)more))
#define R4 "%0, %1, %2, %3"
#define R8 R4 ", %4, %5, %6, %7"
#define R16 R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define R32 R16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define R64 R32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
                "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
__device__ void multiply(float (&d)[4], u64 rows, u64 columns, bool more) { PRODUCT("8", R4, "4", "5", "6", D4(0)); }
__device__ void multiply(float (&d)[8], u64 rows, u64 columns, bool more)
{
    PRODUCT("16", R8, "8", "9", "10", D4(0), D4(4));
}
__device__ void multiply(float (&d)[16], u64 rows, u64 columns, bool more)
{
    PRODUCT("32", R16, "16", "17", "18", D16(0));
}
__device__ void multiply(float (&d)[32], u64 rows, u64 columns, bool more)
{
    PRODUCT("64", R32, "32", "33", "34", D16(0), D16(16));
}
__device__ void multiply(float (&d)[64], u64 rows, u64 columns, bool more)
{
    PRODUCT("128", R64, "64", "65", "66", D16(0), D16(16), D16(32), D16(48));
}

// ---- Routing: every block for itself -------------------------------------------------------------------------------

// The rows of all experts. Slots are places of rows: an expert has them from a multiple of eight on.
struct Routing {
    int count[32], first[32];           // rows of each expert, and its first slot
    u32 chosen[MOST_TOKENS];            // a bit for each expert of a token
    u32 by_expert[MOST_TOKENS / 32][32];  // a bit for each token, 32 of them in a word, of each expert
    int begin[MOST_TOKENS / 32][32];    // the slot of an expert's first row of those 32 tokens
    float share[MOST_TOKENS * K];       // of each choice of a token, its experts in ascending order
    unsigned short choice[MOST_ROWS];   // in a slot: K times the token plus the number of the choice

    __device__ int tall(int e) const { return (count[e] + MOST_N - 1) / MOST_N; }  // tiles above each other
    __device__ int slot(int token, int e) const
    {
        return begin[token / 32][e] + __popc(by_expert[token / 32][e] & ((1u << token % 32) - 1));
    }
};

__device__ void route(Routing& routing, const float* scores, int tokens)
{
    constexpr int TAKEN = 0x80000000, INFINITY_BITS = 0x7f800000;  // whole numbers in the order of scores (lab 10)
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int token = warp; token < tokens; token += WARPS) {
        float score = lane < E ? scores[token * E + lane] : 0;
        int bits = __float_as_int(score), magnitude = bits & 0x7fffffff, sign = bits >> 31;
        int key = magnitude > INFINITY_BITS ? -INFINITY_BITS : (magnitude ^ sign) - sign, best = 0;
        if (lane >= E) key = TAKEN;
        u32 chosen = 0;
#pragma unroll
        for (int i = 0; i < K; ++i) {
            int largest = __reduce_max_sync(ALL, key);
            int winner = __ffs(__ballot_sync(ALL, key == largest && !(chosen >> lane & 1) && lane < E)) - 1;
            if (i == 0) best = winner;
            chosen |= 1u << winner;
            if (lane == winner) key = TAKEN;
        }
        bool mine = chosen >> lane & 1;
        float highest = __shfl_sync(ALL, score, best), weight = mine ? expf(score - highest) : 0, sum = weight;
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
        if (mine) routing.share[token * K + __popc(chosen & ((1u << lane) - 1))] = weight / sum;
        if (lane == 0) routing.chosen[token] = chosen;
    }
    __syncthreads();
    if (warp < MOST_TOKENS / 32) {
        int token = warp * 32 + lane;
        u32 chosen = token < tokens ? routing.chosen[token] : 0, word = 0;
        for (int e = 0; e < E; ++e) {
            u32 whose = __ballot_sync(ALL, chosen >> e & 1);
            if (lane == e) word = whose;
        }
        routing.by_expert[warp][lane] = word;
    }
    __syncthreads();
    if (warp == 0) {
        int count = 0;
        for (int w = 0; w < MOST_TOKENS / 32; ++w) count += __popc(routing.by_expert[w][lane]);
        int room = (count + 7) / 8 * 8, until = room;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            int lower = __shfl_up_sync(ALL, until, step);
            if (lane >= step) until += lower;
        }
        int slot = until - room;
        routing.count[lane] = count, routing.first[lane] = slot;
        for (int w = 0; w < MOST_TOKENS / 32; ++w) {
            routing.begin[w][lane] = slot;
            slot += __popc(routing.by_expert[w][lane]);
        }
    }
    __syncthreads();
    for (int token = warp; token < tokens; token += WARPS) {
        u32 chosen = routing.chosen[token];
        if (chosen >> lane & 1)
            routing.choice[routing.slot(token, lane)] = token * K + __popc(chosen & ((1u << lane) - 1));
    }
    __syncthreads();
}

// ---- Work: who does what, in which order ---------------------------------------------------------------------------

// A product of 128 rows of weights with some rows of activations, for k from 128 * block to 128 * end.
struct Job {
    bool down;                    // of the second product
    int expert, slot, rows;       // the first slot, and rows from it on
    int column, block, end;       // the first column of F or of D; blocks of k
};

// The jobs of this block: tiles of the first product, every gridDim.x-th one; then a share of the second one's blocks of
// k, counted through all tiles. Blocks that have a tile less take more of these, and those of the first experts.
struct Work {
    const Routing& routing;
    int expert, before;  // where the search is, and how much lies before that expert
    int next, end;       // tiles of the first product have no end; then blocks of k
    bool down;

    __device__ Work(const Routing& routing)
        : routing(routing), expert(0), before(0), next(blockIdx.x), end(0), down(false) {}

    __device__ int share_begins(int rank, int tall) const
    {
        int blocks = gridDim.x, tiles = tall * UP_TILES, units = tall * PANELS * DOWN_BLOCKS;
        int each = tiles / blocks, fewer = blocks - tiles % blocks;  // the first ranks have `each` tiles, then one more
        if (each < 4) return (int)((long long)rank * units / blocks);  // few tiles: all wait for the first product
        int had = (rank * each + max(0, rank - fewer)) * UP_BLOCKS;
        return (int)((long long)rank * (tiles * UP_BLOCKS + units) / blocks) - had;
    }

    __device__ bool find(Job& job)
    {
        if (!down) {
            for (; expert < E; ++expert) {
                int tall = routing.tall(expert), local = next - before;
                if (local < tall * UP_TILES) {
                    next += gridDim.x;
                    job = {false, expert, local % tall, 0, local / tall * 64, 0, UP_BLOCKS};
                    place(job);
                    return true;
                }
                before += tall * UP_TILES;
            }
            int all = before / UP_TILES, extra = before % gridDim.x, blocks = gridDim.x;
            int rank = (blockIdx.x + blocks - extra) % blocks;
            next = share_begins(rank, all), end = share_begins(rank + 1, all);
            expert = before = 0;
            down = true;
        }
        for (; next < end && expert < E; ++expert) {
            int tall = routing.tall(expert), local = next - before, block = local % DOWN_BLOCKS;
            if (local < tall * PANELS * DOWN_BLOCKS) {
                int tile = local / DOWN_BLOCKS, last = min(DOWN_BLOCKS, block + end - next);
                next += last - block;
                job = {true, expert, tile % tall, 0, tile / tall * 128, block, last};
                place(job);
                return true;
            }
            before += tall * PANELS * DOWN_BLOCKS;
        }
        return false;
    }
    __device__ void place(Job& job) const  // from the number of the tile above each other to slots
    {
        int above = job.slot * MOST_N;
        job.rows = min(MOST_N, routing.count[job.expert] - above);
        job.slot = routing.first[job.expert] + above;
    }
};

// ---- Rings ---------------------------------------------------------------------------------------------------------

// Stages of shared memory: full when the copies have come, empty when all eight warps of consumers are done.
template <int STAGES, u32 BYTES> struct Ring {
    u32 data, full, empty;  // shared addresses: of stage 0, and of the first barrier of each kind
    int stage;
    u32 phase;

    __device__ Ring(u32 data, const u64* barriers)
        : data(data), full(shared_address(barriers)), empty(full + 8 * STAGES), stage(0), phase(0) {}
    __device__ void init_barriers() const
    {
        for (int s = 0; s < STAGES; ++s) init(full + 8 * s, 1), init(empty + 8 * s, CONSUMERS / 32);
    }
    __device__ u32 at() const { return data + stage * BYTES; }
    __device__ u32 full_barrier() const { return full + 8 * stage; }
    __device__ u32 empty_barrier() const { return empty + 8 * stage; }
    __device__ void advance()
    {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};
typedef Ring<W_STAGES, W_BYTES> Weights;
typedef Ring<X_STAGES, X_BYTES> Rows;

// One thread: all weights of this block, one stage after the other. It waits for room and for nothing else.
__device__ void bring_weights(Weights ring, const Routing& routing, const Map& up, const Map& down)
{
    Work work(routing);
    Job job;
#if AHEAD
    Work later(routing);  // what L2 is asked for, so many stages before the ring has room
    Job soon;
    bool any = later.find(soon);
    int ahead = 0;  // stages from the one to be brought to the one to be asked for
#endif
    while (work.find(job)) {
        for (int block = job.block; block < job.end; ++block) {
#if AHEAD
            for (; any && ahead < W_STAGES + AHEAD; ++ahead) {
                if (ahead < W_STAGES) {  // at the very beginning: the ring has room for these now
                } else if (soon.down)
                    prefetch_down(down, soon.block * 128, soon.expert * D + soon.column);
                else
                    prefetch_up(up, soon.block * 128, soon.column / 8, soon.expert);
                if (++soon.block == soon.end) any = later.find(soon);
            }
            --ahead;
#endif
            wait(ring.empty_barrier(), ring.phase ^ 1);
            arrive_expecting(ring.full_barrier(), W_BYTES);
            if (job.down)
                load_down(down, ring.at(), ring.full_barrier(), block * 128, job.expert * D + job.column);
            else
                load_up(up, ring.at(), ring.full_barrier(), block * 128, job.column / 8, job.expert);
            ring.advance();
        }
    }
}

// What all blocks share. `arrived` counts blocks that have quantised their tokens, `done` finished tiles of an expert's
// first product, `left` blocks that have ended: the last one leaves all at zero for the next launch.
struct Counters {
    int arrived, left, done[32];
};

// Activations as tensor cores want them: for each 128 of k rows of 128 codes, pieces of 16 bytes exchanged within
// eight rows; scales for each 64 of k.
struct Activations {
    unsigned char* codes;
    float* scales;
    int slots;  // that there is room for

    __device__ unsigned char* piece(int block, int slot, int byte) const
    {
        return codes + ((long long)block * slots + slot) * 128 + ((byte / 16 ^ slot % 8) * 16 + byte % 16);
    }
    __device__ float* scale(int block, int half, int slot) const
    {
        return scales + (long long)(2 * block + half) * slots + slot;
    }
};

// One thread: the rows that each stage of weights is multiplied with, once they are there.
__device__ void bring_rows(Rows ring, const Routing& routing, Activations x, Activations a, const Counters* counters)
{
    Work work(routing);
    Job job;
    int complete = -1;  // the last expert whose first product is known to be there
    while (acquire(&counters->arrived) < gridDim.x) {}
    show_to_copies();
    while (work.find(job)) {
        if (job.down && complete != job.expert) {
            complete = job.expert;
            int tiles = routing.tall(job.expert) * UP_TILES;
            while (acquire(&counters->done[job.expert]) < tiles) {}
            show_to_copies();
        }
        Activations from = job.down ? a : x;
        u32 rows = (job.rows + 7) / 8 * 8;
        for (int block = job.block; block < job.end; ++block) {
            wait(ring.empty_barrier(), ring.phase ^ 1);
            arrive_expecting(ring.full_barrier(), rows * (128 + 2 * 4));
            load_line(from.codes + ((long long)block * from.slots + job.slot) * 128, ring.at(), ring.full_barrier(),
                      rows * 128);
            for (int half = 0; half < 2; ++half)
                load_line(from.scale(block, half, job.slot), ring.at() + CODES + half * MOST_N * 4,
                          ring.full_barrier(), rows * 4);
            ring.advance();
        }
    }
}

// ---- Quantising: lab 09's rule -------------------------------------------------------------------------------------

// Exponent field of the smallest power of two of which the largest magnitude is at most 448.
__device__ int scale_field(float largest)
{
    return largest > 0 ? max(((__float_as_int(largest) + 0x1FFFFF) >> 23) - 8, 1) : 127;
}
__device__ float power(int field) { return __int_as_float(field << 23); }
__device__ u32 pair_of_codes(float low, float high)
{
    unsigned short codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
}

// All consumers of all blocks: every token's row into the slots of its experts, and zeros for results. A warp takes
// 128 of k of a token at a time, and has four of them on their way.
__device__ void quantise(const Routing& routing, Activations x, const __half* tokens_of_x, float* out, int tokens)
{
    int warp = (threadIdx.x - 128) / 32, lane = threadIdx.x % 32, all = gridDim.x * (CONSUMERS / 32);
    int first = warp * gridDim.x + blockIdx.x, tasks = tokens * UP_BLOCKS;
    constexpr int SOME = 4;
    for (int group = first; group < tasks; group += SOME * all) {
        uint2 raw[SOME];
#pragma unroll
        for (int i = 0; i < SOME; ++i) {
            int task = group + i * all, token = task / UP_BLOCKS, block = task % UP_BLOCKS;
            if (task < tasks)
                raw[i] = *(const uint2*)(tokens_of_x + (long long)token * D + block * 128 + lane * 4);
        }
#pragma unroll
        for (int i = 0; i < SOME; ++i) {
            int task = group + i * all, token = task / UP_BLOCKS, block = task % UP_BLOCKS;
            if (task >= tasks) break;
            float2 low = __half22float2(*(__half2*)&raw[i].x), high = __half22float2(*(__half2*)&raw[i].y);
            float largest = fmaxf(fmaxf(fabsf(low.x), fabsf(low.y)), fmaxf(fabsf(high.x), fabsf(high.y)));
            int field = scale_field(__uint_as_float(__reduce_max_sync(ALL, __float_as_uint(largest))));
            float inverse = power(254 - field);
            u32 codes = pair_of_codes(low.x * inverse, low.y * inverse) |
                        pair_of_codes(high.x * inverse, high.y * inverse) << 16;
            for (u32 rest = routing.chosen[token]; rest; rest &= rest - 1) {
                int slot = routing.slot(token, __ffs(rest) - 1);
                *(u32*)x.piece(block, slot, lane * 4) = codes;
                if (lane < 2) *x.scale(block, lane, slot) = power(field);
            }
            ((float4*)(out + (long long)token * D + block * 128))[lane] = make_float4(0, 0, 0, 0);
        }
    }
    for (int task = first; task < E * UP_BLOCKS; task += all) {  // rows of nobody, to the next multiple of eight
        int e = task / UP_BLOCKS, block = task % UP_BLOCKS, count = routing.count[e];
        for (int row = count; row % 8; ++row) {
            *(u32*)x.piece(block, routing.first[e] + row, lane * 4) = 0;
            if (lane < 2) *x.scale(block, lane, routing.first[e] + row) = 1;
        }
    }
}

// ---- Products ------------------------------------------------------------------------------------------------------

// Where wgmma finds a matrix of 128-byte swizzled lines: address, and from eight lines to the next eight.
__device__ u64 descriptor(u32 address) { return (u64)(address >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62; }

// A thread's sums of a job. sums[4 j] and sums[4 j + 1] are of row lane / 4 of its warp's 16 rows of weights, the next
// two of the row eight below; of activations they are of rows 8 j + lane % 4 * 2 and the next one.
template <int SUMS>
__device__ void sum_up(float (&sums)[SUMS], Weights& weights, Rows& rows, const Job& job, const float* upper_scales,
                       const float* lower_scales)
{
    int lane = threadIdx.x % 32, half_of_tile = (threadIdx.x / 128 - 1) * 64 * 128;
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    float d[SUMS], upper = __ldg(upper_scales + job.block), lower = __ldg(lower_scales + job.block);
    for (int block = job.block; block < job.end; ++block) {
        int later = min(block + 1, job.end - 1);
        float next_upper = __ldg(upper_scales + later), next_lower = __ldg(lower_scales + later);
        wait(weights.full_barrier(), weights.phase);
        wait(rows.full_barrier(), rows.phase);
        u64 a = descriptor(weights.at() + half_of_tile), b = descriptor(rows.at());
        const float2* scales =
            (const float2*)__cvta_shared_to_generic(rows.at() + CODES) + lane % 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            products_begin();
            multiply(d, a + half * 4, b + half * 4, false);
            multiply(d, a + half * 4 + 2, b + half * 4 + 2, true);
            products_commit();
            products_wait();
            if (half == 1 && lane == 0) arrive(weights.empty_barrier());
#pragma unroll
            for (int j = 0; j < SUMS / 4; ++j) {
                float2 scale = scales[half * (MOST_N / 2) + 4 * j];
                sums[4 * j] += d[4 * j] * (scale.x * upper);
                sums[4 * j + 1] += d[4 * j + 1] * (scale.y * upper);
                sums[4 * j + 2] += d[4 * j + 2] * (scale.x * lower);
                sums[4 * j + 3] += d[4 * j + 3] * (scale.y * lower);
            }
        }
        __syncwarp();
        if (lane == 0) arrive(rows.empty_barrier());
        weights.advance(), rows.advance();
        upper = next_upper, lower = next_lower;
    }
}

// SwiGLU of a tile of the first product, in codes of e4m3 with a scale for its 64 columns of each row.
template <int SUMS>
__device__ void activate(float (&sums)[SUMS], const Job& job, Activations a, float (*largest)[MOST_N])
{
    int warp = (threadIdx.x - 128) / 32, lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4 * 2;
    int block = job.column / 128, half = job.column / 64 % 2, rows = (job.rows + 7) / 8 * 8;
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float gate = sums[4 * j + i], value = gate / (1 + expf(-gate)) * sums[4 * j + 2 + i], most = fabsf(value);
            sums[4 * j + i] = value;
#pragma unroll
            for (int step = 4; step < 32; step *= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, step));
            if (row == 0) largest[warp][8 * j + pair + i] = most;
        }
    }
    meet();
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
        if (8 * j >= rows) break;
        u32 words[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float most = 0;
#pragma unroll
            for (int w = 0; w < CONSUMERS / 32; ++w) most = fmaxf(most, largest[w][8 * j + pair + i]);
            int field = scale_field(most), slot = job.slot + 8 * j + pair + i;
            u32 word = pair_of_codes(sums[4 * j + i] * power(254 - field), 0) << row % 4 * 8;
            word |= __shfl_xor_sync(ALL, word, 4);
            words[i] = word | __shfl_xor_sync(ALL, word, 8);
            if (warp == 0 && row == 0) *a.scale(block, half, slot) = power(field);
        }
        if (row % 4 < 2) {  // four columns are in a word: one lane stores it for one row, one for the other
            int slot = job.slot + 8 * j + pair + row % 4;
            *(u32*)a.piece(block, slot, half * 64 + warp * 8 + row / 4 * 4) = row % 4 ? words[1] : words[0];
        }
    }
}

// Results of the second product, added to their tokens.
template <int SUMS>
__device__ void combine(const float (&sums)[SUMS], const Job& job, const Routing& routing, float* out)
{
    int lane = threadIdx.x % 32, column = job.column + (threadIdx.x - 128) / 32 * 16 + lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int row = 8 * j + pair + i;
            if (row < job.rows) {
                int choice = routing.choice[job.slot + row];
                float share = routing.share[choice], *to = out + (long long)(choice / K) * D + column;
                add(to, share * sums[4 * j + i]);
                add(to + 8, share * sums[4 * j + 2 + i]);
            }
        }
    }
}

struct Consumer {
    Weights weights;
    Rows rows;
    const Routing& routing;
    const float *up_scale, *down_scale;
    Activations a;
    float* out;
    Counters* counters;
    float (*largest)[MOST_N];

    template <int N> __device__ void carry_out(const Job& job)
    {
        float sums[N / 2];
        if (job.down) {
            const float* scales = down_scale + (job.expert * PANELS + job.column / 128) * DOWN_BLOCKS;
            sum_up(sums, weights, rows, job, scales, scales);
            combine(sums, job, routing, out);
        } else {
            const float* gates = up_scale + (job.expert * 2 * DOWN_BLOCKS + job.column / 128) * UP_BLOCKS;
            sum_up(sums, weights, rows, job, gates, gates + DOWN_BLOCKS * UP_BLOCKS);
            activate(sums, job, a, largest);
            show_to_copies();
            __threadfence();
            meet();
            if (threadIdx.x == 128) atomicAdd(&counters->done[job.expert], 1);
        }
    }
    __device__ void work()
    {
        Work work(routing);
        Job job;
        while (work.find(job)) {
            if (job.rows <= 8) carry_out<8>(job);
            else if (job.rows <= 16) carry_out<16>(job);
            else if (job.rows <= 32) carry_out<32>(job);
            else if (job.rows <= 64) carry_out<64>(job);
            else carry_out<128>(job);
        }
    }
};

extern "C" __global__ void __launch_bounds__(384, 1)
moe_layer(const __grid_constant__ Map up, const __grid_constant__ Map down, const __half* x, const float* scores,
          const float* up_scale, const float* down_scale, unsigned char* x8, float* x_scale, unsigned char* a8,
          float* a_scale, float* out, Counters* counters, int tokens, int slots)
{
    extern __shared__ char raw[];
    __shared__ Routing routing;
    __shared__ float largest[CONSUMERS / 32][MOST_N];
    __shared__ u64 of_weights[2 * W_STAGES], of_rows[2 * X_STAGES];
    u32 begin = (shared_address(raw) + 1023) & ~1023u;
    Weights weights(begin, of_weights);
    Rows rows(begin + W_STAGES * W_BYTES, of_rows);
    // X_BYTES is a multiple of 1,024, so that every stage begins at one. What no copy fills must not be undefined.
    for (u32 i = threadIdx.x; i < X_STAGES * X_BYTES / 16; i += THREADS)
        ((uint4*)__cvta_shared_to_generic(rows.data))[i] = make_uint4(0, 0, 0, 0);
    show_to_copies();
    if (threadIdx.x == 0) {
        weights.init_barriers();
        rows.init_barriers();
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    route(routing, scores, tokens);

    Activations of_x = {x8, x_scale, slots}, of_a = {a8, a_scale, slots};
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        if (threadIdx.x == 0) bring_weights(weights, routing, up, down);
        if (threadIdx.x == 32) bring_rows(rows, routing, of_x, of_a, counters);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    quantise(routing, of_x, x, out, tokens);
    show_to_copies();
    __threadfence();
    meet();
    if (threadIdx.x == 128) atomicAdd(&counters->arrived, 1);
    Consumer consumer = {weights, rows, routing, up_scale, down_scale, of_a, out, counters, largest};
    consumer.work();
    meet();
    if (threadIdx.x == 128) {
        __threadfence();
        if (atomicAdd(&counters->left, 1) == gridDim.x - 1) {  // nobody waits any more
            __threadfence();
            counters->arrived = counters->left = 0;
            for (int e = 0; e < 32; ++e) counters->done[e] = 0;
        }
    }
}
"""


def layer_by(ahead, k, x, scores, up8, up_scale, down8, down_scale, out):
    """As `layer`; L2 is asked for weights `ahead` stages before the ring has room for them."""
    (tokens, d), (experts, _, f) = x.shape, down8.shape
    slots = (tokens * k + 7 * experts + 7) // 8 * 8
    # Eight gates and their eight values in turn: a warp's 16 rows of a product
    by_eights = up8.reshape(experts, 2, f // 8, 8, d).transpose(0, 2, 1, 3, 4)
    maps = tensor_map(by_eights, (1, 8, 2, 8, 128)), tensor_map(down8.reshape(experts * d, f), (128, 128))
    options = {"D": d, "F": f, "E": experts, "K": k, "AHEAD": ahead}
    kernel = cupy.RawKernel(
        SOURCE,
        "moe_layer",
        tuple(f"-D{name}={value}" for name, value in options.items()),
        enable_cooperative_groups=True,  # all blocks are there at once, as they wait for each other
    )
    kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
    x8, x_scale = cupy.empty((d // 128, slots, 128), np.uint8), cupy.empty((d // 64, slots), np.float32)
    a8, a_scale = cupy.empty((f // 128, slots, 128), np.uint8), cupy.empty((f // 64, slots), np.float32)
    counters = cupy.zeros(34, np.int32)
    arguments = (*maps, x, scores, up_scale, down_scale, x8, x_scale, a8, a_scale, out, counters)
    kernel((SMS,), (THREADS,), (*arguments, np.int32(tokens), np.int32(slots)), shared_mem=SHARED_BYTES)


def layer(k, x, scores, up8, up_scale, down8, down_scale, out):
    """out[t] = sum of share * down[e] @ SwiGLU(up[e] @ x[t]) over the k experts e with the best scores of token t.

    x is tokens x d of float16, of 1 to 256 tokens; scores tokens x experts of float32, finite; up8 experts x 2 f x d and
    down8 experts x d x f codes of e4m3 with a scale for each block of 128 x 128 (up_scale, down_scale), gates in the
    first f rows; out tokens x d of float32. The share is the softmax of the scores that were chosen. d and f are
    multiples of 128, and there are at most 32 experts.
    """
    layer_by(0, k, x, scores, up8, up_scale, down8, down_scale, out)
