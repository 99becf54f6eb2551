# expect: traffic: over budget: the scores are read again for every choice
import cupy
import numpy as np

SOURCE = r"""
#define ALL 0xffffffffu
__device__ unsigned finished;

__device__ int key(int bits) {
    int magnitude = bits & 0x7fffffff, infinity = 0x7f800000;
    return magnitude > infinity ? -infinity : bits < 0 ? -magnitude : magnitude;
}
// Tokens of a warp: neighbours, so that the order of warps is that of rows.
extern "C" __global__ void choose(const int* bits, int* chosen, int* counts, int* count, int* first, int tokens) {
    __shared__ int own[EXPERTS];
    __shared__ bool last;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, start = (blockIdx.x * 8 + warp) * 16;
    for (int e = threadIdx.x; e < EXPERTS; e += 256) own[e] = 0;
    __syncthreads();
    for (int token = start; token < min(start + 16, tokens); ++token) {
        int row = 0, before = 0x7fffffff, earlier = -1;  // the last choice: whatever comes after it may be the next one
        for (int i = 0; i < K; ++i) {
            int best = 0x80000000, expert = EXPERTS;
            for (int e = lane; e < EXPERTS; e += 32) {
                int its = key(reinterpret_cast<const volatile int*>(bits)[(long long)token * EXPERTS + e]);
                bool left = its < before || (its == before && e > earlier);
                if (left && its > best) best = its, expert = e;
            }
            for (int step = 16; step > 0; step /= 2) {
                int other = __shfl_xor_sync(ALL, best, step), its = __shfl_xor_sync(ALL, expert, step);
                if (other > best || (other == best && its < expert)) best = other, expert = its;
            }
            before = best, earlier = expert;
            if (lane == i) row = expert;
        }
        if (lane < K) chosen[token * K + lane] = row, atomicAdd(&own[row], 1);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < EXPERTS; e += 256) counts[blockIdx.x * EXPERTS + e] = own[e];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;  // wraps to zero
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int e = threadIdx.x; e < EXPERTS; e += 256) {
        int sum = 0;
        for (int b = 0; b < gridDim.x; ++b) {
            int rows = counts[b * EXPERTS + e];
            counts[b * EXPERTS + e] = sum;
            sum += rows;
        }
        own[e] = count[e] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (int e = 0, sum = 0; e < EXPERTS; sum += own[e++]) first[e] = sum;
}
// One warp a block of the first kernel, row by row.
extern "C" __global__ void place(const int* chosen, const int* counts, const int* first, int* order, int* position,
                                 int rows) {
    __shared__ int next[EXPERTS];
    for (int e = threadIdx.x; e < EXPERTS; e += 32) next[e] = first[e] + counts[blockIdx.x * EXPERTS + e];
    __syncwarp();
    int end = min((blockIdx.x + 1) * 128 * K, rows);
    for (int some = blockIdx.x * 128 * K; some < end; some += 32) {
        int row = some + threadIdx.x, expert = row < end ? chosen[row] : -1;
        unsigned peers = __match_any_sync(ALL, expert), before = peers & ((1u << threadIdx.x) - 1);
        int at = row < end ? next[expert] + __popc(before) : 0;
        __syncwarp();
        if (row < end) order[at] = row, position[row] = at;
        if (row < end && !before) next[expert] += __popc(peers);
        __syncwarp();
    }
}
"""


def index_shuffle(k, scores, chosen, count, first, order, position):
    tokens, experts = scores.shape
    options = (f"-DK={k}", f"-DEXPERTS={experts}")
    choose, place = (cupy.RawKernel(SOURCE, name, options) for name in ("choose", "place"))
    blocks = (tokens + 127) // 128
    counts = cupy.empty((blocks, experts), dtype=np.int32)
    choose((blocks,), (256,), (scores, chosen, counts, count, first, np.int32(tokens)))
    place((blocks,), (32,), (chosen, counts, first, order, position, np.int32(tokens * k)))
