# expect: correctness: two runs disagree: each row asks an atomic addition for its place among those of its expert
import cupy
import numpy as np

SOURCE = r"""
#define ALL 0xffffffffu
#define TAKEN 0x80000000
__device__ int key(int bits) {
    int magnitude = bits & 0x7fffffff, infinity = 0x7f800000;
    return magnitude > infinity ? -infinity : bits < 0 ? -magnitude : magnitude;
}
extern "C" __global__ void choose(const int* bits, int* chosen, int tokens) {
    __shared__ int keys[4][EXPERTS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, token = blockIdx.x * 4 + warp;
    if (token >= tokens) return;
    for (int e = lane; e < EXPERTS; e += 32) keys[warp][e] = key(bits[(long long)token * EXPERTS + e]);
    __syncwarp();
    for (int i = 0; i < K; ++i) {
        int best = TAKEN, expert = EXPERTS;
        for (int e = lane; e < EXPERTS; e += 32)
            if (keys[warp][e] > best) best = keys[warp][e], expert = e;
        for (int step = 16; step > 0; step /= 2) {
            int other = __shfl_xor_sync(ALL, best, step), its = __shfl_xor_sync(ALL, expert, step);
            if (other > best || (other == best && its < expert)) best = other, expert = its;
        }
        if (lane == 0) chosen[token * K + i] = expert, keys[warp][expert] = TAKEN;
        __syncwarp();
    }
}
extern "C" __global__ void count_up(const int* chosen, int* count, int* first, int* next, int rows) {
    int expert = blockIdx.x, lane = threadIdx.x, to = 0, own = 0;
    for (int row = lane; row < rows; row += 32) to += chosen[row] < expert, own += chosen[row] == expert;
    for (int step = 16; step > 0; step /= 2) {
        to += __shfl_xor_sync(ALL, to, step);
        own += __shfl_xor_sync(ALL, own, step);
    }
    if (lane == 0) count[expert] = own, first[expert] = to, next[expert] = to;
}
extern "C" __global__ void place(const int* chosen, int* next, int* order, int* position, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        int at = atomicAdd(&next[chosen[row]], 1);
        order[at] = row;
        position[row] = at;
    }
}
"""


def index_shuffle(k, scores, chosen, count, first, order, position):
    tokens, experts = scores.shape
    options = (f"-DK={k}", f"-DEXPERTS={experts}")
    choose, place = (cupy.RawKernel(SOURCE, name, options) for name in ("choose", "place"))
    count_up = cupy.RawKernel(SOURCE, "count_up", options)
    choose(((tokens + 3) // 4,), (128,), (scores, chosen, np.int32(tokens)))
    next_place = cupy.empty(experts, dtype=np.int32)
    count_up((experts,), (32,), (chosen, count, first, next_place, np.int32(tokens * k)))
    place(((tokens * k + 127) // 128,), (128,), (chosen, next_place, order, position, np.int32(tokens * k)))
