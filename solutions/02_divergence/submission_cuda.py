"""Lab 02_divergence: rays through glowing layers, one of eight through 256 times as many, in CUDA C++."""

import cupy
import numpy as np

# BEGIN SOLUTION
# STARTER: BLOCK = 128
BLOCK = 384  # 12 warps, each on its own until all tiles are looked at
BLOCKS = 132  # one for each SM of an H200
TILE = 256  # rays that a warp looks at together, eight a lane
EACH = 28  # long rays that a lane marches at once
# Bytes: two lists for every warp, and the layers. These 127 KB are there on an H200; on a GPU with less, begin with
# blocks of 128 threads, three times as many, which need 53 KB each.
SHARED = 4 * (2 * BLOCK // 32 * (32 * EACH + TILE) + 4096)
# END SOLUTION

march_kernel = cupy.RawKernel(
    r"""
// BEGIN SOLUTION
// STARTER: constexpr int SHORT = 16, LONG = 4096, BLOCK = 128;
constexpr int SHORT = 16, LONG = 4096, BLOCK = 384, WARPS = BLOCK / 32;
constexpr int EACH = 28, FULL = 32 * EACH;  // long rays that a lane, and a warp, marches at once
constexpr int FEW = 12;                     // the same in a warp's first batch, so that it need not look for long
constexpr int LOOK = 8, TILE = 32 * LOOK;   // rays that a lane, and a warp, looks at together
constexpr int ROOM = FULL + TILE;           // of a list: a warp looks as long as it is not full
constexpr int STRETCH = 16;                 // groups of four layers that let the same part of a ray through

__device__ float through(float opacity) { return 1.0f - fabsf(opacity) * (1.0f / 1024); }

// What ray i draws the rest of its way from
__device__ unsigned seed(float opacity, int i) { return unsigned(int(opacity * 65536)) + 2654435769u * unsigned(i); }

// What the next stretch lets through: 1 - (32768 - s / 2^17) / 2^24, by the bits of that number
__device__ float onward(unsigned& s)
{
    s = 1664525u * s + 1013904223u;
    return __uint_as_float((s >> 17) + 0x3f7f8000);
}

// Take N rays through layers, those of the groups from `from` up to `to`. A group is one read, shared by the rays; N
// independent multiply-adds hide the latency of one. The very FIRST layer finds darkness.
template <int N, bool FIRST = false>
__device__ void cross(float* y, const float* t, const float4* layers, int from, int to)
{
#pragma unroll 2
    for (int k = from; k < to; ++k) {
        float4 four = layers[k];
#pragma unroll
        for (int e = 0; e < N; ++e) y[e] = FIRST ? four.x : fmaf(y[e], t[e], four.x);
#pragma unroll
        for (int e = 0; e < N; ++e) y[e] = fmaf(y[e], t[e], four.y);
#pragma unroll
        for (int e = 0; e < N; ++e) y[e] = fmaf(y[e], t[e], four.z);
#pragma unroll
        for (int e = 0; e < N; ++e) y[e] = fmaf(y[e], t[e], four.w);
    }
}

// Take N rays through all stretches; before each comes what is to be done `between` them
template <int N, typename Between>
__device__ void cross_stretches(float* y, const float* t, unsigned* s, const float4* layers, Between between)
{
    between();
    cross<N>(y, t, layers, 0, STRETCH);
#pragma unroll 1
    for (int k = STRETCH; k < LONG / 4; k += STRETCH) {
        between();
        // New variables each time: if the loop carried them on, the assembler would no longer keep their registers in
        // other banks than those of y, and a third of the time would go to reading registers.
        float next[N];
#pragma unroll
        for (int e = 0; e < N; ++e) next[e] = onward(s[e]);
        cross<N>(y, next, layers, k, k + STRETCH);
    }
}

// What a warp knows. Its lanes look at the tiles `tile`, `tile + stride` and so on below `whole`: they finish the short
// rays and list the long ones.
struct Warp {
    const float* opacity;
    const unsigned* kind;  // four rays a word
    float* out;
    const float4* layers;
    int lane, tile, stride, whole;
    int* list;     // long rays that wait
    int* waiting;  // how many, for all lanes to add to
    int rays;      // the same, as of the last look
    float4 a, b;   // the lane's rays of the next tile, asked for one look ahead: four neighbours, and four 128 on
    unsigned p, q;

    __device__ void fetch()
    {
        if (tile >= whole) return;
        const float4* rays = reinterpret_cast<const float4*>(opacity + tile) + lane;
        const unsigned* kinds = kind + tile / 4 + lane;
        a = rays[0], b = rays[32], p = kinds[0], q = kinds[32];
    }

    // The highest bit of each byte says whether this kind is no multiple of 8; 7 + 0x7f fits into a byte
    __device__ static unsigned others(unsigned kinds) { return (kinds & 0x07070707) + 0x7f7f7f7f & 0x80808080; }

    __device__ void look()
    {
        float t[LOOK] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, y[LOOK];
        unsigned kinds[2] = {p, q};
        int first = tile + 4 * lane;
        // Room for all long rays of this lane
        int* place = list + atomicAdd(waiting, LOOK - __popc(others(p) | others(q) >> 1));
        // Long rays march and are stored like the short ones: that costs less than a branch. They are stored again.
#pragma unroll
        for (int e = 0; e < LOOK; ++e) t[e] = through(t[e]);
        cross<LOOK, true>(y, t, layers, 0, 1);
#pragma unroll
        for (int k = 1; k < SHORT / 4; ++k) cross<LOOK>(y, t, layers, k, k + 1);
        float4* fours = reinterpret_cast<float4*>(out + first);
        fours[0] = make_float4(y[0], y[1], y[2], y[3]);
        fours[32] = make_float4(y[4], y[5], y[6], y[7]);
#pragma unroll
        for (int e = 0; e < LOOK; ++e)
            if (!(kinds[e / 4] & 7u << e % 4 * 8)) *place++ = first + e / 4 * 128 + e % 4;
        count();
        tile += stride;
        fetch();
    }

    // The last rays, which are no whole tile
    __device__ void look_at_rest(int n)
    {
        for (int i = whole + lane; i < n; i += 32) {
            float t = through(opacity[i]), y = 0.0f;
            cross<1>(&y, &t, layers, 0, SHORT / 4);
            out[i] = y;
            if (reinterpret_cast<const unsigned char*>(kind)[i] % 8 == 0) list[atomicAdd(waiting, 1)] = i;
        }
        count();
    }

    __device__ void count()
    {
        __syncwarp();
        rays = *waiting;
        __syncwarp();
    }

    // March the rays batch[0], batch[32] and so on, N of them, and look at tiles in between: the loads of a look are
    // under way while the march goes on.
    template <int N>
    __device__ void march(const int* batch)
    {
        float t[N], y[N];
        unsigned s[N];
#pragma unroll
        for (int e = 0; e < N; ++e) {
            float ray = opacity[batch[32 * e]];
            t[e] = through(ray), s[e] = seed(ray, batch[32 * e]), y[e] = 0.0f;
        }
        cross_stretches<N>(y, t, s, layers, [this] {
            if (tile < whole && rays < FULL) look();
        });
#pragma unroll
        for (int e = 0; e < N; ++e) out[batch[32 * e]] = y[e];
    }
};

// What the warps of a block have left when all tiles are looked at
struct Rest {
    int* list[WARPS];
    int waiting[WARPS];

    __device__ int ray(int i) const
    {
        int number = 0;
        for (; i >= waiting[number]; ++number) i -= waiting[number];
        return list[number][i];
    }

    // March N of them a thread, from ray `first` of `all` on. Returns how many that are for the block.
    template <int N>
    __device__ int march(const float* opacity, float* out, const float4* layers, int first, int all) const
    {
        int place[N];
        float t[N], y[N];
        unsigned s[N];
#pragma unroll
        for (int e = 0; e < N; ++e) {
            int i = first + e * BLOCK + threadIdx.x;
            place[e] = i < all ? ray(i) : -1;
            // The choice is of the opacity, not of t: then the assembler finds t and y registers in different banks.
            float ray = i < all ? opacity[place[e]] : 0.0f;
            t[e] = through(ray), s[e] = seed(ray, place[e]), y[e] = 0.0f;
        }
        cross_stretches<N>(y, t, s, layers, [] {});
#pragma unroll
        for (int e = 0; e < N; ++e)
            if (place[e] >= 0) out[place[e]] = y[e];
        return N * BLOCK;
    }
};
// END SOLUTION

extern "C" __global__ void __launch_bounds__(BLOCK)
march_kernel(const float* __restrict__ opacity, const unsigned char* __restrict__ kind, const float* __restrict__ glow,
             float* __restrict__ out, int n)
{
    // BEGIN SOLUTION
    // STARTER: // opacity, kind and out have n elements, glow has LONG. March this thread's rays here.
    extern __shared__ __align__(16) int lists[];
    // Where they begin is known to this launch alone: a constant address would be worked out anew in every loop
    float* layers = reinterpret_cast<float*>(lists + 2 * ROOM * (blockDim.x / 32));
    __shared__ Rest rest;
    const float4* fours = reinterpret_cast<const float4*>(layers);
    int number = threadIdx.x / 32, lane = threadIdx.x % 32;
    int* list = lists + 2 * ROOM * number;
    int* other = list + ROOM;
    Warp warp{opacity, reinterpret_cast<const unsigned*>(kind), out, fours, lane};
    warp.tile = (blockIdx.x + gridDim.x * number) * TILE, warp.stride = gridDim.x * WARPS * TILE;
    warp.whole = n / TILE * TILE;
    warp.list = list, warp.waiting = rest.waiting + number;
    warp.fetch();
    for (int k = threadIdx.x; k < LONG; k += BLOCK) layers[k] = glow[k];
    if (threadIdx.x < WARPS) rest.waiting[threadIdx.x] = 0;
    __syncthreads();
    if (warp.tile == 0) warp.look_at_rest(n);
    for (int full = 32 * FEW;; full = FULL) {
        while (warp.tile < warp.whole && warp.rays < full) warp.look();
        if (warp.rays < full) break;
        // What is more waits in the other list, and so does what is found during the march
        for (int i = full + lane; i < warp.rays; i += 32) other[i - full] = warp.list[i];
        warp.rays -= full;
        if (lane == 0) *warp.waiting = warp.rays;
        warp.list = other, other = list, list = warp.list;
        __syncwarp();
        if (full == FULL) warp.march<EACH>(other + lane);
        else warp.march<FEW>(other + lane);
        __syncwarp();
    }
    // What is less than a batch is shared out anew among all warps of the block
    if (lane == 0) rest.list[number] = warp.list;
    __syncthreads();
    int all = 0;
    for (int w = 0; w < WARPS; ++w) all += rest.waiting[w];
    // Arrays in registers have a constant length, so there are a few copies.
    for (int done = 0; done + 32 * number < all;) {
        int each = (all - done - 32 * number + BLOCK - 1) / BLOCK;  // rays a thread of this warp
        if (each > 6) done += rest.march<22>(opacity, out, fours, done, all);
        else if (each > 2) done += rest.march<6>(opacity, out, fours, done, all);
        else if (each == 2) done += rest.march<2>(opacity, out, fours, done, all);
        else done += rest.march<1>(opacity, out, fours, done, all);
    }
    // END SOLUTION
}
""",
    "march_kernel",
)
# BEGIN SOLUTION
march_kernel.max_dynamic_shared_size_bytes = SHARED
# END SOLUTION


def march(opacity, kind, glow, out):
    """The light of rays. opacity and out are float32 and kind uint8, all of one length; glow has 4096 float32."""
    # BEGIN SOLUTION
    # STARTER: blocks = (out.size + BLOCK - 1) // BLOCK
    # STARTER: march_kernel((blocks,), (BLOCK,), (opacity, kind, glow, out, np.int32(out.size)))
    tiles = 8 if out.size >= 7 * BLOCK * 8 else 2  # for every warp
    blocks = min(BLOCKS, (out.size + tiles * BLOCK * 8 - 1) // (tiles * BLOCK * 8))
    march_kernel((blocks,), (BLOCK,), (opacity, kind, glow, out, np.int32(out.size)), shared_mem=SHARED)
    # END SOLUTION
