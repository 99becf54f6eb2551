// c = a b for a small k, where most of the time goes into writing c. Products are in float32 from shared memory, in tiles
// of 64 x 64. Strides are in elements and may have any value. Neighbouring threads read a factor along k (A_ALONG,
// B_ALONG) or across it. Contiguous rows of c (ROWS) are written in words of two elements, whatever their address.
// loose.cuh comes before this file.
#define SIDE 64
#define DEPTH 32  // elements of k at a time
#define HIGH 8    // rows per warp
#define PITCH (SIDE + 4)

#if BFLOAT16
__device__ float widened(half16 x) { return __uint_as_float((u32)x << 16); }
#else
__device__ float widened(half16 x)
{
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
}
#endif
__device__ u32 pack(float low, float high)
{
    u32 r;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
// DEPTH x SIDE elements of a factor, with strides `step` along k and `next` across it. All loads are in flight together,
// then all elements are stored as float32.
template <bool ALONG> struct Tile {
    half16 each[DEPTH * SIDE / 256];
    __device__ int p(int i) const { return ALONG ? threadIdx.x % DEPTH : i * (256 / SIDE) + threadIdx.x / SIDE; }
    __device__ int s(int i) const { return ALONG ? i * (256 / DEPTH) + threadIdx.x / DEPTH : threadIdx.x % SIDE; }
    __device__ void load(const half16* from, long long step, long long next, int depth, int side)
    {
#pragma unroll
        for (int i = 0; i < DEPTH * SIDE / 256; ++i)
            each[i] = p(i) < depth && s(i) < side ? __ldg(from + p(i) * step + s(i) * next) : half16(0);
    }
    __device__ void store(float (&to)[DEPTH][PITCH]) const
    {
#pragma unroll
        for (int i = 0; i < DEPTH * SIDE / 256; ++i) to[p(i)][s(i)] = widened(each[i]);
    }
};

extern "C" __global__ void __launch_bounds__(256)
product(half16* __restrict__ c, long long down, long long across, int m, int n, int k,
        const half16* __restrict__ a, long long a_down, long long a_across,
        const half16* __restrict__ b, long long b_down, long long b_across)
{
    __shared__ __align__(16) float of_a[DEPTH][PITCH], of_b[DEPTH][PITCH];
    const u32 wide = ((u32)n + SIDE - 1) / SIDE;
    const int row0 = blockIdx.x / wide * SIDE, column0 = blockIdx.x % wide * SIDE;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float d[HIGH][2] = {};
    for (int first = 0; first < k; first += DEPTH) {
        const int depth = min(DEPTH, k - first);
        if (first) __syncthreads();
        Tile<A_ALONG> left;
        Tile<B_ALONG> right;
        left.load(a + row0 * a_down + first * a_across, a_across, a_down, depth, m - row0);
        right.load(b + first * b_down + column0 * b_across, b_down, b_across, depth, n - column0);
        left.store(of_a);
        right.store(of_b);
        __syncthreads();
#pragma unroll 2
        for (int p = 0; p < depth; ++p) {
            const float2 two = *(const float2*)&of_b[p][2 * lane];
#pragma unroll
            for (int q = 0; q < HIGH / 4; ++q) {
                const float4 four = *(const float4*)&of_a[p][HIGH * warp + 4 * q];
                const float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    d[4 * q + r][0] += each[r] * two.x;
                    d[4 * q + r][1] += each[r] * two.y;
                }
            }
        }
    }
    const int left = min(SIDE, n - column0);
#pragma unroll
    for (int r = 0; r < HIGH; ++r) {
        const int y = row0 + HIGH * warp + r;
        u32 two = pack(d[r][0], d[r][1]);
        if (y >= m) break;
        half16* to = c + y * down + column0 * across;
        int e = 2 * lane;
#if ROWS
        if ((u64)to & 2) {  // a word has this lane's second element and the next lane's first
            const u32 next = __shfl_down_sync(~0u, two, 1);
            if (lane == 0) to[0] = half16(two);
            two = two >> 16 | next << 16, ++e;
        }
        if (e + 1 < left) *(u32*)(to + e) = two;
        else if (e < left) to[e] = half16(two);
#else
        if (e < left) to[e * across] = half16(two);
        if (e + 1 < left) to[(e + 1) * across] = half16(two >> 16);
#endif
    }
}
