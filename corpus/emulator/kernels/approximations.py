"""The functions that hardware approximates: one kernel each, so that each has its own bound."""

import math

import cupy
from numba import cuda

NAMES = (
    *("fast_divide", "fast_exp", "fast_log", "fast_log2", "fast_sin", "fast_cos", "fast_tan", "fast_pow"),
    *("accurate_exp", "accurate_log", "accurate_sin", "accurate_cos", "accurate_tanh", "accurate_pow", "accurate_erf"),
    *(
        "reciprocal_root",
        "approximate_reciprocal",
        "approximate_root",
        "bare_exp2",
        "bare_tanh",
        "half_exp2",
        "half_tanh",
    ),
)

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>
#define ONE(name, expression) \
    extern "C" __global__ void name(const float* a, float* out) \
    { \
        int i = threadIdx.x; \
        float x = a[i], y; \
        y = (expression); \
        out[i] = y; \
    }
#define INLINE(name, instruction) \
    extern "C" __global__ void name(const float* a, float* out) \
    { \
        float y; \
        asm(instruction " %0, %1;" : "=f"(y) : "f"(a[threadIdx.x])); \
        out[threadIdx.x] = y; \
    }
#define HALF(name, instruction) \
    extern "C" __global__ void name(const float* a, float* out) \
    { \
        __half x = __float2half_rn(a[threadIdx.x]); \
        unsigned short y, bits = __half_as_ushort(x); \
        asm(instruction " %0, %1;" : "=h"(y) : "h"(bits)); \
        out[threadIdx.x] = __half2float(__ushort_as_half(y)); \
    }
ONE(fast_divide, __fdividef(1.25f, x))
ONE(fast_exp, __expf(x))
ONE(fast_log, __logf(fabsf(x)))
ONE(fast_log2, __log2f(fabsf(x)))
ONE(fast_sin, __sinf(x))
ONE(fast_cos, __cosf(x))
ONE(fast_tan, __tanf(x))
ONE(fast_pow, __powf(fabsf(x), 1.5f))
ONE(accurate_exp, expf(x))
ONE(accurate_log, logf(fabsf(x)))
ONE(accurate_sin, sinf(x))
ONE(accurate_cos, cosf(x))
ONE(accurate_tanh, tanhf(x))
ONE(accurate_pow, powf(fabsf(x), 1.5f))
ONE(accurate_erf, erff(x))
ONE(reciprocal_root, rsqrtf(fabsf(x)))
INLINE(approximate_reciprocal, "rcp.approx.ftz.f32")
INLINE(approximate_root, "sqrt.approx.f32")
INLINE(bare_exp2, "ex2.approx.ftz.f32")
INLINE(bare_tanh, "tanh.approx.f32")
HALF(half_exp2, "ex2.approx.f16")
HALF(half_tanh, "tanh.approx.f16")
"""
)


def approximate(a, out, which):
    """`which` is a place in NAMES."""
    module.get_function(NAMES[which])((1,), (a.size,), (a, out))


@cuda.jit(fastmath=True)
def fastmath_kernel(a, b, out):
    i = cuda.grid(1)
    out[i] = a[i] / b[i]


def fastmath(a, b, out):
    fastmath_kernel[1, a.size](a, b, out)


@cuda.jit
def numba_exp_kernel(a, out):
    i = cuda.grid(1)
    out[i] = math.exp(a[i])


def numba_exp(a, out):
    numba_exp_kernel[1, a.size](a, out)
