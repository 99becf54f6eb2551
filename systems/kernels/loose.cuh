// Reading lines of 16-bit elements that begin at any address.
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short half16;
struct Lines { const half16 *from, *end; u64 pitch; };  // first element, what lies behind, from line to line

// Eight elements from byte `shift` of two times 16 on, zeros behind the first `elements`.
__device__ uint4 shifted(uint4 x, uint4 y, u32 shift, int elements)
{
    u32 w[8] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w}, r[4];
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        r[i] = __funnelshift_r(w[i], w[i + 1], shift % 4 * 8);
        if (elements <= 2 * i) r[i] = 0;
        else if (elements == 2 * i + 1) r[i] &= 0xffff;
    }
    return make_uint4(r[0], r[1], r[2], r[3]);
}
// Elements of a line from any address, zeros behind them.
__device__ uint4 read_loose(const half16* from, const Lines& of, int elements)
{
    const u32 shift = (u64)from & 15;
    const uint4* low = (const uint4*)((u64)from - shift);
    if ((const half16*)low >= of.from && (const half16*)(low + 2) <= of.end) {
        const uint4 x = __ldg(low);
        return shifted(x, shift ? __ldg(low + 1) : x, shift, elements);
    }
    u32 w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const u32 first = 2 * i < elements ? from[2 * i] : 0, second = 2 * i + 1 < elements ? from[2 * i + 1] : 0;
        w[i] = first | second << 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}
