"""A mixture-of-experts layer as a chain: labs 10 and 11, and three small kernels for what lies between them.

Six launches: choose and sort, gather and quantise, gates and values, SwiGLU and quantise, down, combine. None depends
on how many rows an expert has, so that one graph holds them. plans.py adds the two labs' host functions before it is
recorded.
"""

import cupy
import numpy as np

SOURCE = r"""
#include <cuda_fp16.h>
typedef unsigned int u32;
constexpr u32 ALL = 0xffffffff;

// Exponent field of the smallest power of two of which the largest magnitude is at most 448 (lab 09).
__device__ int scale_field(float largest)
{
    return largest > 0 ? max(((__float_as_int(largest) + 0x1FFFFF) >> 23) - 8, 1) : 127;
}
__device__ float power(int field) { return __int_as_float(field << 23); }
__device__ u32 pair_of_codes(float low, float high)
{
    unsigned short codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
}
// A warp's 128 numbers, four a lane, to codes and their scale.
__device__ void quantise(float4 v, unsigned char* codes, float* scale)
{
    float largest = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
    int field = scale_field(__uint_as_float(__reduce_max_sync(ALL, __float_as_uint(largest))));
    float inverse = power(254 - field);
    ((u32*)codes)[threadIdx.x % 32] =
        pair_of_codes(v.x * inverse, v.y * inverse) | pair_of_codes(v.z * inverse, v.w * inverse) << 16;
    if (threadIdx.x % 32 == 0) *scale = power(field);
}
__device__ float4 four(const __half* from)
{
    uint2 raw = ((const uint2*)from)[threadIdx.x % 32];
    float2 low = __half22float2(*(__half2*)&raw.x), high = __half22float2(*(__half2*)&raw.y);
    return make_float4(low.x, low.y, high.x, high.y);
}

// A warp for 128 columns of a row: from the token that has the row. d is a multiple of 128, as is f.
extern "C" __global__ void gather(const __half* x, const int* order, unsigned char* x8, float* x_scale, int k, int rows,
                                  int d)
{
    int warp = blockIdx.x * 8 + threadIdx.x / 32, row = warp / (d / 128), block = warp % (d / 128);
    if (row < rows)
        quantise(four(x + (long long)(order[row] / k) * d + block * 128), x8 + (long long)row * d + block * 128,
                 x_scale + (long long)block * rows + row);
}

__device__ float swiglu_of(float gate, float value) { return gate / (1 + expf(-gate)) * value; }

extern "C" __global__ void swiglu(const __half* h, unsigned char* a8, float* a_scale, int rows, int f)
{
    int warp = blockIdx.x * 8 + threadIdx.x / 32, row = warp / (f / 128), block = warp % (f / 128);
    if (row >= rows) return;
    const __half* gates = h + (long long)row * 2 * f + block * 128;
    float4 g = four(gates), v = four(gates + f);
    v = make_float4(swiglu_of(g.x, v.x), swiglu_of(g.y, v.y), swiglu_of(g.z, v.z), swiglu_of(g.w, v.w));
    quantise(v, a8 + (long long)row * f + block * 128, a_scale + (long long)block * rows + row);
}

// A warp for 128 columns of a token: adds up its rows in the order of its choices, the same bits each time.
extern "C" __global__ void combine(const __half* y, const int* position, const int* chosen, const float* scores,
                                   float* out, int k, int experts, int tokens, int d)
{
    int warp = blockIdx.x * 8 + threadIdx.x / 32, token = warp / (d / 128), block = warp % (d / 128);
    if (token >= tokens) return;
    const float* score = scores + (long long)token * experts;
    const int *choices = chosen + token * k, *rows = position + token * k;
    float best = score[choices[0]], sum = 0;
    float4 total = make_float4(0, 0, 0, 0);
    for (int i = 0; i < k; ++i) {
        float share = expf(score[choices[i]] - best);
        float4 v = four(y + (long long)rows[i] * d + block * 128);
        total.x += share * v.x, total.y += share * v.y, total.z += share * v.z, total.w += share * v.w;
        sum += share;
    }
    total.x /= sum, total.y /= sum, total.z /= sum, total.w /= sum;
    ((float4*)(out + (long long)token * d + block * 128))[threadIdx.x % 32] = total;
}
"""


def layer_by(shuffle, multiply_by, choices, k, x, scores, up8, up_scale, down8, down_scale, out):
    """As `layer` of one_kernel.py, for any number of tokens, by lab 10's `shuffle` and lab 11's `multiply_by`."""
    (tokens, d), (experts, _, f) = x.shape, down8.shape
    rows = tokens * k
    module = cupy.RawModule(code=SOURCE, options=("-arch=sm_90a", "-std=c++17"))
    gather, swiglu, combine = (module.get_function(name) for name in ("gather", "swiglu", "combine"))
    chosen, position = cupy.empty((tokens, k), np.int32), cupy.empty((tokens, k), np.int32)
    count, first, order = cupy.empty(experts, np.int32), cupy.empty(experts, np.int32), cupy.empty(rows, np.int32)
    x8, x_scale = cupy.empty((rows, d), np.uint8), cupy.empty((d // 128, rows), np.float32)
    a8, a_scale = cupy.empty((rows, f), np.uint8), cupy.empty((f // 128, rows), np.float32)
    h, y = cupy.empty((rows, 2 * f), np.float16), cupy.empty((rows, d), np.float16)
    sizes = {name: np.int32(value) for name, value in (("k", k), ("rows", rows), ("d", d), ("f", f))}

    shuffle(k, scores, chosen, count, first, order, position)
    gather((blocks(rows * d),), (256,), (x, order, x8, x_scale, sizes["k"], sizes["rows"], sizes["d"]))
    multiply_by(choices[0], tokens, x8, x_scale, up8, up_scale, first, count, h)
    swiglu((blocks(rows * f),), (256,), (h, a8, a_scale, sizes["rows"], sizes["f"]))
    multiply_by(choices[1], tokens, a8, a_scale, down8, down_scale, first, count, y)
    last = (y, position, chosen, scores, out, sizes["k"], np.int32(experts), np.int32(tokens), sizes["d"])
    combine((blocks(tokens * d),), (256,), last)


def blocks(elements):
    """Blocks of eight warps that take 128 elements each."""
    return -(-elements // 1024)
