// c is the sum of `parts` matrices of float32 that lie behind each other, `pitch` from row to row, which is a multiple
// of 4: always in the same order, four columns a thread. Strides of c are in elements. It follows loose.cuh.
__device__ u32 pack(float low, float high)
{
    u32 r;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

extern "C" __global__ void add_parts(const float* sums, u64 pitch, int parts, half16* c, long long down,
                                     long long across, int m, int n)
{
    const u64 plane = m * pitch;
    const int x = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (x >= n) return;
    for (int y = blockIdx.y; y < m; y += gridDim.y) {
        const float* from = sums + y * pitch + x;
        float4 sum = *(const float4*)from;
#pragma unroll 4
        for (int part = 1; part < parts; ++part) {
            const float4 more = *(const float4*)(from + part * plane);
            sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        }
        half16* to = c + y * down + x * across;
        const uint2 four = make_uint2(pack(sum.x, sum.y), pack(sum.z, sum.w));
        if (across == 1 && x + 4 <= n && (u64)to % 8 == 0) {
            *(uint2*)to = four;
            continue;
        }
        const u32 two[2] = {four.x, four.y};
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (x + e < n) to[e * across] = half16(two[e / 2] >> 16 * (e % 2));
    }
}
