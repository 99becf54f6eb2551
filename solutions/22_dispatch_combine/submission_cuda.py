"""Lab 22_dispatch_combine: tokens to the ranks of their experts, and weighted sums back, in CUDA C++."""

import cupy
import numpy as np

BLOCKS = 66  # per rank: all are on the GPU at once, and can wait for each other
THREADS = 256
# BEGIN SOLUTION
TILE = 16  # tokens that one signal stands for
# END SOLUTION

module = cupy.RawModule(
    code=r"""
// BEGIN SOLUTION
constexpr int WARPS = 8, TILE = 16, MOST = 8;  // MOST: choices of a token
enum { ROWS, SUMS };  // what a signal says has come

// Those of a token's choices that are experts of a rank: in registers, so that all rows of gains are asked for at once.
struct Choices {
    int expert[MOST];  // -1: none of that rank
    float weight[MOST];
    bool any;

    __device__ __forceinline__ Choices(const int* chosen, const float* weights, int k, int rank, int local) : any(false)
    {
#pragma unroll
        for (int j = 0; j < MOST; ++j) {
            expert[j] = j < k ? chosen[j] : -1;
            weight[j] = j < k ? weights[j] : 0;
            if (expert[j] / local != rank) expert[j] = -1;
            any |= expert[j] >= 0;
        }
    }

    // Four of a row's elements, from i on, times what these experts make of them.
    __device__ __forceinline__ float4 worked(float4 row, const float* gain, int width, int i) const
    {
        float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < MOST; ++j)
            if (expert[j] >= 0) {
                float4 of = *(const float4*)(gain + (size_t)expert[j] * width + i);
                total.x += weight[j] * of.x, total.y += weight[j] * of.y;
                total.z += weight[j] * of.z, total.w += weight[j] * of.w;
            }
        return make_float4(total.x * row.x, total.y * row.y, total.z * row.z, total.w * row.w);
    }
};

// Say to the rank whose signal this is that all that this block stored for a tile is there.
__device__ __forceinline__ void signal(unsigned* place)
{
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.sys.global.u32 [%0], 1;" :: "l"(place) : "memory");
}

__device__ __forceinline__ void wait(const unsigned* place)
{
    unsigned there = 0;
    if (threadIdx.x == 0)
        while (!there) asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(there) : "l"(place) : "memory");
    __syncthreads();
}

// END SOLUTION
extern "C" __global__ void
// BEGIN SOLUTION
// STARTER: exchange_kernel(const float* x, const int* chosen, const float* weight, const float* gain, float* out,
// STARTER:                 int tokens, int k, int experts, int width)
exchange_kernel(const float* x, const int* chosen, const float* weight, const float* gain, float* out, float* inbox,
                float* sums, unsigned* signals, int tokens, int k, int experts, int width)
// END SOLUTION
{
    // BEGIN SOLUTION
    // STARTER: // Blocks with blockIdx.y == r are rank r. Send, compute, send back and add up here.
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, local = experts / 2;
    int rank = blockIdx.y, peer = 1 - rank, tiles = (tokens + TILE - 1) / TILE;
    auto row = [&](int owner, int token) { return (size_t)owner * tokens + token; };
    auto of_token = [&](int owner, int token, int on) {
        return Choices(chosen + row(owner, token) * k, weight + row(owner, token) * k, k, on, local);
    };
    auto of = [&](int owner, int kind, int tile) { return signals + (owner * 2 + kind) * tiles + tile; };
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {  // own tokens go to the peer, each once
        for (int token = tile * TILE + warp; token < min(tokens, (tile + 1) * TILE); token += WARPS)
            if (of_token(rank, token, peer).any) {
                const float* from = x + row(rank, token) * width;
                float* to = inbox + row(peer, token) * width;
                for (int i = 4 * lane; i < width; i += 128) *(float4*)(to + i) = *(const float4*)(from + i);
            }
        signal(of(peer, ROWS, tile));
    }
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {  // the peer's tokens, and one sum each back
        wait(of(rank, ROWS, tile));
        for (int token = tile * TILE + warp; token < min(tokens, (tile + 1) * TILE); token += WARPS) {
            Choices here = of_token(peer, token, rank);
            if (here.any)
                for (int i = 4 * lane; i < width; i += 128) {
                    float4 came = *(const float4*)(inbox + row(rank, token) * width + i);
                    *(float4*)(sums + row(peer, token) * width + i) = here.worked(came, gain, width, i);
                }
        }
        signal(of(peer, SUMS, tile));
    }
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {  // own tokens: the own experts' sum and the peer's
        wait(of(rank, SUMS, tile));
        for (int token = tile * TILE + warp; token < min(tokens, (tile + 1) * TILE); token += WARPS) {
            Choices here = of_token(rank, token, rank);
            bool there = of_token(rank, token, peer).any;
            for (int i = 4 * lane; i < width; i += 128) {
                float4 own = *(const float4*)(x + row(rank, token) * width + i);
                float4 total = here.worked(own, gain, width, i);
                if (there) {
                    float4 back = *(const float4*)(sums + row(rank, token) * width + i);
                    total.x += back.x, total.y += back.y, total.z += back.z, total.w += back.w;
                }
                *(float4*)(out + row(rank, token) * width + i) = total;
            }
        }
    }
    // END SOLUTION
}
"""
)
exchange_kernel = module.get_function("exchange_kernel")


def dispatch_combine(x, chosen, weight, gain, out):
    """out[r, t]: the sum over choices j of weight[r, t, j] * gain[chosen[r, t, j]] * x[r, t]."""
    sizes = (np.int32(n) for n in (x.shape[1], chosen.shape[2], gain.shape[0], x.shape[2]))
    # BEGIN SOLUTION
    # STARTER: exchange_kernel((BLOCKS, 2), (THREADS,), (x, chosen, weight, gain, out, *sizes))
    inbox, sums = (cupy.empty(x.shape, np.float32) for _ in range(2))  # [rank]: rows that it was sent, sums for it
    signals = cupy.zeros((2, 2, (x.shape[1] + TILE - 1) // TILE), np.uint32)  # [rank, kind, tile]
    exchange_kernel((BLOCKS, 2), (THREADS,), (x, chosen, weight, gain, out, inbox, sums, signals, *sizes))
    # END SOLUTION
