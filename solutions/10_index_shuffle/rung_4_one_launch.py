"""index_shuffle, rung 4: one launch, in CUDA C++, whose blocks wait for each other.

A cooperative grid has all of its blocks on the GPU at one time, and a barrier for all of them. So a block keeps its
counts in shared memory, waits, adds up what the blocks before it have counted, and places its rows. Loads are of single
words, and a warp asks for the next token's scores when it is done with this one's. And 16 tokens need the barrier of a
grid, too.
"""

import cupy
import numpy as np

THREADS, TILE, GRID = 512, 128, 132
SOURCE = r"""
#include <cooperative_groups.h>
constexpr unsigned ALL = 0xffffffff, NOBODY = 0xffffffff;
constexpr int WARPS = THREADS / 32, EACH = (EXPERTS + 31) / 32, GROUP = 32 / K;

// In the order of scores, above 0: NaN as minus infinity, -0 as +0.
__device__ unsigned key(int bits)
{
    int magnitude = bits & 0x7fffffff, infinity = 0x7f800000;
    return magnitude > infinity ? 1 : (bits < 0 ? -magnitude : magnitude) + infinity + 1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
index_shuffle_kernel(const int* __restrict__ bits, int* chosen, int* count, int* first, int* order, int* position,
                     int* counted, int tokens)
{
    __shared__ int next[WARPS][EXPERTS], before[EXPERTS], total[EXPERTS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int a_block = (tokens + gridDim.x - 1) / gridDim.x, a_warp = (a_block + WARPS - 1) / WARPS;
    int block_end = min((blockIdx.x + 1) * a_block, tokens);
    int start = min(blockIdx.x * a_block + warp * a_warp, block_end), end = min(start + a_warp, block_end);
    for (int e = lane; e < EXPERTS; e += 32) next[warp][e] = 0;
    __syncwarp();
    for (int token = start; token < end; ++token) {
        unsigned keys[EACH], row = NOBODY;
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            int expert = e * 32 + lane;
            keys[e] = expert < EXPERTS ? key(bits[(long long)token * EXPERTS + expert]) : 0;
        }
#pragma unroll
        for (int i = 0; i < K; ++i) {
            unsigned largest = 0, mine = NOBODY;
#pragma unroll
            for (int e = 0; e < EACH; ++e) largest = max(largest, keys[e]);
            largest = __reduce_max_sync(ALL, largest);
#pragma unroll
            for (int e = EACH - 1; e >= 0; --e) mine = keys[e] == largest ? e * 32 + lane : mine;
            unsigned best = __reduce_min_sync(ALL, mine);
#pragma unroll
            for (int e = 0; e < EACH; ++e) keys[e] = e * 32 + lane == best ? 0 : keys[e];
            if (lane == i) row = best;
        }
        if (lane < K) {
            chosen[(long long)token * K + lane] = row;
            ++next[warp][row];  // a token's experts differ, and no other warp counts here
        }
        __syncwarp();
    }
    __syncthreads();
    for (int e = threadIdx.x; e < EXPERTS; e += THREADS) {
        int sum = 0;
        for (int w = 0; w < WARPS; ++w) {
            int rows = next[w][e];
            next[w][e] = sum;
            sum += rows;
        }
        counted[blockIdx.x * EXPERTS + e] = sum;
    }
    cooperative_groups::this_grid().sync();
    for (int e = threadIdx.x; e < EXPERTS; e += THREADS) {
        int all = 0, earlier = 0;
        for (int b = 0; b < gridDim.x; ++b) {
            int rows = counted[b * EXPERTS + e];
            all += rows;
            earlier += b < blockIdx.x ? rows : 0;
        }
        total[e] = all;
        before[e] = earlier;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int begins = 0;
        for (int e = 0; e < EXPERTS; ++e) {
            if (blockIdx.x == 0) count[e] = total[e], first[e] = begins;
            before[e] += begins;
            begins += total[e];
        }
    }
    __syncthreads();
    for (int e = lane; e < EXPERTS; e += 32) next[warp][e] += before[e];
    __syncwarp();
    for (int tile = start; tile < end; tile += GROUP) {
        int number = tile * K + lane;
        unsigned row = lane < GROUP * K && tile + lane / K < end ? chosen[number] : NOBODY;
        unsigned peers = __match_any_sync(ALL, row);
        int earlier = __popc(peers & ((1u << lane) - 1));
        if (row != NOBODY) {
            int to = next[warp][row] + earlier;
            position[number] = to, order[to] = number;
        }
        __syncwarp();
        if (row != NOBODY && earlier == 0) next[warp][row] += __popc(peers);
        __syncwarp();
    }
}
"""


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert."""
    tokens, experts = scores.shape
    options = (f"-DK={k}", f"-DEXPERTS={experts}", f"-DTHREADS={THREADS}")
    kernel = cupy.RawKernel(SOURCE, "index_shuffle_kernel", options, enable_cooperative_groups=True)
    blocks = min((tokens + TILE - 1) // TILE, GRID)
    counted = cupy.empty(blocks * experts, dtype=np.int32)
    arguments = (scores, chosen, count, first, order, position, counted, np.int32(tokens))
    kernel((blocks,), (THREADS,), arguments)
