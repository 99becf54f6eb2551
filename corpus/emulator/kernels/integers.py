"""Integer arithmetic and bit operations of every width; each result is one row of `out`."""

import cupy
from numba import cuda

module = cupy.RawModule(
    code=r"""
#define PUT(expression) out[row++ * n + i] = (expression)

extern "C" __global__ void words(const unsigned* a, const unsigned* b, unsigned* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    unsigned x = a[i], y = b[i], s = y % 40;
    int p = x, q = y;
    PUT(__popc(x));
    PUT(__clz(x));
    PUT(__brev(x));
    PUT(__ffs(x));
    PUT(__byte_perm(x, y, y >> 16));
    PUT(__funnelshift_l(x, y, s));
    PUT(__funnelshift_r(x, y, s));
    PUT(__funnelshift_lc(x, y, s));
    PUT(__funnelshift_rc(x, y, s));
    PUT(__mul24(p, q));
    PUT(__umul24(x, y));
    PUT(__mulhi(p, q));
    PUT(__umulhi(x, y));
    PUT(__hadd(p, q));
    PUT(__uhadd(x, y));
    PUT(__rhadd(p, q));
    PUT(__sad(p, q, x));
    PUT(__usad(x, y, x));
    PUT(__dp4a(p, q, 5));
    PUT(__dp4a(x, y, 5u));
    PUT(__dp2a_lo(p, q, -9));
    PUT(__dp2a_hi(x, y, 9u));
    PUT(x / (y | 1));
    PUT(x % (y | 1));
    PUT(p / (q | 1));
    PUT(p % (q | 1));
    PUT(x / 7);
    PUT(p % 10);
    PUT(min(p, q));
    PUT(max(x, y));
    PUT(abs(p));
    PUT((x & y) ^ ~(x | (y << 3)));
    PUT(p >> (s % 32));
    PUT(x >> (s % 32) | x << (31 - s % 32));
    PUT((x << 11) >> 23);
    PUT((p << 11) >> 23);
}

extern "C" __global__ void packed(const unsigned* a, const unsigned* b, unsigned* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    unsigned x = a[i], y = b[i];
    PUT(__vadd4(x, y));
    PUT(__vmaxs2(x, y));
    PUT(__vcmpgtu4(x, y));
}

extern "C" __global__ void packed_differences(const unsigned* a, const unsigned* b, unsigned* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    unsigned x = a[i], y = b[i];
    PUT(__vabsdiffu4(x, y));
    PUT(__vsadu4(x, y));
}

extern "C" __global__ void inline_forms(const unsigned* a, const unsigned* b, unsigned* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    unsigned x = a[i], y = b[i], r, t;
#define ASM(text, ...) asm(text : "=r"(r) : __VA_ARGS__); PUT(r)
    ASM("shl.b32 %0, %1, %2;", "r"(x), "r"(y % 70));
    ASM("shr.u32 %0, %1, %2;", "r"(x), "r"(y % 70));
    ASM("shr.s32 %0, %1, %2;", "r"(x), "r"(y % 70));
    ASM("bfe.u32 %0, %1, %2, %3;", "r"(x), "r"(y % 37), "r"((y >> 8) % 37));
    ASM("bfe.s32 %0, %1, %2, %3;", "r"(x), "r"(y % 37), "r"((y >> 8) % 37));
    ASM("bfi.b32 %0, %1, %2, %3, %4;", "r"(x), "r"(y), "r"(y % 37), "r"((y >> 8) % 37));
    ASM("bfind.u32 %0, %1;", "r"(x >> (y & 31)));
    ASM("bfind.s32 %0, %1;", "r"(x));
    ASM("bfind.shiftamt.u32 %0, %1;", "r"(x >> (y & 31)));
    ASM("prmt.b32 %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x ^ y));
    ASM("prmt.b32.f4e %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x & 3));
    ASM("prmt.b32.b4e %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x & 3));
    ASM("prmt.b32.rc8 %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x & 3));
    ASM("prmt.b32.ecl %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x & 3));
    ASM("prmt.b32.ecr %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x & 3));
    ASM("prmt.b32.rc16 %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x & 3));
    ASM("lop3.b32 %0, %1, %2, %3, 0x6a;", "r"(x), "r"(y), "r"(x + y));
    ASM("add.sat.s32 %0, %1, %2;", "r"(x), "r"(y));
    ASM("sub.sat.s32 %0, %1, %2;", "r"(x), "r"(y));
    ASM("mad.hi.s32 %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x));
    ASM("mad24.lo.u32 %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x));
    ASM("mul24.hi.s32 %0, %1, %2;", "r"(x), "r"(y));
    ASM("sad.s32 %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x));
    ASM("cnot.b32 %0, %1;", "r"(x & 1));
    ASM("slct.s32.s32 %0, %1, %2, %3;", "r"(x), "r"(y), "r"(x ^ y));
    ASM("set.lt.u32.s32 %0, %1, %2;", "r"(x), "r"(y));
    ASM("div.s32 %0, %1, %2;", "r"(x), "r"(y & 3 ? y : 0xffffffffu));
    ASM("rem.u32 %0, %1, %2;", "r"(x), "r"(y | 1));
    asm("{ add.cc.u32 %0, %2, %3; addc.u32 %1, %3, %2; }" : "=r"(r), "=r"(t) : "r"(x), "r"(y));
    PUT(r);
    PUT(t);
    asm("{ sub.cc.u32 %0, %2, %3; subc.u32 %1, %3, %2; }" : "=r"(r), "=r"(t) : "r"(x), "r"(y));
    PUT(r);
    PUT(t);
    asm("{ mad.lo.cc.u32 %0, %2, %3, %2; madc.hi.u32 %1, %2, %3, 0; }" : "=r"(r), "=r"(t) : "r"(x), "r"(y));
    PUT(r);
    PUT(t);
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; add.u16 l, l, h; mul.lo.u16 h, l, h; mov.b32 %0, {h, l}; }"
        : "=r"(r) : "r"(x));
    PUT(r);
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; min.s16 l, l, h; shr.s16 h, h, 3; mov.b32 %0, {h, l}; }"
        : "=r"(r) : "r"(x));
    PUT(r);
}

extern "C" __global__ void long_words(const unsigned long long* a, const unsigned long long* b, unsigned long long* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    unsigned long long x = a[i], y = b[i], z = y >> (x & 63) | 1;
    long long p = x, q = z;
    PUT(x + y);
    PUT(x * y);
    PUT(__umul64hi(x, y));
    PUT(__mul64hi(p, (long long)y));
    PUT(x / z);
    PUT(x % z);
    PUT(p / q);
    PUT(p % q);
    PUT(x / 1000);
    PUT(__popcll(x));
    PUT(__clzll(x));
    PUT(__brevll(x));
    PUT(__ffsll(x));
    PUT(x << (y & 63));
    PUT(p >> (y & 63));
    PUT(min(p, q));
    PUT(max(x, y));
    PUT((x & ~y) | (y ^ 0x123456789abcdefull));
    PUT(p < q ? x : y);
    PUT((unsigned long long)(unsigned)x * (unsigned)y + x);
    PUT((long long)(int)x * (int)y);
    PUT(llabs(p));
}

extern "C" __global__ void narrow(const signed char* a, const unsigned short* b, int* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    signed char x = a[i];
    unsigned short y = b[i];
    PUT((signed char)(x * 3));
    PUT((unsigned char)(x + y));
    PUT((short)(y * y));
    PUT((unsigned short)(x << 9));
    PUT(x / 3 + y % 11);
    PUT((signed char)y);
    PUT(x >> 2);
    PUT((unsigned char)x >> 2);
}
"""
)


def words(a, b, out):
    module.get_function("words")((1,), (a.size,), (a, b, out))


def packed(a, b, out):
    module.get_function("packed")((1,), (a.size,), (a, b, out))


def packed_differences(a, b, out):
    module.get_function("packed_differences")((1,), (a.size,), (a, b, out))


def inline_forms(a, b, out):
    module.get_function("inline_forms")((1,), (a.size,), (a, b, out))


def long_words(a, b, out):
    module.get_function("long_words")((1,), (a.size,), (a, b, out))


def narrow(a, b, out):
    module.get_function("narrow")((1,), (a.size,), (a, b, out))


@cuda.jit
def numba_kernel(a, b, out):
    i = cuda.grid(1)
    x, y = a[i], b[i]
    d = y | 1
    out[0, i] = x // d  # rounds down, unlike C
    out[1, i] = x % d
    out[2, i] = x * y
    out[3, i] = x << (y & 15)
    out[4, i] = x >> (y & 31)
    out[5, i] = cuda.popc(x)
    out[6, i] = cuda.clz(x)
    out[7, i] = cuda.brev(x)
    out[8, i] = cuda.ffs(x)
    out[9, i] = cuda.selp(x > y, x, y)
    out[10, i] = abs(x)
    out[11, i] = x**3


def numba(a, b, out):
    numba_kernel[1, a.size](a, b, out)
