"""Lab 10_index_shuffle: the experts that tokens choose, and the rows in the order of their experts, in CUDA C++."""

import cupy
import numpy as np

# BEGIN SOLUTION
# One launch, and each score is read once. A block has a stretch of neighbouring tokens, each of its warps a stretch of
# that. A warp chooses for one token after the other and counts its rows by expert; then all blocks wait for each other,
# and a block that knows what those before it have counted knows where its rows go. Blocks need no barrier where there
# is one, that of a cluster where there are few, and else that of a cooperative grid.
# END SOLUTION
SOURCE = r"""
// BEGIN SOLUTION
#if GRID
#include <cooperative_groups.h>
#endif
constexpr unsigned ALL = 0xffffffff;  // lanes that take part
constexpr int WARPS = THREADS / 32;
constexpr int EACH = (EXPERTS + 32 * VECTOR - 1) / (32 * VECTOR) * VECTOR;  // scores of a lane, VECTOR at a time
constexpr int GROUP = 32 / K;            // tokens whose rows a warp holds at a time, one a lane
constexpr int AHEAD = EACH > 4 ? 2 : 4;  // tokens whose scores are on their way
constexpr bool ALONE = CLUSTER == 1 && !GRID;  // there is one block
constexpr unsigned NOBODY = 0xffffffff;
constexpr int TAKEN = 0x80000000;  // below the key of every score

__device__ int lane() { return threadIdx.x % 32; }

// The expert of a lane's score number `e`: lanes read neighbours, and a lane's own scores are in ascending order.
__device__ unsigned expert(int e) { return e / VECTOR * 32 * VECTOR + lane() * VECTOR + e % VECTOR; }

// Whole numbers in the order of scores: NaN as minus infinity, -0 as +0. Made from the bits, for arithmetic on floats
// takes subnormal numbers for zero, as CuPy has it compiled.
__device__ int key(int bits)
{
    int magnitude = bits & 0x7fffffff, sign = bits >> 31, infinity = 0x7f800000;
    return magnitude > infinity ? -infinity : (magnitude ^ sign) - sign;
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
    int each[EACH];  // bits

    __device__ void load(const int* scores, int token, int end)
    {
#pragma unroll
        for (int e = 0; e < EACH; e += VECTOR) {
            if (token < end && expert(e) < EXPERTS) {
#if VECTOR == 4
                int4 four = __ldcs(reinterpret_cast<const int4*>(scores + (long long)token * EXPERTS + expert(e)));
                each[e] = four.x, each[e + 1] = four.y, each[e + 2] = four.z, each[e + 3] = four.w;
#else
                each[e] = __ldcs(scores + (long long)token * EXPERTS + expert(e));
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
#if GRID
    cooperative_groups::this_grid().sync();
#elif CLUSTER > 1
    __syncwarp();  // the barrier is one of whole warps
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

// STARTER: extern "C" __global__ void __launch_bounds__(THREADS)
extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER)
#endif
__launch_bounds__(THREADS)
// END SOLUTION
index_shuffle_kernel(const float* __restrict__ scores, int* chosen, int* __restrict__ count, int* __restrict__ first,
// BEGIN SOLUTION
// STARTER:                      int* __restrict__ order, int* __restrict__ position, int tokens)
                     int* __restrict__ order, int* __restrict__ position, int* counted, int tokens)
// END SOLUTION
{
    // BEGIN SOLUTION
    // STARTER: // scores has tokens x EXPERTS elements, chosen, order and position tokens x K, count and first EXPERTS.
    __shared__ int next[WARPS][EXPERTS];  // rows of a warp by expert, then where its next one goes
    __shared__ int total[EXPERTS], before[EXPERTS];

    // This warp's tokens, from `start` to `end`.
    int warp = threadIdx.x / 32;
    int a_block = (tokens + gridDim.x - 1) / gridDim.x, a_warp = (a_block + WARPS - 1) / WARPS;
    int block_end = min((blockIdx.x + 1) * a_block, tokens);
    int start = min(blockIdx.x * a_block + warp * a_warp, block_end), end = min(start + a_warp, block_end);

    const int* bits = reinterpret_cast<const int*>(scores);
    Scores waiting[AHEAD];
#pragma unroll
    for (int t = 0; t < AHEAD; ++t) waiting[t].load(bits, start + t, end);
    for (int e = lane(); e < EXPERTS; e += 32) next[warp][e] = 0;
    for (int e = threadIdx.x; e < EXPERTS; e += THREADS) total[e] = before[e] = 0;
    __syncwarp();
    unsigned row = NOBODY;
    for (int group = start; group < end; group += GROUP) {
        row = NOBODY;
#pragma unroll AHEAD
        for (int t = 0; t < GROUP; ++t) {
            if (group + t < end) waiting[t % AHEAD].choose(t * K, row);
            waiting[t % AHEAD].load(bits, group + t + AHEAD, end);
        }
        if (row != NOBODY) chosen[(long long)group * K + lane()] = row;
        Peers peers(row);
        if (peers.leads(row)) next[warp][row] += __popc(peers.all);
        __syncwarp();
    }
    __syncthreads();

    // Rows of earlier warps of this block, by expert, and what the block has of each.
    for (int e = threadIdx.x; e < EXPERTS; e += THREADS) {
        int sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            int rows = next[w][e];
            next[w][e] = sum;
            sum += rows;
        }
        if (ALONE)
            total[e] = sum;
        else
            counted[blockIdx.x * EXPERTS + e] = sum;
    }
    wait_for_all_blocks();

    // Rows of earlier blocks and of all, by expert. Several threads share an expert and take every so many-th block.
    constexpr int SHARE = THREADS / EXPERTS;
    if (!ALONE && threadIdx.x < SHARE * EXPERTS) {
        int e = threadIdx.x % EXPERTS, all = 0, earlier = 0;
        for (int b = threadIdx.x / EXPERTS; b < gridDim.x; b += SHARE) {
            int rows = counted[b * EXPERTS + e];
            all += rows;
            earlier += b < blockIdx.x ? rows : 0;
        }
        atomicAdd(&total[e], all);
        atomicAdd(&before[e], earlier);
    }
    __syncthreads();
    if (warp == 0) {  // where each expert begins: an exclusive sum, of which a lane has neighbouring experts
        constexpr int SPAN = (EXPERTS + 31) / 32;
        int sum = 0, until;
        for (int e = lane() * SPAN; e < min((lane() + 1) * SPAN, EXPERTS); ++e) sum += total[e];
        until = sum;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            int lower = __shfl_up_sync(ALL, until, step);
            until += lane() >= step ? lower : 0;
        }
        int begins = until - sum;
        for (int e = lane() * SPAN; e < min((lane() + 1) * SPAN, EXPERTS); ++e) {
            if (blockIdx.x == 0) count[e] = total[e], first[e] = begins;
            before[e] += begins;
            begins += total[e];
        }
    }
    __syncthreads();
    for (int e = lane(); e < EXPERTS; e += 32) next[warp][e] += before[e];
    __syncwarp();

    // Each row to its place. A lane reads what it wrote, some groups at a time; the last group is still in `row`.
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
            int to = rows[g] == NOBODY ? 0 : next[warp][rows[g]] + peers.before;
            __syncwarp();
            if (peers.leads(rows[g])) next[warp][rows[g]] += __popc(peers.all);
            __syncwarp();
            if (rows[g] != NOBODY) position[number] = to, order[to] = number;
        }
    }
    // END SOLUTION
}
"""
# BEGIN SOLUTION
THREADS = 1024
SHARE = 128  # tokens that are worth a block: four a warp
CLUSTER = 8  # blocks that may wait for each other without a cooperative launch
GRID = 132  # and with one: an H100 SXM or H200 has a place for each
# END SOLUTION


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert; all but k are arrays (README.md)."""
    tokens, experts = scores.shape
    # BEGIN SOLUTION
    # STARTER: index_shuffle_kernel = cupy.RawKernel(
    # STARTER:     SOURCE, "index_shuffle_kernel", (f"-DK={k}", f"-DEXPERTS={experts}", "-DTHREADS=128")
    # STARTER: )
    # STARTER: arguments = (scores, chosen, count, first, order, position, np.int32(tokens))
    # STARTER: index_shuffle_kernel(((tokens + 3) // 4,), (128,), arguments)
    blocks = min((tokens + SHARE - 1) // SHARE, GRID)
    if 1 < blocks <= CLUSTER:
        blocks = CLUSTER
    options = {"K": k, "EXPERTS": experts, "VECTOR": 4 if experts >= 128 else 1, "THREADS": THREADS}
    options |= {"CLUSTER": blocks if blocks <= CLUSTER else 1, "GRID": int(blocks > CLUSTER)}
    index_shuffle_kernel = cupy.RawKernel(
        SOURCE,
        "index_shuffle_kernel",
        tuple(f"-D{name}={value}" for name, value in options.items()),
        enable_cooperative_groups=blocks > CLUSTER,
    )
    counted = cupy.empty(blocks * experts, dtype=np.int32)
    arguments = (scores, chosen, count, first, order, position, counted, np.int32(tokens))
    index_shuffle_kernel((blocks,), (THREADS,), arguments)
    # END SOLUTION
