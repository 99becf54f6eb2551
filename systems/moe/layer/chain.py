"""A mixture-of-experts layer as a chain: labs 10 and 11, and three small kernels for what lies between them.

Six launches: choose and sort, gather and quantise, gates and values, SwiGLU and quantise, down, combine; five where the
products are wide.py's. None depends on how many rows an expert has, so that one graph holds them. plans.py adds the
host functions of the two labs, or of wide.py, before it is recorded.
"""

from functools import cache

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
// Eight numbers of 16 bytes.
__device__ void widen(uint4 raw, float* v)
{
    const __half2* pairs = (const __half2*)&raw;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float2 pair = __half22float2(pairs[i]);
        v[2 * i] = pair.x, v[2 * i + 1] = pair.y;
    }
}
// LANES lanes have 128 numbers: the codes of each lane's, four in a word, and their scale.
template <int LANES> __device__ float quantised(const float (&v)[128 / LANES], u32 (&codes)[32 / LANES])
{
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 128 / LANES; ++i) largest = fmaxf(largest, fabsf(v[i]));
#pragma unroll
    for (int step = LANES / 2; step; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, step));
    int field = scale_field(largest);
    float inverse = power(254 - field);
#pragma unroll
    for (int i = 0; i < 32 / LANES; ++i)
        codes[i] = pair_of_codes(v[4 * i] * inverse, v[4 * i + 1] * inverse)
                   | pair_of_codes(v[4 * i + 2] * inverse, v[4 * i + 3] * inverse) << 16;
    return power(field);
}

// A warp for 512 columns of a token, 16 a lane, which go to its K rows. d is a multiple of 128, as is f; scales have
// `rows` columns.
extern "C" __global__ void gather(const __half* x, const int* position, unsigned char* x8, float* x_scale, int tokens,
                                  int rows, int d)
{
    int warp = blockIdx.x * 8 + threadIdx.x / 32, parts = (d + 511) / 512, token = warp / parts;
    int column = warp % parts * 512 + threadIdx.x % 32 * 16;
    if (token >= tokens) return;
    uint4 raw[2] = {};
    if (column < d) {
        const uint4* from = (const uint4*)(x + (long long)token * d + column);
        raw[0] = from[0], raw[1] = from[1];
    }
    int to[K];
#pragma unroll
    for (int i = 0; i < K; ++i) to[i] = position[token * K + i];
    float v[16];
    widen(raw[0], v), widen(raw[1], v + 8);
    u32 codes[4];
    float scale = quantised<8>(v, codes);
    if (column >= d) return;
#pragma unroll
    for (int i = 0; i < K; ++i) {
        *(uint4*)(x8 + (long long)to[i] * d + column) = make_uint4(codes[0], codes[1], codes[2], codes[3]);
        if (threadIdx.x % 8 == 0) x_scale[(long long)(column / 128) * rows + to[i]] = scale;
    }
}

__device__ float swiglu_of(float gate, float value) { return __fdividef(gate, 1 + __expf(-gate)) * value; }

// A warp for SOME times 256 columns of the first `some` rows, 8 a lane, all read before any of them is written.
extern "C" __global__ void swiglu(const __half* h, unsigned char* a8, float* a_scale, int some, int rows, int f)
{
    constexpr int SOME = 2;
    int first = (blockIdx.x * 8 + threadIdx.x / 32) * SOME, parts = (f + 255) / 256;
    uint4 gate[SOME] = {}, value[SOME] = {};
    int row[SOME], column[SOME];
#pragma unroll
    for (int i = 0; i < SOME; ++i) {
        row[i] = (first + i) / parts, column[i] = (first + i) % parts * 256 + threadIdx.x % 32 * 8;
        if (row[i] >= some || column[i] >= f) continue;
        const __half* gates = h + (long long)row[i] * 2 * f + column[i];
        gate[i] = *(const uint4*)gates, value[i] = *(const uint4*)(gates + f);
    }
#pragma unroll
    for (int i = 0; i < SOME; ++i) {
        float g[8], v[8];
        widen(gate[i], g), widen(value[i], v);
#pragma unroll
        for (int j = 0; j < 8; ++j) v[j] = swiglu_of(g[j], v[j]);
        u32 codes[2];
        float scale = quantised<16>(v, codes);
        if (row[i] >= some || column[i] >= f) continue;
        *(uint2*)(a8 + (long long)row[i] * f + column[i]) = make_uint2(codes[0], codes[1]);
        if (threadIdx.x % 16 == 0) a_scale[(long long)(column[i] / 128) * rows + row[i]] = scale;
    }
}

// A warp for twice 128 columns of a token, four a lane: adds up its rows in the order of its choices, so that the bits
// are the same each time.
extern "C" __global__ void combine(const __half* y, const int* position, const int* chosen, const float* scores,
                                   float* out, int experts, int tokens, int d)
{
    constexpr int SOME = 2;
    int warp = blockIdx.x * 8 + threadIdx.x / 32, parts = (d + 255) / 256, token = warp / parts;
    int column = warp % parts * 256 + threadIdx.x % 32 * 4;
    if (token >= tokens) return;
    float score[K];
    uint2 raw[K][SOME] = {};
#pragma unroll
    for (int i = 0; i < K; ++i) {
        const __half* from = y + (long long)position[token * K + i] * d + column;
#pragma unroll
        for (int s = 0; s < SOME; ++s)
            if (column + 128 * s < d) raw[i][s] = __ldcs((const uint2*)(from + 128 * s));
        score[i] = scores[(long long)token * experts + chosen[token * K + i]];
    }
    float sum = 0;
    float4 total[SOME] = {};
#pragma unroll
    for (int i = 0; i < K; ++i) {
        float share = expf(score[i] - score[0]);
        sum += share;
#pragma unroll
        for (int s = 0; s < SOME; ++s) {
            float2 low = __half22float2(*(__half2*)&raw[i][s].x), high = __half22float2(*(__half2*)&raw[i][s].y);
            total[s].x += share * low.x, total[s].y += share * low.y;
            total[s].z += share * high.x, total[s].w += share * high.y;
        }
    }
#pragma unroll
    for (int s = 0; s < SOME; ++s) {
        float4 t = total[s];
        if (column + 128 * s < d)
            *(float4*)(out + (long long)token * d + column + 128 * s) =
                make_float4(t.x / sum, t.y / sum, t.z / sum, t.w / sum);
    }
}
"""


def layer_by(shuffle, products, k, x, scores, up8, up_scale, down8, down_scale, out):
    """As `layer` of one_kernel.py, for any number of tokens, by lab 10's `shuffle` and two `products`.

    The first gives codes and scales of SwiGLU's results, the second y. Arrays have a multiple of four rows, since bulk
    copies of scales take multiples of 16 bytes; what nobody writes of them is 0.
    """
    (tokens, d), (experts, _, f) = x.shape, down8.shape
    rows = -(-tokens * k // 4) * 4
    gather, combine = (kernels(k).get_function(name) for name in ("gather", "combine"))
    chosen, position = cupy.empty((tokens, k), np.int32), cupy.empty((tokens, k), np.int32)
    count, first, order = cupy.empty(experts, np.int32), cupy.empty(experts, np.int32), cupy.empty(tokens * k, np.int32)
    x8, x_scale = cupy.zeros((rows, d), np.uint8), cupy.zeros((d // 128, rows), np.float32)
    a8, a_scale = cupy.zeros((rows, f), np.uint8), cupy.zeros((f // 128, rows), np.float32)
    y = cupy.empty((rows, d), np.float16)
    up, down = products

    shuffle(k, scores, chosen, count, first, order, position)
    sizes = np.int32(tokens), np.int32(rows), np.int32(d)
    gather((blocks(tokens, d, 512),), (256,), (x, position, x8, x_scale, *sizes))
    up(x8, x_scale, up8, up_scale, first, count, a8, a_scale)
    down(a8, a_scale, down8, down_scale, first, count, y)
    last = (y, position, chosen, scores, out, np.int32(experts), np.int32(tokens), np.int32(d))
    combine((blocks(tokens, d, 256),), (256,), last)


def of_lab_11(multiply_by, choices, k, tokens):
    """Products for `layer_by` from lab 11's `multiply_by`: SwiGLU behind the first is a kernel of its own."""

    def up(x8, x_scale, w8, w_scale, first, count, a8, a_scale):
        h = cupy.empty((len(x8), w8.shape[1]), np.float16)
        multiply_by(choices[0], tokens, x8, x_scale, w8, w_scale, first, count, h)
        sizes = np.int32(tokens * k), np.int32(len(a8)), np.int32(a8.shape[1])
        swiglu = kernels(k).get_function("swiglu")
        swiglu((blocks(tokens * k, a8.shape[1], 256, 2),), (256,), (h, a8, a_scale, *sizes))

    return up, lambda *arrays: multiply_by(choices[1], tokens, *arrays)


@cache
def kernels(k):
    """The small ones, for k choices of a token."""
    return cupy.RawModule(code=SOURCE, options=("-arch=sm_90a", "-std=c++17", f"-DK={k}"))


def blocks(rows, columns, of_a_warp, times=1):
    """Blocks of eight warps, each of which takes so many columns of a row, so many times."""
    return -(-rows * -(-columns // of_a_warp) // (8 * times))
