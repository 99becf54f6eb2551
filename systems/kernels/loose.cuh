// Reading lines of 16-bit elements that begin at any address.
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short half16;
struct Lines { const half16 *from, *end; u64 pitch; };  // first element, what lies behind, from line to line

// Elements of a line from any address, zeros behind them: both sides of a 16-byte boundary, shifted together.
__device__ uint4 read_loose(const half16* from, const Lines& of, int elements)
{
    uint4 r = make_uint4(0, 0, 0, 0);
    u32 shift = (u64)from & 15;
    const uint4* low = (const uint4*)((u64)from - shift);
    if (elements == 8 && (const half16*)low >= of.from && (const half16*)(low + 2) <= of.end) {
        uint4 x = __ldg(low), y = shift ? __ldg(low + 1) : x;
        u32 w[8] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
#pragma unroll
        for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
        for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
        u32 bits = shift % 4 * 8;
        r = make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                       __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
    } else {
        u32 w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            u32 first = 2 * i < elements ? from[2 * i] : 0, second = 2 * i + 1 < elements ? from[2 * i + 1] : 0;
            w[i] = first | second << 16;
        }
        r = make_uint4(w[0], w[1], w[2], w[3]);
    }
    return r;
}
