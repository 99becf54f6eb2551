"""Lab 02_divergence: rays through glowing layers, one of eight through 256 times as many, in CUDA C++."""

import cupy
import numpy as np

BLOCK = 256
# BEGIN SOLUTION
BLOCKS = 528  # four for each SM of an H200; each takes every 528th tile
TILE = 4 * BLOCK  # rays that a block looks at before it asks whether a batch is full
# END SOLUTION

march_kernel = cupy.RawKernel(
    r"""
constexpr int SHORT = 16, LONG = 4096, BLOCK = 256;
// BEGIN SOLUTION
constexpr int EACH = 8, BATCH = BLOCK * EACH;  // long rays that a thread, and a block, marches at once
constexpr int LOOK = 4, TILE = BLOCK * LOOK;   // rays looked at before the block asks whether a batch is full

__device__ float through(float opacity) { return 1.0f - fabsf(opacity) * (1.0f / 1024); }

// March `count` queued rays, at most N * BLOCK. N independent rays a thread hide the latency of a multiply-add, and
// share what is read of the layers.
template <int N>
__device__ void batch(const float* __restrict__ opacity, float* __restrict__ out, const float4* layers,
                      const int* queue, int count)
{
    float t[N], y[N];
#pragma unroll
    for (int e = 0; e < N; ++e) {
        int place = e * BLOCK + threadIdx.x;
        t[e] = place < count ? through(opacity[queue[place]]) : 0.0f;
        y[e] = 0.0f;
    }
    if (threadIdx.x / 32 * 32 < count) {  // a warp without a ray has nothing to do
#pragma unroll 4
        for (int k = 0; k < LONG / 4; ++k) {
            float4 four = layers[k];
#pragma unroll
            for (int e = 0; e < N; ++e) y[e] = fmaf(y[e], t[e], four.x);
#pragma unroll
            for (int e = 0; e < N; ++e) y[e] = fmaf(y[e], t[e], four.y);
#pragma unroll
            for (int e = 0; e < N; ++e) y[e] = fmaf(y[e], t[e], four.z);
#pragma unroll
            for (int e = 0; e < N; ++e) y[e] = fmaf(y[e], t[e], four.w);
        }
    }
#pragma unroll
    for (int e = 0; e < N; ++e) {
        int place = e * BLOCK + threadIdx.x;
        if (place < count) out[queue[place]] = y[e];
    }
}
// END SOLUTION

extern "C" __global__ void __launch_bounds__(BLOCK)
march_kernel(const float* __restrict__ opacity, const unsigned char* __restrict__ kind, const float* __restrict__ glow,
             float* __restrict__ out, int n)
{
    // BEGIN SOLUTION
    // STARTER: // opacity, kind and out have n elements, glow has LONG. March this thread's rays here.
    __shared__ __align__(16) float layers[LONG];
    __shared__ int queue[BATCH + TILE], waiting;
    for (int k = threadIdx.x; k < LONG; k += BLOCK) layers[k] = glow[k];
    if (threadIdx.x == 0) waiting = 0;
    __syncthreads();
    const float4* fours = reinterpret_cast<const float4*>(layers);

    for (int tile = blockIdx.x * TILE; tile < n; tile += gridDim.x * TILE) {
        float t[LOOK], y[LOOK];
        bool is_long[LOOK];
#pragma unroll
        for (int e = 0; e < LOOK; ++e) {
            int i = tile + e * BLOCK + threadIdx.x;
            t[e] = i < n ? through(opacity[i]) : 0.0f;
            is_long[e] = i < n && kind[i] % 8 == 0;
            y[e] = 0.0f;
        }
        // All rays march the short way: a step more for the long ones costs nothing, they would have waited.
#pragma unroll
        for (int k = 0; k < SHORT; ++k)
#pragma unroll
            for (int e = 0; e < LOOK; ++e) y[e] = fmaf(y[e], t[e], layers[k]);
#pragma unroll
        for (int e = 0; e < LOOK; ++e) {
            int i = tile + e * BLOCK + threadIdx.x;
            if (is_long[e]) queue[atomicAdd(&waiting, 1)] = i;
            else if (i < n) out[i] = y[e];
        }
        __syncthreads();
        int rays = waiting;
        if (rays >= BATCH) {  // only full batches here: what is left waits for company from the next tile
            batch<EACH>(opacity, out, fours, queue + rays - BATCH, BATCH);
            __syncthreads();
            if (threadIdx.x == 0) waiting = rays - BATCH;
        }
        __syncthreads();
    }
    int rays = waiting;
    if (rays > 4 * BLOCK) batch<8>(opacity, out, fours, queue, rays);
    else if (rays > 2 * BLOCK) batch<4>(opacity, out, fours, queue, rays);
    else if (rays > BLOCK) batch<2>(opacity, out, fours, queue, rays);
    else batch<1>(opacity, out, fours, queue, rays);
    // END SOLUTION
}
""",
    "march_kernel",
)


def march(opacity, kind, glow, out):
    """The light of rays. opacity and out are float32 and kind uint8, all of one length; glow has 4096 float32."""
    # BEGIN SOLUTION
    # STARTER: blocks = (out.size + BLOCK - 1) // BLOCK
    blocks = min(BLOCKS, (out.size + TILE - 1) // TILE)
    # END SOLUTION
    march_kernel((blocks,), (BLOCK,), (opacity, kind, glow, out, np.int32(out.size)))
