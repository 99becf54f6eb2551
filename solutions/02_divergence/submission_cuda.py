"""Lab 02_divergence: rays through glowing layers, one of eight through 256 times as many, in CUDA C++."""

import cupy
import numpy as np

BLOCK = 128
# BEGIN SOLUTION
BLOCKS = 528  # four for each SM of an H200; each takes every 528th tile
TILE = 8 * BLOCK  # rays that a block looks at before it asks whether a batch is full
# END SOLUTION

march_kernel = cupy.RawKernel(
    r"""
constexpr int SHORT = 16, LONG = 4096, BLOCK = 128;
// BEGIN SOLUTION
constexpr int EACH = 20, BATCH = BLOCK * EACH;  // long rays that a thread, and a block, marches at once
constexpr int LOOK = 8, TILE = BLOCK * LOOK;    // rays looked at before the block asks whether a batch is full
constexpr int FIRST = 12 * BLOCK;               // long rays of the first batch, in every other block of an SM

struct Ray {
    int place;
    float opacity;  // kept with the place: to read it from memory again would cost a sector a ray
};

// A thread looks at groups of four neighbours, which are one access each: its ray e is this far from its first.
__device__ constexpr int away(int e) { return e / 4 * 4 * BLOCK + e % 4; }

__device__ float through(float opacity) { return 1.0f - fabsf(opacity) * (1.0f / 1024); }

// Take N rays through some layers, four at a time: N independent multiply-adds hide the latency of one, and share what
// is read of the layers.
template <int N, int LAYERS>
__device__ void cross(float* y, const float* t, const float4* layers)
{
#pragma unroll 4
    for (int k = 0; k < LAYERS / 4; ++k) {
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

// Look at this thread's rays of a tile, of which i is the first: finish the short ones, queue the long ones. A whole
// tile needs no checks. The loads come first and the work after them, so that all are under way at the same time.
template <bool WHOLE>
__device__ void look(const float* __restrict__ opacity, const unsigned char* __restrict__ kind,
                     float* __restrict__ out, const float4* layers, Ray* queue, int* waiting, int i, int n)
{
    float opacities[LOOK], t[LOOK], y[LOOK];
    int kinds[LOOK], mine = 0;
    if (WHOLE) {
#pragma unroll
        for (int e = 0; e < LOOK; e += 4) {
            float4 four = *reinterpret_cast<const float4*>(opacity + i + away(e));
            uchar4 sorts = *reinterpret_cast<const uchar4*>(kind + i + away(e));
            opacities[e] = four.x, opacities[e + 1] = four.y, opacities[e + 2] = four.z, opacities[e + 3] = four.w;
            kinds[e] = sorts.x, kinds[e + 1] = sorts.y, kinds[e + 2] = sorts.z, kinds[e + 3] = sorts.w;
        }
    } else {
#pragma unroll
        for (int e = 0; e < LOOK; ++e) {
            bool here = i + away(e) < n;
            opacities[e] = here ? opacity[i + away(e)] : 0.0f;
            kinds[e] = here ? kind[i + away(e)] : 1;
        }
    }
#pragma unroll
    for (int e = 0; e < LOOK; ++e) {
        t[e] = through(opacities[e]);
        y[e] = 0.0f;
        mine += kinds[e] % 8 == 0;
    }
    Ray* place = queue + atomicAdd(waiting, mine);  // room for all long rays of this thread
    // Long rays march and are stored like the short ones: that costs less than a branch. They are stored again later.
    cross<LOOK, SHORT>(y, t, layers);
#pragma unroll
    for (int e = 0; e < LOOK; ++e) {
        if (WHOLE && e % 4 == 0)
            *reinterpret_cast<float4*>(out + i + away(e)) = make_float4(y[e], y[e + 1], y[e + 2], y[e + 3]);
        if (!WHOLE && i + away(e) < n) out[i + away(e)] = y[e];
        if (kinds[e] % 8 == 0) *place++ = {i + away(e), opacities[e]};
    }
}

// March the rays queue[0], queue[BLOCK] and so on below `count`: `each` rays a thread of this warp, at most N. Arrays
// in registers have a constant length, so there are copies for 20, 16, ... rays, and the smallest is taken.
template <int N>
__device__ void batch(float* __restrict__ out, const float4* layers, const Ray* queue, int count, int each)
{
    constexpr int LESS = N - (N > 8 ? 4 : N > 2 ? 2 : 1);
    if constexpr (LESS > 0) {
        if (each <= LESS) return batch<LESS>(out, layers, queue, count, each);
    }
    if (each <= 0) return;
    float t[N], y[N];
#pragma unroll
    for (int e = 0; e < N; ++e) {
        // The choice is of the opacity, not of t: then the assembler finds t and y registers in different banks.
        t[e] = through(e * BLOCK < count ? queue[e * BLOCK].opacity : 0.0f);
        y[e] = 0.0f;
    }
    cross<N, LONG>(y, t, layers);
#pragma unroll
    for (int e = 0; e < N; ++e)
        if (e * BLOCK < count) out[queue[e * BLOCK].place] = y[e];
}
// END SOLUTION

extern "C" __global__ void __launch_bounds__(BLOCK)
march_kernel(const float* __restrict__ opacity, const unsigned char* __restrict__ kind, const float* __restrict__ glow,
             float* __restrict__ out, int n)
{
    // BEGIN SOLUTION
    // STARTER: // opacity, kind and out have n elements, glow has LONG. March this thread's rays here.
    __shared__ __align__(16) float layers[LONG];
    __shared__ Ray queue[BATCH + TILE];
    __shared__ int waiting;
    for (int k = threadIdx.x; k < LONG; k += BLOCK) layers[k] = glow[k];
    if (threadIdx.x == 0) waiting = 0;
    __syncthreads();
    const float4* fours = reinterpret_cast<const float4*>(layers);
    // Two of the four blocks of an SM begin with a small batch. So they go back to looking at another time than the
    // others, and while one waits for memory, others march.
    int full = blockIdx.x * 4 / gridDim.x % 2 ? FIRST : BATCH;
    int warp = threadIdx.x / 32 * 32;  // the number of its first thread
    int rays = 0;
    for (int tile = blockIdx.x * TILE; tile < n || rays > 0;) {
        for (; tile < n && rays < full; tile += gridDim.x * TILE) {
            int i = tile + 4 * threadIdx.x;
            if (tile + TILE <= n) look<true>(opacity, kind, out, fours, queue, &waiting, i, n);
            else look<false>(opacity, kind, out, fours, queue, &waiting, i, n);
            __syncthreads();
            rays = waiting;
            __syncthreads();
        }
        int now = min(rays, full);  // only the last batch may be smaller: what is left waits for company
        rays -= now;
        int each = (now - warp + BLOCK - 1) / BLOCK;  // rays a thread of this warp
        batch<EACH>(out, fours, queue + rays + threadIdx.x, now - threadIdx.x, each);
        __syncthreads();
        if (threadIdx.x == 0) waiting = rays;
        full = BATCH;
        __syncthreads();
    }
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
