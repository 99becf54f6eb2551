// Who does what in the layer of one kernel: instructions, routing, jobs and rings. one_kernel.cu goes on.
#include <cuda_fp16.h>
typedef unsigned int u32;
typedef unsigned long long u64;

// D: hidden size, F: inside an expert, E: experts, K: of a token, MOST_TOKENS: that there may be, MOST_N: rows of a tile,
// W_STAGES and X_STAGES: of the rings of weights and of rows, PART: 0 for the whole layer in one launch; for one launch
// each 1 to quantise, 2 for the first product, 3 for the second
constexpr int THREADS = 384, WARPS = THREADS / 32;
constexpr int CONSUMERS = 256;                       // threads, two warpgroups
constexpr u32 W_BYTES = 128 * 128;                   // a stage: 128 rows of weights, 128 of k
constexpr int W_IN_FLIGHT = 4;                       // stages on their way at once; 2, 3, 6 were slower for most sizes
constexpr u32 CODES = MOST_N * 128;                  // of a stage's rows; behind them a scale for each 64 of k
constexpr u32 X_BYTES = (CODES + 2 * MOST_N * 4 + 1023) / 1024 * 1024;
constexpr int UP_BLOCKS = D / 128, DOWN_BLOCKS = F / 128;              // blocks of k of the two products
// A tile of the first product has 64 columns of SwiGLU's results. Tall tiles come in pairs, which share a scale for 128
// columns: products with a scale for each 64 of k take longer, and there are tiles enough.
constexpr int IN_PAIR = MOST_N > 64 ? 2 : 1;
constexpr int UP_JOBS = F / 64 / IN_PAIR, PANELS = D / 128;            // jobs beside each other
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
__device__ void fetch_map(const Map& map)  // before the first copy asks for it
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
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
__device__ void wait_until(const int* flag, int value)  // it is at least as large; gives up after seconds
{
    for (int tries = 0; acquire(flag) < value; ++tries)
        if (tries > 1 << 23) __trap();
}
__device__ void tell(int* count)  // that what all consumers wrote before they met is there
{
    __threadfence();
    atomicAdd(count, 1);
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
#define R40 R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
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
__device__ void multiply(float (&d)[40], u64 rows, u64 columns, bool more)
{
    PRODUCT("80", R40, "40", "41", "42", D16(0), D16(16), D4(32), D4(36));
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
    constexpr int SOME = 4;  // tokens that a warp chooses for at a time, while the next ones' scores are on their way
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float waiting[SOME];
#pragma unroll
    for (int s = 0; s < SOME; ++s) {
        int token = warp + s * WARPS;
        waiting[s] = token < tokens && lane < E ? scores[token * E + lane] : 0;
    }
    for (int group = warp; group < tokens; group += SOME * WARPS) {
        float score[SOME];
        int key[SOME], best[SOME];
        u32 chosen[SOME];
#pragma unroll
        for (int s = 0; s < SOME; ++s) {
            score[s] = waiting[s];
            int bits = __float_as_int(score[s]), magnitude = bits & 0x7fffffff, sign = bits >> 31;
            key[s] = magnitude > INFINITY_BITS ? -INFINITY_BITS : (magnitude ^ sign) - sign;
            if (lane >= E) key[s] = TAKEN;
            chosen[s] = 0;
            int token = group + (SOME + s) * WARPS;
            waiting[s] = token < tokens && lane < E ? scores[token * E + lane] : 0;
        }
#pragma unroll
        for (int i = 0; i < K; ++i) {
            int largest[SOME];
#pragma unroll
            for (int s = 0; s < SOME; ++s) largest[s] = __reduce_max_sync(ALL, key[s]);
#pragma unroll
            for (int s = 0; s < SOME; ++s) {
                int winner = __ffs(__ballot_sync(ALL, key[s] == largest[s])) - 1;  // of equal ones the first
                if (i == 0) best[s] = winner;
                chosen[s] |= 1u << winner;
                if (lane == winner) key[s] = TAKEN;
            }
        }
#pragma unroll
        for (int s = 0; s < SOME; ++s) {
            int token = group + s * WARPS;
            bool mine = chosen[s] >> lane & 1;
            float highest = __shfl_sync(ALL, score[s], best[s]), weight = mine ? expf(score[s] - highest) : 0;
            float sum = weight;
#pragma unroll
            for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
            if (token < tokens) {
                if (mine) routing.share[token * K + __popc(chosen[s] & ((1u << lane) - 1))] = weight / sum;
                if (lane == 0) routing.chosen[token] = chosen[s];
            }
        }
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

// A product of 128 rows of weights with some rows of activations, for k from 128 * block to 128 * end; or `tiles` of them,
// one after the other, whose weights are beside each other.
struct Job {
    bool down;                    // of the second product
    int expert, slot, rows;       // the first slot, and rows from it on
    int column, block, end;       // the first column of F or of D; blocks of k
    int tiles;                    // 1, or IN_PAIR of the first product
};

// The jobs of this block: those of the first product, every gridDim.x-th one; then a share of the second one's blocks
// of k, counted through all tiles. Blocks that have a job less take more of these, and those of the first experts.
struct Work {
    const Routing& routing;
    int expert, before;  // where the search is, and how much lies before that expert
    int next, end;       // jobs of the first product have no end; then blocks of k
    bool down;

    __device__ Work(const Routing& routing)
        : routing(routing), expert(0), before(0), next(blockIdx.x), end(0), down(false)
    {
        if (PART == 3) begin_down();
    }
    __device__ void begin_down()
    {
        int all = 0, blocks = gridDim.x;
        for (int e = 0; e < E; ++e) all += routing.tall(e);
        int rank = (blockIdx.x + blocks - all * UP_JOBS % blocks) % blocks;
        next = share_begins(rank, all), end = share_begins(rank + 1, all);
        expert = before = 0;
        down = true;
    }

    __device__ int share_begins(int rank, int tall) const
    {
        int blocks = gridDim.x, jobs = tall * UP_JOBS, units = tall * PANELS * DOWN_BLOCKS;
        int each = jobs / blocks, fewer = blocks - jobs % blocks;  // the first ranks have `each` jobs, then one more
        // All begin at about the same time.
        if (PART == 3 || each * IN_PAIR < 4) return (int)((long long)rank * units / blocks);
        int had = (rank * each + max(0, rank - fewer)) * IN_PAIR * UP_BLOCKS;
        return (int)((long long)rank * (jobs * IN_PAIR * UP_BLOCKS + units) / blocks) - had;
    }

    __device__ bool find(Job& job)
    {
        if (!down) {
            for (; expert < E; ++expert) {
                int tall = routing.tall(expert), local = next - before;
                if (local < tall * UP_JOBS) {
                    next += gridDim.x;
                    job = {false, expert, local % tall, 0, local / tall * 64 * IN_PAIR, 0, UP_BLOCKS, IN_PAIR};
                    place(job);
                    return true;
                }
                before += tall * UP_JOBS;
            }
            if (PART == 2) return false;
            begin_down();
        }
        for (; next < end && expert < E; ++expert) {
            int tall = routing.tall(expert), local = next - before, block = local % DOWN_BLOCKS;
            if (local < tall * PANELS * DOWN_BLOCKS) {
                int tile = local / DOWN_BLOCKS, last = min(DOWN_BLOCKS, block + end - next);
                next += last - block;
                job = {true, expert, tile % tall, 0, tile / tall * 128, block, last, 1};
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
