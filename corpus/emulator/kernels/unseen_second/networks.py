"""The second set of kernels that no rule of counting was made from: layers of neural networks, narrow formats."""

import cupy
import numpy as np

RATES = np.dtype([(name, np.float32) for name in ("rate", "first", "second", "epsilon", "decay")])

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#define KERNEL extern "C" __global__ void

// 3 x 3 over all channels, an output channel a block in z, a pixel a thread, weights in shared memory.
KERNEL convolve_channels(const float* in, const float* weights, float* out, int channels, int h, int w)
{
    extern __shared__ float k[];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, o = blockIdx.z;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < channels * 9; i += 128) k[i] = weights[o * channels * 9 + i];
    __syncthreads();
    if (x >= w || y >= h) return;
    float sum = 0.0f;
    for (int c = 0; c < channels; ++c)
#pragma unroll
        for (int j = -1; j <= 1; ++j)
#pragma unroll
            for (int i = -1; i <= 1; ++i)
                if (x + i >= 0 && x + i < w && y + j >= 0 && y + j < h)
                    sum += in[(c * h + y + j) * w + x + i] * k[c * 9 + (j + 1) * 3 + i + 1];
    out[(o * h + y) * w + x] = sum;
}

// Channels last: a channel a thread, four outputs of a row each, the window slides through registers.
KERNEL convolve_depthwise(const __half* in, const __half* weights, __half* out, int h, int w, int channels)
{
    int c = threadIdx.x, y = blockIdx.y, x0 = blockIdx.x * 4;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int j = 0; j < 3; ++j) {
        int row = y + j - 1;
        if (row < 0 || row >= h) continue;
        const __half* tap = weights + j * 3 * channels + c;
        float left = __half2float(tap[0]), mid = __half2float(tap[channels]), right = __half2float(tap[2 * channels]);
        float v[6];
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            int column = x0 + i - 1;
            v[i] = column >= 0 && column < w ? __half2float(in[(row * w + column) * channels + c]) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] += v[i] * left + v[i + 1] * mid + v[i + 2] * right;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (x0 + i < w) out[(y * w + x0 + i) * channels + c] = __float2half_rn(sums[i]);
}

__constant__ float taps[7] = {0.03125f, 0.109375f, 0.21875f, 0.28125f, 0.21875f, 0.109375f, 0.03125f};

KERNEL blur_rows(const float* in, float* out, int w)
{
    __shared__ float s[64 + 6];
    int t = threadIdx.x, x = blockIdx.x * 64 + t;
    const float* row = in + blockIdx.y * w;
    for (int i = t; i < 70; i += 64) s[i] = row[min(max((int)blockIdx.x * 64 + i - 3, 0), w - 1)];
    __syncthreads();
    if (x >= w) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 7; ++k) sum += taps[k] * s[t + k];
    out[blockIdx.y * w + x] = sum;
}

KERNEL blur_columns(const float* in, float* out, int h, int w)
{
    int x = blockIdx.x * 32 + threadIdx.x, y0 = (blockIdx.y * 4 + threadIdx.y) * 4;
    if (x >= w) return;
    float v[10];
#pragma unroll
    for (int k = 0; k < 10; ++k) v[k] = in[min(max(y0 + k - 3, 0), h - 1) * w + x];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 7; ++k) sum += taps[k] * v[i + k];
        if (y0 + i < h) out[(y0 + i) * w + x] = sum;
    }
}

KERNEL pool_maximum(const float* in, float* out, unsigned char* where, int h, int w)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, c = blockIdx.z;
    if (x >= w / 2 || y >= h / 2) return;
    const float2* top = reinterpret_cast<const float2*>(in + (c * h + 2 * y) * w) + x;
    float2 p = top[0], q = top[w / 2];
    float best = p.x;
    int at = 0;
    if (p.y > best) { best = p.y; at = 1; }
    if (q.x > best) { best = q.x; at = 2; }
    if (q.y > best) { best = q.y; at = 3; }
    int i = (c * (h / 2) + y) * (w / 2) + x;
    out[i] = best;
    where[i] = at;
}

// Mean and variance of a row in one pass, parts of lanes joined by Chan's formula.
KERNEL normalise_layers(const float4* a, const float4* gain, const float4* bias, float4* out, int n4)
{
    int lane = threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
    float count = 0.0f, mean = 0.0f, square = 0.0f;
    for (int i = lane; i < n4; i += 32) {
        float4 v = a[row * n4 + i];
        float x[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            count += 1.0f;
            float d = x[k] - mean;
            mean += d / count;
            square += d * (x[k] - mean);
        }
    }
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        float c = __shfl_xor_sync(~0u, count, o), m = __shfl_xor_sync(~0u, mean, o);
        float s = __shfl_xor_sync(~0u, square, o);
        float all = count + c, d = m - mean;
        if (all > 0.0f) {
            mean += d * c / all;
            square += s + d * d * count * c / all;
        }
        count = all;
    }
    // Each lane of a pair came from its own side: the sums of both may differ in their last bits.
    mean = __shfl_sync(~0u, mean, 0);
    float r = rsqrtf(__shfl_sync(~0u, square, 0) / (4 * n4) + 1e-5f);
    for (int i = lane; i < n4; i += 32) {
        float4 v = a[row * n4 + i], g = gain[i], b = bias[i];
        out[row * n4 + i] = make_float4((v.x - mean) * r * g.x + b.x, (v.y - mean) * r * g.y + b.y,
                                        (v.z - mean) * r * g.z + b.z, (v.w - mean) * r * g.w + b.w);
    }
}

KERNEL normalise_squares(const __half2* a, const __half2* gain, __half2* out, int n2)
{
    __shared__ float warps[4];
    int t = threadIdx.x;
    const __half2* row = a + blockIdx.x * n2;
    float sum = 0.0f;
    for (int i = t; i < n2; i += 128) {
        float2 v = __half22float2(row[i]);
        sum = fmaf(v.x, v.x, fmaf(v.y, v.y, sum));
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (t % 32 == 0) warps[t / 32] = sum;
    __syncthreads();
    float r = rsqrtf((warps[0] + warps[1] + warps[2] + warps[3]) / (2 * n2) + 1e-6f);
    for (int i = t; i < n2; i += 128) {
        float2 v = __half22float2(row[i]);
        out[blockIdx.x * n2 + i] = __hmul2(__floats2half2_rn(v.x * r, v.y * r), gain[i]);
    }
}

// Pairs half a head apart are turned by an angle that grows with the position.
KERNEL rotate_heads(__half* q, const int* positions, int heads, int width)
{
    int token = blockIdx.x, half = width / 2;
    for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
        int head = i / half, k = i % half;
        float angle = positions[token] * exp2f(-13.287712f * k / half), s, c;
        sincosf(angle, &s, &c);
        __half* p = q + (token * heads + head) * width + k;
        float x = __half2float(p[0]), y = __half2float(p[half]);
        p[0] = __float2half(x * c - y * s);
        p[half] = __float2half(x * s + y * c);
    }
}

// Causal attention, a warp a query, 32 numbers a head, keys in turns with a running maximum.
KERNEL attend(const float* q, const float* k, const float* v, float* out, int tokens)
{
    __shared__ float query[4][32];
    int lane = threadIdx.x & 31, w = threadIdx.x >> 5, i = blockIdx.x * 4 + w, head = blockIdx.y;
    if (i >= tokens) return;
    query[w][lane] = q[(head * tokens + i) * 32 + lane] * 0.17677669f;
    __syncwarp();
    float most = -1e30f, sum = 0.0f, total = 0.0f;
    for (int base = 0; base <= i; base += 32) {
        int j = base + lane;
        float score = -1e30f;
        if (j <= i) {
            score = 0.0f;
            const float4* row = reinterpret_cast<const float4*>(k + (head * tokens + j) * 32);
#pragma unroll
            for (int d = 0; d < 8; ++d) {
                float4 x = row[d];
                const float* y = &query[w][4 * d];
                score += x.x * y[0] + x.y * y[1] + x.z * y[2] + x.w * y[3];
            }
        }
        float higher = score;
        for (int d = 16; d; d /= 2) higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, d));
        higher = fmaxf(higher, most);
        float shrink = __expf(most - higher), p = j <= i ? __expf(score - higher) : 0.0f, add = p;
        for (int d = 16; d; d /= 2) add += __shfl_xor_sync(~0u, add, d);
        sum = sum * shrink + add;
        total *= shrink;
        int count = min(32, i - base + 1);
        for (int s = 0; s < count; ++s)
            total += __shfl_sync(~0u, p, s) * v[(head * tokens + base + s) * 32 + lane];
        most = higher;
    }
    out[(head * tokens + i) * 32 + lane] = total / sum;
}

// The negative logarithm of the probability of each row's target, and what flows back to the row.
KERNEL cross_entropy(const float* logits, const int* targets, float* loss, float* slope, int n)
{
    __shared__ float s[4];
    int t = threadIdx.x, row = blockIdx.x;
    const float* x = logits + row * n;
    float most = -3.4e38f, sum = 0.0f;
    for (int i = t; i < n; i += 128) most = fmaxf(most, x[i]);
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    if (t % 32 == 0) s[t / 32] = most;
    __syncthreads();
    most = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
    __syncthreads();
    for (int i = t; i < n; i += 128) sum += expf(x[i] - most);
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (t % 32 == 0) s[t / 32] = sum;
    __syncthreads();
    sum = s[0] + s[1] + s[2] + s[3];
    int target = targets[row];
    if (t == 0) loss[row] = target < 0 ? 0.0f : logf(sum) + most - x[target];
    for (int i = t; i < n; i += 128)
        slope[row * n + i] = target < 0 ? 0.0f : expf(x[i] - most) / sum - (i == target ? 1.0f : 0.0f);
}

// A scale a row, four bytes a store; rows of zeros keep a scale of one.
KERNEL quantise_rows(const float4* a, char4* out, float* scales, int n4)
{
    int lane = threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
    float most = 0.0f;
    for (int i = lane; i < n4; i += 32) {
        float4 v = a[row * n4 + i];
        most = fmaxf(most, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    float scale = most > 0.0f ? __fdiv_rn(most, 127.0f) : 1.0f;
    for (int i = lane; i < n4; i += 32) {
        float4 v = a[row * n4 + i];
        out[row * n4 + i] = make_char4(__float2int_rn(__fdiv_rn(v.x, scale)), __float2int_rn(__fdiv_rn(v.y, scale)),
                                       __float2int_rn(__fdiv_rn(v.z, scale)), __float2int_rn(__fdiv_rn(v.w, scale)));
    }
    if (lane == 0) scales[row] = scale;
}

// Blocks of 32 numbers share a power of two, each is kept as e4m3; what they have become comes back as half.
KERNEL to_fp8_and_back(const float* a, unsigned char* codes, signed char* exponents, __half* back)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float x = a[i], most = fabsf(x);
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    int e = most > 0.0f ? ilogbf(most) - 8 : 0;
    __nv_fp8_storage_t code = __nv_cvt_float_to_fp8(ldexpf(x, -e), __NV_SATFINITE, __NV_E4M3);
    codes[i] = code;
    back[i] = __half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3));
    if (lane == 0) exponents[i / 32] = e;
}

// Eight weights of four bits a word, a zero point and a scale for 32 of them, a row a warp.
KERNEL four_bit_matvec(const unsigned* weights, const __half* scales, const __half* x, float* y, int n)
{
    int lane = threadIdx.x & 31, row = blockIdx.x * 4 + (threadIdx.x >> 5);
    float sum = 0.0f;
    for (int word = lane; word < n / 8; word += 32) {
        unsigned v = weights[row * (n / 8) + word];
        float part = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; ++k) part += (float)((int)(v >> 4 * k & 15) - 8) * __half2float(x[word * 8 + k]);
        sum += part * __half2float(scales[row * (n / 32) + word / 4]);
    }
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}

KERNEL byte_matvec(const int4* a, const int4* x, int* y, int quads)
{
    int row = blockIdx.x * blockDim.x / 8 + threadIdx.x / 8, k = threadIdx.x % 8, sum = 0;
    for (int i = k; i < quads; i += 8) {
        int4 p = a[row * quads + i], q = x[i];
        sum = __dp4a(p.y, q.y, __dp4a(p.x, q.x, sum));
        sum = __dp4a(p.w, q.w, __dp4a(p.z, q.z, sum));
    }
    for (int d = 4; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d, 8);
    if (k == 0) y[row] = sum;
}

// Rows of a table are added for each bag of words; -1 is no word.
KERNEL embed_bags(const float2* table, const int* words, float2* out, int bag, int width2)
{
    int b = blockIdx.x;
    for (int c = threadIdx.x; c < width2; c += blockDim.x) {
        float2 sum = {0.0f, 0.0f};
        int used = 0;
        for (int i = 0; i < bag; ++i) {
            int word = words[b * bag + i];
            if (word < 0) continue;
            float2 v = table[word * width2 + c];
            sum.x += v.x; sum.y += v.y;
            ++used;
        }
        float scale = used ? 1.0f / used : 0.0f;
        out[b * width2 + c] = make_float2(sum.x * scale, sum.y * scale);
    }
}

struct Rates { float rate, first, second, epsilon, decay; };

KERNEL adam(float* weights, float* m, float* v, const float* slope, Rates r, float fix1, float fix2, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float g = slope[i], w = weights[i];
        float a = m[i] = r.first * m[i] + (1.0f - r.first) * g;
        float b = v[i] = r.second * v[i] + (1.0f - r.second) * g * g;
        weights[i] = w - r.rate * ((a * fix1) / (sqrtf(b * fix2) + r.epsilon) + r.decay * w);
    }
}

KERNEL gated(const __nv_bfloat162* a, float2* out, int n2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (i >= n2) return;
    float2 gate = __bfloat1622float2(a[row * 2 * n2 + i]), up = __bfloat1622float2(a[row * 2 * n2 + n2 + i]);
    float x = gate.x / (1.0f + __expf(-gate.x)) * up.x, y = gate.y / (1.0f + __expf(-gate.y)) * up.y;
    out[row * n2 + i] = make_float2(x, y);
}

// Patches of 3 x 3 with stride two become columns.
KERNEL patches(const float* in, float* out, int channels, int h, int w)
{
    int oh = (h - 3) / 2 + 1, ow = (w - 3) / 2 + 1, columns = oh * ow;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < channels * 9 * columns; i += gridDim.x * blockDim.x) {
        int column = i % columns, k = i / columns, dx = k % 3, dy = k / 3 % 3, c = k / 9;
        out[i] = in[(c * h + column / ow * 2 + dy) * w + column % ow * 2 + dx];
    }
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _sizes(*values):
    return tuple(cupy.int32(x) for x in values)


def convolve_channels(a, weights, out):
    c, h, w = a.shape
    grid = ((w + 15) // 16, (h + 7) // 8, len(weights))
    _run("convolve_channels", grid, (16, 8), a, weights, out, *_sizes(c, h, w), shared=36 * c)


def convolve_depthwise(a, weights, out):
    h, w, c = a.shape
    _run("convolve_depthwise", ((w + 3) // 4, h), (c,), a, weights, out, *_sizes(h, w, c))


def blur(a, out):
    h, w = a.shape
    between = cupy.empty((h, w), cupy.float32)
    _run("blur_rows", ((w + 63) // 64, h), (64,), a, between, *_sizes(w))
    _run("blur_columns", ((w + 31) // 32, (h + 15) // 16), (32, 4), between, out, *_sizes(h, w))


def pool_maximum(a, out, where):
    c, h, w = a.shape
    _run("pool_maximum", ((w // 2 + 31) // 32, (h // 2 + 3) // 4, c), (32, 4), a, out, where, *_sizes(h, w))


def normalise_layers(a, gain, bias, out):
    _run("normalise_layers", (2,), (32, 4), a, gain, bias, out, *_sizes(a.shape[1] // 4))


def normalise_squares(a, gain, out):
    _run("normalise_squares", (len(a),), (128,), a, gain, out, *_sizes(a.shape[1] // 2))


def rotate_heads(q, positions):
    tokens, heads, width = q.shape
    _run("rotate_heads", (tokens,), (64,), q, positions, *_sizes(heads, width))


def attend(q, k, v, out):
    heads, tokens, _ = q.shape
    _run("attend", ((tokens + 3) // 4, heads), (128,), q, k, v, out, *_sizes(tokens))


def cross_entropy(logits, targets, loss, slope):
    _run("cross_entropy", (len(logits),), (128,), logits, targets, loss, slope, *_sizes(logits.shape[1]))


def quantise_rows(a, out, scales):
    _run("quantise_rows", (2,), (32, 4), a, out, scales, *_sizes(a.shape[1] // 4))


def to_fp8_and_back(a, codes, exponents, back):
    _run("to_fp8_and_back", (2,), (128,), a, codes, exponents, back)


def four_bit_matvec(weights, scales, x, y):
    _run("four_bit_matvec", (3,), (128,), weights, scales, x, y, *_sizes(x.size))


def byte_matvec(a, x, y):
    _run("byte_matvec", (2,), (128,), a, x, y, *_sizes(x.size // 16))


def embed_bags(table, words, out):
    _run("embed_bags", (len(words),), (32,), table, words, out, *_sizes(words.shape[1], table.shape[1] // 2))


def adam(weights, m, v, slope):
    rates = np.array((1e-3, 0.9, 0.999, 1e-8, 0.01), RATES)
    fixes = cupy.float32(1 / (1 - 0.9**3)), cupy.float32(1 / (1 - 0.999**3))
    _run("adam", (2,), (128,), weights, m, v, slope, rates, *fixes, *_sizes(weights.size))


def gated(a, out):
    _run("gated", (2, len(a)), (64,), a, out, *_sizes(out.shape[1] // 2))


def patches(a, out):
    _run("patches", (3,), (128,), a, out, *_sizes(*a.shape))
