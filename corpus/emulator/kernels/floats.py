"""Floating-point arithmetic that is defined to the last bit, and conversions, on ordinary and on special values."""

import math

import cupy
from numba import cuda

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define PUT(expression) out[row++ * n + i] = (expression)

extern "C" __global__ void singles(const float* a, const float* b, const float* c, float* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    float x = a[i], y = b[i], z = c[i];
    PUT(__fadd_rn(x, y)); PUT(__fadd_rz(x, y)); PUT(__fadd_ru(x, y)); PUT(__fadd_rd(x, y));
    PUT(__fsub_rn(x, y)); PUT(__fsub_rz(x, y));
    PUT(__fmul_rn(x, y)); PUT(__fmul_rz(x, y)); PUT(__fmul_ru(x, y)); PUT(__fmul_rd(x, y));
    PUT(__fmaf_rn(x, y, z)); PUT(__fmaf_rz(x, y, z)); PUT(__fmaf_ru(x, y, z)); PUT(__fmaf_rd(x, y, z));
    PUT(__fdiv_rn(x, y)); PUT(__fdiv_rz(x, y)); PUT(__fdiv_ru(x, y)); PUT(__fdiv_rd(x, y));
    PUT(__frcp_rn(x)); PUT(__frcp_rz(x)); PUT(__frcp_ru(x)); PUT(__frcp_rd(x));
    PUT(__fsqrt_rn(x)); PUT(__fsqrt_rz(x)); PUT(__fsqrt_ru(x)); PUT(__fsqrt_rd(x));
    PUT(fminf(x, y)); PUT(fmaxf(x, y)); PUT(fmaxf(fminf(x, y), z));
    PUT(floorf(x)); PUT(ceilf(x)); PUT(truncf(x)); PUT(rintf(x)); PUT(roundf(x));
    PUT(fabsf(x)); PUT(-x); PUT(copysignf(x, y)); PUT(__saturatef(x));
    PUT(x * y + z); PUT(x - y * z); PUT(x < y ? z : x); PUT(x * 0.5f);
    PUT(fmodf(x, y)); PUT(remainderf(x, y)); PUT(ldexpf(x, (int)y % 20)); PUT(isnan(x) ? 1.f : isinf(x) ? 2.f : 3.f);
    PUT((float)(x <= y) + 2 * (float)(x != y) + 4 * (float)!(x >= z) + 8 * (float)(isnan(y) || isnan(z)));
}

extern "C" __global__ void doubles(const double* a, const double* b, const double* c, double* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    double x = a[i], y = b[i], z = c[i];
    PUT(__dadd_rn(x, y)); PUT(__dmul_rn(x, y)); PUT(__fma_rn(x, y, z)); PUT(__ddiv_rn(x, y)); PUT(__drcp_rn(x));
    PUT(__dsqrt_rn(x)); PUT(x - y);
    PUT(fmin(x, y)); PUT(fmax(x, y)); PUT(floor(x)); PUT(ceil(x)); PUT(trunc(x)); PUT(rint(x));
    PUT(fabs(x)); PUT(copysign(x, y)); PUT(x - y * z); PUT(x < y ? z : x);
    PUT((double)(float)x); PUT((double)__double2float_rz(x)); PUT((double)__double2float_ru(x));
}

extern "C" __global__ void doubles_directed(const double* a, const double* b, const double* c, double* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    double x = a[i], y = b[i], z = c[i];
    PUT(__dadd_rz(x, y)); PUT(__dadd_ru(x, y)); PUT(__dadd_rd(x, y));
    PUT(__dmul_rz(x, y)); PUT(__dmul_ru(x, y)); PUT(__dmul_rd(x, y));
    PUT(__fma_rz(x, y, z)); PUT(__fma_ru(x, y, z)); PUT(__fma_rd(x, y, z));
    PUT(__ddiv_rz(x, y)); PUT(__drcp_ru(x)); PUT(__dsqrt_rd(x));
    PUT(__ull2double_rz(__double_as_longlong(x))); PUT(__ll2double_ru(__double_as_longlong(y)));
}

extern "C" __global__ void to_integers(const float* a, const double* b, long long* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    float x = a[i];
    double y = b[i];
    PUT(__float2int_rn(x)); PUT(__float2int_rz(x)); PUT(__float2int_ru(x)); PUT(__float2int_rd(x));
    PUT(__float2uint_rn(x)); PUT(__float2uint_rz(x)); PUT(__float2ll_rn(x)); PUT(__float2ull_rz(x));
    PUT(__double2int_rn(y)); PUT(__double2int_rz(y)); PUT(__double2uint_ru(y)); PUT(__double2ll_rd(y));
    PUT(__double2ull_rn(y)); PUT((short)x); PUT((unsigned char)x); PUT((signed char)y); PUT((unsigned short)y);
    PUT(__float_as_int(x)); PUT(__double2hiint(y)); PUT(__double2loint(y)); PUT(lrintf(x));
}

extern "C" __global__ void from_integers(const int* a, const long long* b, float* out, double* wide)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    int x = a[i];
    long long y = b[i];
    PUT(__int2float_rn(x)); PUT(__int2float_rz(x)); PUT(__int2float_ru(x)); PUT(__int2float_rd(x));
    PUT(__uint2float_rn(x)); PUT(__ll2float_rn(y)); PUT(__ll2float_rz(y)); PUT(__ull2float_rn(y));
    PUT((float)(short)x); PUT((float)(unsigned char)x); PUT(__int_as_float(x));
    wide[i] = x; wide[i + n] = __ll2double_rn(y); wide[i + 2 * n] = __ull2double_rn(y);
    wide[i + 3 * n] = (unsigned)x; wide[i + 4 * n] = __longlong_as_double(y);
}

extern "C" __global__ void halves(const __half* a, const __half* b, const __half* c, __half* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    __half x = a[i], y = b[i], z = c[i];
    PUT(__hadd(x, y)); PUT(__hsub(x, y)); PUT(__hmul(x, y)); PUT(__hfma(x, y, z)); PUT(__hfma_relu(x, y, z));
    PUT(__hadd_sat(x, y)); PUT(__hmul_sat(x, y)); PUT(__hneg(x)); PUT(__habs(x));
    PUT(__hmin(x, y)); PUT(__hmax(x, y)); PUT(__hmin_nan(x, y)); PUT(__hmax_nan(x, y));
    PUT(__hlt(x, y) ? x : z); PUT(__hequ(x, y) ? x : z); PUT(__hge(x, y) ? y : z); PUT(__hisnan(x) ? y : z);
    PUT(hfloor(x)); PUT(hceil(x)); PUT(hrint(x)); PUT(htrunc(x));
    PUT(__float2half_rn(__half2float(x) * __half2float(y)));
    PUT(__float2half_rz(__half2float(x) / 3.f)); PUT(__float2half_ru(__half2float(x) / 3.f));
    PUT(__float2half_rd(__half2float(x) / 3.f)); PUT(__double2half((double)__half2float(x) * 1.1));
    PUT(__int2half_rn(__half2int_rn(x))); PUT(__ushort2half_rz(__half2ushort_rz(x)));
    PUT(__short2half_ru(__half2short_rd(y))); PUT(__ll2half_rn(__half2ll_rn(z)));
    PUT(__uint2half_rn(__half2uint_ru(x)));
}

extern "C" __global__ void half_pairs(const __half2* a, const __half2* b, const __half2* c, __half2* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    __half2 x = a[i], y = b[i], z = c[i];
    PUT(__hadd2(x, y)); PUT(__hsub2(x, y)); PUT(__hmul2(x, y)); PUT(__hfma2(x, y, z)); PUT(__hfma2_relu(x, y, z));
    PUT(__hneg2(x)); PUT(__habs2(x)); PUT(__hmin2(x, y)); PUT(__hmax2(x, y)); PUT(__hadd2_sat(x, y));
    PUT(__hlt2(x, y)); PUT(__hgeu2(x, y)); PUT(__hne2(x, y)); PUT(__lowhigh2highlow(x)); PUT(__highs2half2(x, y));
    PUT(__floats2half2_rn(__low2float(x) * 3.f, __high2float(y) + 1.f)); PUT(__hbgt2(x, y) ? x : z);
}

extern "C" __global__ void bfloats(const __nv_bfloat16* a, const __nv_bfloat16* b, const __nv_bfloat16* c,
                                   __nv_bfloat16* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    __nv_bfloat16 x = a[i], y = b[i], z = c[i];
    PUT(__hadd(x, y)); PUT(__hsub(x, y)); PUT(__hmul(x, y)); PUT(__hfma(x, y, z)); PUT(__hfma_relu(x, y, z));
    PUT(__hneg(x)); PUT(__habs(x)); PUT(__hmin(x, y)); PUT(__hmax(x, y)); PUT(__hmax_nan(x, y));
    PUT(__hlt(x, y) ? x : z); PUT(__hneu(x, y) ? x : z);
    PUT(__float2bfloat16_rn(__bfloat162float(x) * 1.7f)); PUT(__float2bfloat16_rz(__bfloat162float(x) * 1.7f));
    PUT(__float2bfloat16_ru(__bfloat162float(y) / 3.f)); PUT(__double2bfloat16(1.0 / 3.0 * __bfloat162float(y)));
    PUT(__int2bfloat16_rn(__bfloat162int_rn(x))); PUT(hfloor(x));
}

extern "C" __global__ void bfloat_pairs(const __nv_bfloat162* a, const __nv_bfloat162* b, const __nv_bfloat162* c,
                                        __nv_bfloat162* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    __nv_bfloat162 x = a[i], y = b[i], z = c[i];
    PUT(__hadd2(x, y)); PUT(__hmul2(x, y)); PUT(__hfma2(x, y, z)); PUT(__hmin2(x, y)); PUT(__habs2(x));
    PUT(__floats2bfloat162_rn(__low2float(x) * 3.f, __high2float(y) + 1.f)); PUT(__hlt2(x, y)); PUT(__hneg2(x));
}

extern "C" __global__ void quotients(const float* a, const float* b, float* out)
{
    out[threadIdx.x] = a[threadIdx.x] / *b;
}
"""
)


def singles(a, b, c, out):
    module.get_function("singles")((1,), (a.size,), (a, b, c, out))


def division_limits(a, b, out):
    for row in range(b.size):
        module.get_function("quotients")((1,), (a.size,), (a, b[row:], out[row]))


def doubles(a, b, c, out):
    module.get_function("doubles")((1,), (a.size,), (a, b, c, out))


def doubles_directed(a, b, c, out):
    module.get_function("doubles_directed")((1,), (a.size,), (a, b, c, out))


def to_integers(a, b, out):
    module.get_function("to_integers")((1,), (a.size,), (a, b, out))


def from_integers(a, b, out, wide):
    module.get_function("from_integers")((1,), (a.size,), (a, b, out, wide))


def halves(a, b, c, out):
    module.get_function("halves")((1,), (a.size,), (a, b, c, out))


def half_pairs(a, b, c, out):
    module.get_function("half_pairs")((1,), (a.size // 2,), (a, b, c, out))


def bfloats(a, b, c, out):
    module.get_function("bfloats")((1,), (a.size,), (a, b, c, out))


def bfloat_pairs(a, b, c, out):
    module.get_function("bfloat_pairs")((1,), (a.size // 2,), (a, b, c, out))


@cuda.jit
def subnormals_kernel(a, b, out):
    """Numba keeps subnormal numbers where CuPy's compiler options flush them."""
    i = cuda.grid(1)
    x, y = a[i], b[i]
    out[0, i] = x + y
    out[1, i] = x - y
    out[2, i] = x * y
    out[3, i] = x / y if y != 0 else x
    out[4, i] = math.sqrt(abs(x))
    out[5, i] = x * y + x
    out[6, i] = min(x, y)
    out[7, i] = math.floor(x)
    out[8, i] = x if x < y else y
    out[9, i] = math.fabs(x)


def subnormals(a, b, out):
    subnormals_kernel[1, a.size](a, b, out)


@cuda.jit
def numba_half_kernel(a, b, out):
    i = cuda.grid(1)
    x, y = a[i], b[i]
    out[0, i] = x + y
    out[1, i] = x * y
    out[2, i] = x - y
    out[3, i] = cuda.fp16.hfma(x, y, x)
    out[4, i] = x if x > y else y
    out[5, i] = abs(x)
    out[6, i] = -y
    out[7, i] = x / y


def numba_half(a, b, out):
    numba_half_kernel[1, a.size](a, b, out)


@cuda.jit
def double_functions_kernel(a, out):
    """libdevice's double functions are made of exact operations, so they too are the same to the last bit."""
    i = cuda.grid(1)
    x = a[i]
    out[0, i] = math.exp(x)
    out[1, i] = math.log(abs(x))
    out[2, i] = math.sin(x)
    out[3, i] = math.cos(x)
    out[4, i] = math.tanh(x)
    out[5, i] = math.atan(x)
    out[6, i] = math.pow(abs(x), 1.7)
    out[7, i] = math.erf(x)


def double_functions(a, out):
    double_functions_kernel[1, a.size](a, out)
