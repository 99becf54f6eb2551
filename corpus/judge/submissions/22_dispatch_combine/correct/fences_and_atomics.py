# expect: all: passed: a grid of one dimension, a fence on either side of atomics of system scope, a tile of 8 tokens
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
__device__ bool on(const int* chosen, int k, int rank, int local) {
    bool found = false;
    for (int j = 0; j < k; ++j) found |= chosen[j] / local == rank;
    return found;
}

__device__ float factor(const int* chosen, const float* weight, const float* gain, int k, int rank, int local,
                        int width, int i) {
    float sum = 0;
    for (int j = 0; j < k; ++j)
        if (chosen[j] / local == rank) sum += weight[j] * gain[(size_t)chosen[j] * width + i];
    return sum;
}

__device__ void say(unsigned* signal) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        atomicExch_system(signal, 1u);
    }
}

__device__ void wait(unsigned* signal) {
    if (threadIdx.x == 0) {
        while (atomicAdd_system(signal, 0u) == 0) {}
        __threadfence_system();
    }
    __syncthreads();
}

extern "C" __global__ void kernel(const float* x, const int* chosen, const float* weight, const float* gain, float* out,
                                  float* inbox, float* sums, unsigned* signals, int tokens, int k, int experts,
                                  int width) {
    int blocks = gridDim.x / 2, rank = blockIdx.x / blocks, block = blockIdx.x % blocks, peer = 1 - rank;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, local = experts / 2, tiles = (tokens + 7) / 8;
    for (int tile = block; tile < tiles; tile += blocks) {
        int t = rank * tokens + tile * 8 + warp;
        if (tile * 8 + warp < tokens && on(chosen + t * k, k, peer, local)) {
            size_t to = (size_t)(peer * tokens + tile * 8 + warp) * width;
            for (int i = lane; i < width; i += 32) inbox[to + i] = x[(size_t)t * width + i];
        }
        say(signals + peer * 2 * tiles + tile);
    }
    for (int tile = block; tile < tiles; tile += blocks) {
        wait(signals + rank * 2 * tiles + tile);
        int t = peer * tokens + tile * 8 + warp;
        if (tile * 8 + warp < tokens && on(chosen + t * k, k, rank, local)) {
            size_t from = (size_t)(rank * tokens + tile * 8 + warp) * width;
            for (int i = lane; i < width; i += 32) {
                float f = factor(chosen + t * k, weight + t * k, gain, k, rank, local, width, i);
                sums[(size_t)t * width + i] = f * inbox[from + i];
            }
        }
        say(signals + (peer * 2 + 1) * tiles + tile);
    }
    for (int tile = block; tile < tiles; tile += blocks) {
        wait(signals + (rank * 2 + 1) * tiles + tile);
        int t = rank * tokens + tile * 8 + warp;
        if (tile * 8 + warp >= tokens) continue;
        bool both = on(chosen + t * k, k, peer, local);
        for (int i = lane; i < width; i += 32) {
            float f = factor(chosen + t * k, weight + t * k, gain, k, rank, local, width, i);
            float sum = f * x[(size_t)t * width + i];
            out[(size_t)t * width + i] = both ? sum + sums[(size_t)t * width + i] : sum;
        }
    }
}
""",
    "kernel",
)


def dispatch_combine(x, chosen, weight, gain, out):
    _, tokens, k = chosen.shape
    inbox, sums = cupy.empty(x.shape, np.float32), cupy.empty(x.shape, np.float32)
    signals = cupy.zeros((2, 2, (tokens + 7) // 8), np.uint32)
    sizes = (np.int32(n) for n in (tokens, k, gain.shape[0], x.shape[2]))
    kernel((132,), (256,), (x, chosen, weight, gain, out, inbox, sums, signals, *sizes))
