#include <cooperative_groups.h>
namespace cg = cooperative_groups;
constexpr unsigned ALL = 0xffffffff;  // lanes that take part
constexpr int WARPS = THREADS / 32;
constexpr int EACH = (EXPERTS + 32 * VECTOR - 1) / (32 * VECTOR) * VECTOR;  // scores of a lane, VECTOR at a time
constexpr int GROUP = 32 / K;  // tokens whose rows a warp holds at a time, one a lane
// SINGLE says that no warp has more than one token.
constexpr int AHEAD = SINGLE ? 1 : EACH > 4 ? 2 : 4;  // tokens whose scores are on their way
constexpr int SPANS = (EXPERTS + 31) / 32;  // warps whose threads have an expert each
constexpr bool GRID = BLOCKS == 0, CLUSTERED = BLOCKS > 1;  // a grid may have any number of blocks
constexpr int BYTES = 256;  // an expert has a token once, so the count of a block with fewer tokens is a byte
constexpr unsigned NOBODY = 0xffffffff;
constexpr int TAKEN = 0x80000000;  // below the key of every score

__device__ int lane() { return threadIdx.x % 32; }
__device__ int blocks() { return GRID ? gridDim.x : BLOCKS; }

// The expert of a lane's score number `e`: lanes read neighbours, and a lane's own scores are in ascending order.
__device__ unsigned expert(int e) { return e / VECTOR * 32 * VECTOR + lane() * VECTOR + e % VECTOR; }

// Whole numbers in the order of scores: NaN as minus infinity, -0 as +0. As CuPy has it compiled, the maximum of C++
// would take subnormal numbers for zero; this one does not.
__device__ int key(float score)
{
    asm("max.f32 %0, %1, %2;" : "=f"(score) : "f"(score), "f"(__int_as_float(0xff800000)));  // never NaN
    int bits = __float_as_int(score), sign = bits >> 31;
    return ((bits & 0x7fffffff) ^ sign) - sign;
}

// Puts the larger key first, with its expert; equal ones stay as they are.
__device__ void sort(int& key, int& other, unsigned& expert, unsigned& its)
{
    bool swap = key < other;
    int smaller = swap ? key : other;
    unsigned last = swap ? expert : its;
    key = swap ? other : key, expert = swap ? its : expert;
    other = smaller, its = last;
}

// One token's scores, as far as they are this lane's. Another token's are on their way meanwhile.
struct Scores {
    float each[EACH];

    __device__ void load(const float* scores, int token, int end)
    {
#pragma unroll
        for (int e = 0; e < EACH; e += VECTOR) {
            if (token < end && expert(e) < EXPERTS) {
                const float* from = scores + (long long)token * EXPERTS + expert(e);
#if VECTOR == 4
                float4 four = __ldcs(reinterpret_cast<const float4*>(from));
                each[e] = four.x, each[e + 1] = four.y, each[e + 2] = four.z, each[e + 3] = four.w;
#elif VECTOR == 2
                float2 two = __ldcs(reinterpret_cast<const float2*>(from));
                each[e] = two.x, each[e + 1] = two.y;
#else
                each[e] = __ldcs(from);
#endif
            }
        }
    }

    // The K best experts of the token; lane `at` + i keeps number i in `row`. A lane has its keys sorted, vector by
    // vector, so that only the first of each vector is looked at, and the others move up when it is taken.
    __device__ void choose(int at, unsigned& row) const
    {
        int keys[EACH];
        unsigned experts[EACH];
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            experts[e] = expert(e);
            keys[e] = experts[e] < EXPERTS ? key(each[e]) : TAKEN;
        }
#pragma unroll
        for (int v = 0; v < EACH; v += VECTOR)
#pragma unroll
            for (int sorted = 1; sorted < VECTOR; ++sorted)
#pragma unroll
                for (int e = v; e < v + VECTOR - sorted; ++e) sort(keys[e], keys[e + 1], experts[e], experts[e + 1]);
#pragma unroll
        for (int i = 0; i < K; ++i) {
            int largest = keys[0];
            unsigned mine = NOBODY;
#pragma unroll
            for (int v = VECTOR; v < EACH; v += VECTOR) largest = max(largest, keys[v]);
            largest = __reduce_max_sync(ALL, largest);
#pragma unroll
            for (int v = EACH - VECTOR; v >= 0; v -= VECTOR) mine = keys[v] == largest ? experts[v] : mine;
            unsigned best = __reduce_min_sync(ALL, mine);  // of equal scores that of the lowest index
#pragma unroll
            for (int v = 0; v < EACH; v += VECTOR) {
                bool taken = experts[v] == best;
#pragma unroll
                for (int e = v; e < v + VECTOR - 1; ++e) {
                    keys[e] = taken ? keys[e + 1] : keys[e];
                    experts[e] = taken ? experts[e + 1] : experts[e];
                }
                keys[v + VECTOR - 1] = taken ? TAKEN : keys[v + VECTOR - 1];
            }
            row = lane() == at + i ? best : row;
        }
    }
};

// What a lane knows of the rows in all lanes: those of the same expert, and how many of them come before its own.
struct Peers {
    unsigned all;
    int before;

    __device__ explicit Peers(unsigned row) : all(__match_any_sync(ALL, row))
    {
        before = __popc(all & ((1u << lane()) - 1));
    }
    __device__ bool leads(unsigned row) const { return before == 0 && row != NOBODY; }
};

__device__ void wait_for_all_blocks()
{
    if (CLUSTERED) cg::this_cluster().sync();
    if (GRID) cg::this_grid().sync();
}

// Lets all blocks know how many rows of expert `e` this one has. In `counted` a word has the counts of PER blocks, and
// the words of all experts stand side by side: first those of blocks 0 to PER - 1, and so on.
template <typename Count, int PER = 4 / sizeof(Count)>
__device__ void tell(unsigned* counted, int e, int rows)
{
    Count* here = reinterpret_cast<Count*>(counted);
    int at = (blockIdx.x / PER * EXPERTS + e) * PER + blockIdx.x % PER;
    if (!CLUSTERED) here[at] = rows;
#pragma unroll
    for (int b = 0; b < BLOCKS && CLUSTERED; ++b) cg::this_cluster().map_shared_rank(here, b)[at] = rows;
}

// What the first `blocks` of those that share a word have counted; four bytes are added by one instruction.
template <int PER>
__device__ unsigned rows_of(unsigned word, int blocks)
{
    if (PER == 1) return blocks > 0 ? word : 0;
    return __dp4a(word, blocks > 0 ? 0x01010101u >> 8 * (4 - min(blocks, 4)) : 0u, 0u);
}

// Adds up the rows of expert `e` of all blocks and of earlier ones. SOME words are asked for before any is used.
template <typename Count, int PER = 4 / sizeof(Count)>
__device__ void add_up(const unsigned* counted, int e, unsigned& all, unsigned& earlier)
{
    int words = (blocks() + PER - 1) / PER;
    constexpr int SOME = GRID ? 17 : (BLOCKS + PER - 1) / PER;
    for (int some = 0; some < words; some += SOME) {
#pragma unroll
        for (int w = some; w < some + SOME; ++w) {
            unsigned word = w < words ? counted[w * EXPERTS + e] : 0;
            all += rows_of<PER>(word, PER);
            earlier += rows_of<PER>(word, blockIdx.x - w * PER);
        }
    }
}

// The sum of what the threads below have; `span` has that of 32 experts. Warps without experts only wait.
__device__ int sum_before(int mine, int* span)
{
    int until = mine, warp = threadIdx.x / 32;
    if (warp < SPANS) {
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            int lower = __shfl_up_sync(ALL, until, step);
            until += lane() >= step ? lower : 0;
        }
        if (lane() == 31) span[warp] = until;
    }
    if (SPANS > 1) __syncthreads();
#pragma unroll
    for (int w = 0; w < SPANS - 1; ++w) until += w < warp ? span[w] : 0;
    return until - mine;
}

__device__ void put(int number, int to, int* order, int* position) { position[number] = to, order[to] = number; }

extern "C" __global__ void
#if BLOCKS > 1
__cluster_dims__(BLOCKS)
#endif
__launch_bounds__(THREADS, 1)  // told that one block is enough, the compiler spares no registers
index_shuffle_kernel(const float* __restrict__ scores, int* chosen, int* __restrict__ count, int* __restrict__ first,
                     int* __restrict__ order, int* __restrict__ position, unsigned* others, int tokens)
{
    // Blocks of a cluster have fewer tokens than BYTES.
    constexpr int WORDS = GRID ? 1 : BLOCKS % 4 ? BLOCKS : BLOCKS / 4;
    __shared__ int next[WARPS][EXPERTS];  // rows of a warp by expert, then how many of the block come before its next
    __shared__ int begin[EXPERTS];        // where the first row of the block goes
    __shared__ int span[SPANS];           // rows of 32 experts
    __shared__ unsigned table[WORDS * EXPERTS];  // what the blocks of a cluster tell this one
    unsigned* counted = GRID ? others : table;
    if (CLUSTERED) cg::this_cluster().barrier_arrive();

    // This warp's tokens, from `start` to `end`.
    int warp = threadIdx.x / 32;
    int a_block = (tokens + blocks() - 1) / blocks(), a_warp = (a_block + WARPS - 1) / WARPS;
    int block_end = min((blockIdx.x + 1) * a_block, tokens);
    int start = min(blockIdx.x * a_block + warp * a_warp, block_end), end = min(start + a_warp, block_end);

    Scores waiting[AHEAD];
#pragma unroll
    for (int t = 0; t < AHEAD; ++t) waiting[t].load(scores, start + t, end);
    for (int e = lane(); e < EXPERTS; e += 32) next[warp][e] = 0;
    __syncwarp();
    unsigned row = NOBODY;
    int before = 0;
    for (int group = start; group < end; group += GROUP) {
        row = NOBODY;
        for (int t = 0; t < (SINGLE ? 1 : GROUP) && group + t < end; t += AHEAD) {
#pragma unroll
            for (int a = 0; a < AHEAD; ++a) {
                if (group + t + a < end) waiting[a].choose((t + a) * K, row);
                waiting[a].load(scores, group + t + a + AHEAD, end);
            }
        }
        if (row != NOBODY) chosen[(long long)group * K + lane()] = row;
        Peers peers(row);
        if (peers.leads(row)) next[warp][row] += __popc(peers.all);
        before = peers.before;
        __syncwarp();
        if (SINGLE) break;
    }
    if (CLUSTERED) cg::this_cluster().barrier_wait();  // for all have begun, so that one may write into their memory
    __syncthreads();

    // Rows of earlier warps of this block, by expert, and what the block has of each. Four blocks may share a word.
    int e = threadIdx.x;
    bool bytes = blocks() % 4 == 0 && a_block < BYTES;
    if (e < EXPERTS) {
        int sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            int rows = next[w][e];
            next[w][e] = sum;
            sum += rows;
        }
        bytes ? tell<unsigned char>(counted, e, sum) : tell<unsigned>(counted, e, sum);
    }
    wait_for_all_blocks();

    unsigned all = 0, earlier = 0;
    if (e < EXPERTS && bytes) add_up<unsigned char>(counted, e, all, earlier);
    if (e < EXPERTS && !bytes) add_up<unsigned>(counted, e, all, earlier);
    int begins = sum_before(all, span);
    if (e < EXPERTS) begin[e] = begins + earlier;
    if (e < EXPERTS && blockIdx.x == 0) count[e] = all, first[e] = begins;
    __syncthreads();

    // Each row to its place. Where a warp has one group, its rows and what was found out about them are in registers.
    if (SINGLE || a_warp <= GROUP) {
        int number = start * K + lane();
        if (row != NOBODY) put(number, begin[row] + next[warp][row] + before, order, position);
        return;
    }
    // A lane reads what it wrote, some groups at a time; the last group is still in `row`.
    constexpr int SOME = 4;
    for (int groups = start; groups < end; groups += SOME * GROUP) {
        unsigned rows[SOME];
#pragma unroll
        for (int g = 0; g < SOME; ++g) {
            int group = groups + g * GROUP;
            bool last = group + GROUP >= end, mine = lane() < GROUP * K && group + lane() / K < end;
            rows[g] = last && group < end ? row : mine ? chosen[(long long)group * K + lane()] : NOBODY;
        }
#pragma unroll
        for (int g = 0; g < SOME; ++g) {
            int number = (groups + g * GROUP) * K + lane();
            Peers peers(rows[g]);
            int to = rows[g] == NOBODY ? 0 : begin[rows[g]] + next[warp][rows[g]] + peers.before;
            __syncwarp();
            if (peers.leads(rows[g])) next[warp][rows[g]] += __popc(peers.all);
            __syncwarp();
            if (rows[g] != NOBODY) put(number, to, order, position);
        }
    }
}
