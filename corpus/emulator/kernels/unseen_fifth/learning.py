"""The fifth set of kernels that no rule of counting was made from: layers, weights of few bits, losses, training."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cuda_bf16.h>

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;

// Scores of queries and keys with a slope by how far apart they are; keys that come later are masked.
KERNEL sloped_scores(const float4* q, const float4* k, float* out, int n, int wide)
{
    extern __shared__ float4 own[];
    int head = blockIdx.z, row = blockIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = threadIdx.x; i < wide; i += blockDim.x) own[i] = q[(head * n + row) * wide + i];
    __syncthreads();
    if (column >= n) return;
    float score = -100.0f;
    if (column <= row) {
        const float4* other = k + (head * n + column) * wide;
        float sum = 0.0f;
        for (int i = 0; i < wide; ++i) {
            float4 a = own[i], b = other[i];
            sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
        }
        score = sum * 0.25f - (row - column) * (1.0f / (2 << head));
    }
    out[(head * n + row) * n + column] = score;
}

// Weights of -1, 0 and 1, sixteen in a word, times whole numbers; a row a warp.
KERNEL ternary_rows(const unsigned* weights, const signed char* x, int* y, int rows, int words)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    int sum = 0;
    for (int w = threadIdx.x; w < words; w += 32) {
        unsigned packed = weights[row * words + w];
        const int4 four = *reinterpret_cast<const int4*>(x + 16 * w);
        int part[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            int code = packed >> 2 * k & 3, value = (signed char)(part[k / 4] >> 8 * (k % 4));
            if (code == 1) sum += value;
            else if (code == 2) sum -= value;
        }
    }
    sum = __reduce_add_sync(ALL, sum);
    if (threadIdx.x == 0) y[row] = sum;
}

// Values of a cache in pages, gathered by a table of pages for each sequence.
KERNEL gather_pages(const uint4* pages, const int* table, const int* lengths, uint4* out, int most, int wide)
{
    int sequence = blockIdx.y, length = lengths[sequence];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < most * 8 * wide; i += gridDim.x * blockDim.x) {
        int token = i / wide, part = i % wide;
        uint4 value = make_uint4(0, 0, 0, 0);
        if (token < length) value = pages[(table[sequence * most + token / 8] * 8 + token % 8) * wide + part];
        out[sequence * most * 8 * wide + i] = value;
    }
}

// Channels to squares of 3 x 3 pixels.
KERNEL pixel_shuffle(const float* in, float* out, int channels, int h, int w)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.z;
    if (x >= 3 * w || y >= 3 * h) return;
    int from = c * 9 + y % 3 * 3 + x % 3;
    out[(c * 3 * h + y) * 3 * w + x] = in[(from * h + y / 3) * w + x / 3];
}

// Sums of 32 bits to bytes: times a fixed fraction, half away from zero, plus a zero point, within limits.
KERNEL requantise(const int4* sums, const int* factors, const byte* shifts, char4* out, int columns, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int4 v = sums[i];
    int part[4] = {v.x, v.y, v.z, v.w};
    signed char result[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int c = (4 * i + k) % columns;
        int high = __mulhi(part[k], factors[c]), shift = shifts[c];
        int half = 1 << (shift - 1), size = (abs(high) + half) >> shift;
        result[k] = max(-128, min(127, (high < 0 ? -size : size) + 5));
    }
    out[i] = make_char4(result[0], result[1], result[2], result[3]);
}

// Which classes were taken for which, counted in shared memory, then added to what is known.
KERNEL confusion(const byte* truth, const float* scores, int* table, int classes, int n)
{
    extern __shared__ int counts[];
    for (int k = threadIdx.x; k < classes * classes; k += blockDim.x) counts[k] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int best = 0;
        for (int c = 1; c < classes; ++c) if (scores[c * n + i] > scores[best * n + i]) best = c;
        atomicAdd(&counts[truth[i] * classes + best], 1);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < classes * classes; k += blockDim.x) if (counts[k]) atomicAdd(&table[k], counts[k]);
}

// Floats to bfloat16, up or down by chance: low bits are added that a counter's hash gives.
KERNEL round_by_chance(const float2* in, unsigned* out, int n, unsigned seed)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned h = (i ^ seed) * 0x9e3779b1u;
        h ^= h >> 16;
        h *= 0x7feb352du;
        h ^= h >> 15;
        float2 v = in[i];
        unsigned a = __float_as_uint(v.x) + (h & 0xffff), b = __float_as_uint(v.y) + (h >> 16);
        out[i] = a >> 16 | (b & 0xffff0000u);
    }
}

// Steps by the sign of a mean of slopes, weights of bfloat16 in pairs.
KERNEL sign_steps(__nv_bfloat162* weights, float2* means, const float2* slopes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 w = __bfloat1622float2(weights[i]), m = means[i], g = slopes[i];
    float x = 0.875f * m.x + 0.125f * g.x, y = 0.875f * m.y + 0.125f * g.y;
    w.x -= 0.0625f * ((x > 0.0f) - (x < 0.0f));
    w.y -= 0.0625f * ((y > 0.0f) - (y < 0.0f));
    weights[i] = __float22bfloat162_rn(w);
    means[i] = make_float2(0.9375f * m.x + 0.0625f * g.x, 0.9375f * m.y + 0.0625f * g.y);
}

// By how much the anchor is nearer to one of its kind than to another; a triplet a warp.
KERNEL triplets(const float* points, const int* triples, float* loss, int n, int wide)
{
    int i = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (i >= n) return;
    const int* t = triples + 3 * i;
    const float *a = points + t[0] * wide, *p = points + t[1] * wide, *q = points + t[2] * wide;
    float near = 0.0f, far = 0.0f;
    for (int k = lane; k < wide; k += 32) {
        float d = a[k] - p[k], e = a[k] - q[k];
        near = fmaf(d, d, near);
        far = fmaf(e, e, far);
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        near += __shfl_xor_sync(ALL, near, d);
        far += __shfl_xor_sync(ALL, far, d);
    }
    if (lane == 0) loss[i] = fmaxf(0.0f, sqrtf(near) - sqrtf(far) + 0.5f);
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def sloped_scores(q, k, out):
    heads, n, wide = q.shape
    _run("sloped_scores", (2, n, heads), (32,), q, k, out, *_ints(n, wide // 4), shared=4 * wide)


def ternary_rows(weights, x, y):
    _run("ternary_rows", (5,), (32, 4), weights, x, y, *_ints(*weights.shape))


def gather_pages(pages, table, lengths, out):
    sequences, most = table.shape
    _run("gather_pages", (2, sequences), (64,), pages, table, lengths, out, *_ints(most, pages.shape[2] // 4))


def pixel_shuffle(a, out):
    channels, height, width = out.shape
    h, w = a.shape[1:]
    grid = ((width + 15) // 16, (height + 3) // 4, channels)
    _run("pixel_shuffle", grid, (16, 4), a, out, *_ints(channels, h, w))


def requantise(sums, factors, shifts, out):
    n = sums.size // 4
    _run("requantise", ((n + 63) // 64,), (64,), sums, factors, shifts, out, *_ints(factors.size, n))


def confusion(truth, scores, table):
    classes, n = scores.shape
    _run("confusion", (4,), (96,), truth, scores, table, *_ints(classes, n), shared=4 * classes * classes)


def round_by_chance(a, out):
    _run("round_by_chance", (2,), (96,), a, out, *_ints(out.size), cupy.uint32(12345))


def sign_steps(weights, means, slopes):
    _run("sign_steps", (3,), (96,), weights, means, slopes, *_ints(weights.size))


def triplets(points, triples, loss):
    _run("triplets", (6,), (32, 4), points, triples, loss, *_ints(loss.size, points.shape[1]))
