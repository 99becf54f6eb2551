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
// A warp's 128 numbers, four a lane: a lane's four codes, and the scale.
__device__ float quantised(float4 v, u32& codes)
{
    float largest = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
    int field = scale_field(__uint_as_float(__reduce_max_sync(ALL, __float_as_uint(largest))));
    float inverse = power(254 - field);
    codes = pair_of_codes(v.x * inverse, v.y * inverse) | pair_of_codes(v.z * inverse, v.w * inverse) << 16;
    return power(field);
}
__device__ float4 four(const __half* from)
{
    uint2 raw = ((const uint2*)from)[threadIdx.x % 32];
    float2 low = __half22float2(*(__half2*)&raw.x), high = __half22float2(*(__half2*)&raw.y);
    return make_float4(low.x, low.y, high.x, high.y);
}

// A warp for 128 columns of a token, which go to its K rows. d is a multiple of 128, as is f.
extern "C" __global__ void gather(const __half* x, const int* position, unsigned char* x8, float* x_scale, int tokens,
                                  int d)
{
    int warp = blockIdx.x * 8 + threadIdx.x / 32, token = warp / (d / 128), block = warp % (d / 128), rows = tokens * K;
    if (token >= tokens) return;
    float4 v = four(x + (long long)token * d + block * 128);
    int to[K];
#pragma unroll
    for (int i = 0; i < K; ++i) to[i] = position[token * K + i];
    u32 codes;
    float scale = quantised(v, codes);
#pragma unroll
    for (int i = 0; i < K; ++i) {
        ((u32*)(x8 + (long long)to[i] * d + block * 128))[threadIdx.x % 32] = codes;
        if (threadIdx.x % 32 == 0) x_scale[(long long)block * rows + to[i]] = scale;
    }
}

__device__ float swiglu_of(float gate, float value) { return __fdividef(gate, 1 + __expf(-gate)) * value; }

// A warp for SOME times 128 columns, which are all read before any of them is written.
extern "C" __global__ void swiglu(const __half* h, unsigned char* a8, float* a_scale, int rows, int f)
{
    constexpr int SOME = 4;
    int first = (blockIdx.x * 8 + threadIdx.x / 32) * SOME, blocks = f / 128;
    float4 gate[SOME], value[SOME];
#pragma unroll
    for (int i = 0; i < SOME; ++i) {
        int row = (first + i) / blocks, block = (first + i) % blocks;
        if (row >= rows) break;
        const __half* gates = h + (long long)row * 2 * f + block * 128;
        gate[i] = four(gates), value[i] = four(gates + f);
    }
#pragma unroll
    for (int i = 0; i < SOME; ++i) {
        int row = (first + i) / blocks, block = (first + i) % blocks;
        if (row >= rows) break;
        float4 g = gate[i], v = value[i];
        v = make_float4(swiglu_of(g.x, v.x), swiglu_of(g.y, v.y), swiglu_of(g.z, v.z), swiglu_of(g.w, v.w));
        u32 codes;
        float scale = quantised(v, codes);
        ((u32*)(a8 + (long long)row * f + block * 128))[threadIdx.x % 32] = codes;
        if (threadIdx.x % 32 == 0) a_scale[(long long)block * rows + row] = scale;
    }
}

// A warp for 128 columns of a token: adds up its rows in the order of its choices, the same bits each time.
extern "C" __global__ void combine(const __half* y, const int* position, const int* chosen, const float* scores,
                                   float* out, int experts, int tokens, int d)
{
    int warp = blockIdx.x * 8 + threadIdx.x / 32, token = warp / (d / 128), block = warp % (d / 128);
    if (token >= tokens) return;
    float score[K];
    float4 v[K], total = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < K; ++i) {
        score[i] = scores[(long long)token * experts + chosen[token * K + i]];
        v[i] = four(y + (long long)position[token * K + i] * d + block * 128);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < K; ++i) {
        float share = expf(score[i] - score[0]);
        total.x += share * v[i].x, total.y += share * v[i].y, total.z += share * v[i].z, total.w += share * v[i].w;
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
    module = cupy.RawModule(code=SOURCE, options=("-arch=sm_90a", "-std=c++17", f"-DK={k}"))
    gather, swiglu, combine = (module.get_function(name) for name in ("gather", "swiglu", "combine"))
    chosen, position = cupy.empty((tokens, k), np.int32), cupy.empty((tokens, k), np.int32)
    count, first, order = cupy.empty(experts, np.int32), cupy.empty(experts, np.int32), cupy.empty(rows, np.int32)
    x8, x_scale = cupy.empty((rows, d), np.uint8), cupy.empty((d // 128, rows), np.float32)
    a8, a_scale = cupy.empty((rows, f), np.uint8), cupy.empty((f // 128, rows), np.float32)
    h, y = cupy.empty((rows, 2 * f), np.float16), cupy.empty((rows, d), np.float16)
    sizes = {name: np.int32(value) for name, value in (("tokens", tokens), ("rows", rows), ("d", d), ("f", f))}

    shuffle(k, scores, chosen, count, first, order, position)
    gather((blocks(tokens * d),), (256,), (x, position, x8, x_scale, sizes["tokens"], sizes["d"]))
    multiply_by(choices[0], tokens, x8, x_scale, up8, up_scale, first, count, h)
    swiglu((blocks(rows * f, 4096),), (256,), (h, a8, a_scale, sizes["rows"], sizes["f"]))
    multiply_by(choices[1], tokens, a8, a_scale, down8, down_scale, first, count, y)
    last = (y, position, chosen, scores, out, np.int32(experts), sizes["tokens"], sizes["d"])
    combine((blocks(tokens * d),), (256,), last)


def blocks(elements, of_a_block=1024):
    """Blocks of eight warps that take 128 elements each, or several times so many."""
    return -(-elements // of_a_block)
