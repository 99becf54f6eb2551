"""The third set of kernels that no rule of counting was made from: layers of networks, their slopes, losses, steps."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

__device__ float warp_sum(float x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(ALL, x, d);
    return x;
}

__device__ float2 warp_sum(float2 x) { return make_float2(warp_sum(x.x), warp_sum(x.y)); }

// Groups of channels of an image to mean 0 and variance 1, then a scale and a shift for each channel.
KERNEL group_norm(const float* in, const float* scale, const float* shift, float* out, int channels, int pixels,
                  int size)
{
    __shared__ float2 sums[4];
    int group = blockIdx.x, image = blockIdx.y, t = threadIdx.x, count = size * pixels;
    const float* a = in + (image * channels + group * size) * pixels;
    float2 s = make_float2(0.0f, 0.0f);
    for (int i = t; i < count; i += 128) { float x = a[i]; s.x += x; s.y = fmaf(x, x, s.y); }
    s = warp_sum(s);
    if (t % 32 == 0) sums[t / 32] = s;
    __syncthreads();
    s = warp_sum(t % 32 < 4 ? sums[t % 32] : make_float2(0.0f, 0.0f));
    float mean = s.x / count, factor = rsqrtf(s.y / count - mean * mean + 1e-5f);
    float* b = out + (image * channels + group * size) * pixels;
    for (int i = t; i < count; i += 128) {
        int c = group * size + i / pixels;
        b[i] = (a[i] - mean) * factor * scale[c] + shift[c];
    }
}

// Each channel over all images of a batch, with running means and variances for later.
KERNEL batch_norm(const float* in, float* out, float* running_mean, float* running_variance, int images, int channels,
                  int pixels)
{
    __shared__ float s[64];
    int c = blockIdx.x, t = threadIdx.x, count = images * pixels;
    float sum = 0.0f;
    for (int i = t; i < count; i += 64) sum += in[(i / pixels * channels + c) * pixels + i % pixels];
    s[t] = sum;
    for (int d = 32; d; d >>= 1) { __syncthreads(); if (t < d) s[t] += s[t + d]; }
    __syncthreads();
    float mean = s[0] / count, squares = 0.0f;
    __syncthreads();
    for (int i = t; i < count; i += 64) {
        float d = in[(i / pixels * channels + c) * pixels + i % pixels] - mean;
        squares += d * d;
    }
    s[t] = squares;
    for (int d = 32; d; d >>= 1) { __syncthreads(); if (t < d) s[t] += s[t + d]; }
    __syncthreads();
    float variance = s[0] / count, factor = 1.0f / sqrtf(variance + 1e-3f);
    for (int i = t; i < count; i += 64) {
        int at = (i / pixels * channels + c) * pixels + i % pixels;
        out[at] = (in[at] - mean) * factor;
    }
    if (t == 0) {
        running_mean[c] += 0.1f * (mean - running_mean[c]);
        running_variance[c] += 0.1f * (variance * count / (count - 1) - running_variance[c]);
    }
}

// What flows back through a normalisation of rows, a warp a row; the row stays in registers.
KERNEL norm_slopes(const float* x, const float* scale, const float* slope, float* out, int rows, int n)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float values[4], slopes[4], sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = lane + 32 * k;
        values[k] = i < n ? x[row * n + i] : 0.0f;
        slopes[k] = i < n ? slope[row * n + i] * scale[i] : 0.0f;
        sum += values[k];
    }
    float mean = warp_sum(sum) / n;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        values[k] = lane + 32 * k < n ? values[k] - mean : 0.0f;
        squares += values[k] * values[k];
    }
    float factor = rsqrtf(warp_sum(squares) / n + 1e-5f);
    float2 means = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        values[k] *= factor;
        means.x += slopes[k];
        means.y += slopes[k] * values[k];
    }
    means = warp_sum(means);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = lane + 32 * k;
        if (i < n) out[row * n + i] = factor * (slopes[k] - means.x / n - values[k] * (means.y / n));
    }
}

KERNEL softmax_slopes(const __half* p, const __half* slope, __half* out, int n)
{
    __shared__ float sums[2];
    int t = threadIdx.x, row = blockIdx.x;
    const __half2* u = (const __half2*)(p + row * n);
    const __half2* v = (const __half2*)(slope + row * n);
    float sum = 0.0f;
    for (int i = t; i < n / 2; i += 64) {
        float2 x = __half22float2(u[i]), y = __half22float2(v[i]);
        sum += x.x * y.x + x.y * y.y;
    }
    sum = warp_sum(sum);
    if (t % 32 == 0) sums[t / 32] = sum;
    __syncthreads();
    sum = sums[0] + sums[1];
    for (int i = t; i < n / 2; i += 64) {
        float2 x = __half22float2(u[i]), y = __half22float2(v[i]);
        ((__half2*)(out + row * n))[i] = __floats2half2_rn(x.x * (y.x - sum), x.y * (y.y - sum));
    }
}

// Huber's loss and its slope; the sum is one block's.
KERNEL huber(const float* a, const float* b, float* slope, float* loss, int n, float delta)
{
    __shared__ float sums[8];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float d = a[i] - b[i], size = fabsf(d);
        if (size <= delta) { sum += 0.5f * d * d; slope[i] = d / n; }
        else { sum += delta * (size - 0.5f * delta); slope[i] = copysignf(delta, d) / n; }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) *loss = sum / n;
    }
}

// Logits to losses of yes and no, without overflow.
KERNEL yes_or_no(const float* logits, const unsigned char* labels, float* loss, float* slope, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = logits[i], small = expf(-fabsf(x)), y = labels[i] ? 1.0f : 0.0f;
    loss[i] = fmaxf(x, 0.0f) - x * y + log1pf(small);
    slope[i] = (x >= 0.0f ? 1.0f / (1.0f + small) : small / (1.0f + small)) - y;
}

__device__ void look_ahead(float& w, float& speed, float g, float rate)
{
    g += 0.01f * w;
    speed = 0.9f * speed + g;
    w -= rate * (g + 0.9f * speed);
}

// Gradient descent with Nesterov's momentum, four weights a thread.
KERNEL nesterov(float4* weights, float4* speeds, const float4* slopes, int quads, float rate)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += gridDim.x * blockDim.x) {
        float4 w = weights[i], v = speeds[i], g = slopes[i];
        look_ahead(w.x, v.x, g.x, rate);
        look_ahead(w.y, v.y, g.y, rate);
        look_ahead(w.z, v.z, g.z, rate);
        look_ahead(w.w, v.w, g.w, rate);
        weights[i] = w;
        speeds[i] = v;
    }
}

// The size of all slopes by parts, then steps with slopes that are clipped to it.
KERNEL squares_of_parts(const float* slopes, float* parts, int n)
{
    __shared__ float sums[4];
    float sum = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) sum += slopes[i] * slopes[i];
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) parts[blockIdx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

KERNEL clipped_rmsprop(float* weights, float* squares, const float* slopes, const float* parts, int count, int n,
                       float most)
{
    float size = 0.0f;
    for (int k = 0; k < count; ++k) size += parts[k];
    size = sqrtf(size);
    float scale = size > most ? most / size : 1.0f;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = slopes[i] * scale, s = 0.95f * squares[i] + 0.05f * g * g;
    squares[i] = s;
    weights[i] -= 0.01f * g / (sqrtf(s) + 1e-6f);
}

// A transposed convolution of stride two: each output looks for the inputs that reach it.
KERNEL spread_out(const float* in, const float* weights, float* out, int channels, int w, int h, int filters)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, f = blockIdx.z;
    int out_w = 2 * w + 1, out_h = 2 * h + 1;
    if (x >= out_w || y >= out_h) return;
    float sum = 0.0f;
    for (int j = y & 1; j < 3; j += 2) {
        int row = (y - j) / 2;
        if (y - j < 0 || row >= h) continue;
        for (int i = x & 1; i < 3; i += 2) {
            int column = (x - i) / 2;
            if (x - i < 0 || column >= w) continue;
            for (int c = 0; c < channels; ++c)
                sum += in[(c * h + row) * w + column] * weights[((c * filters + f) * 3 + j) * 3 + i];
        }
    }
    out[(f * out_h + y) * out_w + x] = sum;
}

// A causal convolution along time whose taps are four steps apart, from shared memory.
template <int TAPS, int APART>
__device__ void dilated(const float* in, const float* taps, float* out, int n)
{
    __shared__ float s[96 + (TAPS - 1) * APART];
    const int before = (TAPS - 1) * APART;
    int row = blockIdx.y, start = blockIdx.x * 96;
    for (int i = threadIdx.x; i < 96 + before; i += 96) {
        int at = start + i - before;
        s[i] = at >= 0 && at < n ? in[row * n + at] : 0.0f;
    }
    __syncthreads();
    int at = start + threadIdx.x;
    if (at >= n) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < TAPS; ++k) sum += taps[row * TAPS + k] * s[threadIdx.x + before - k * APART];
    out[row * n + at] = sum > 0.0f ? sum : 0.2f * sum;
}

KERNEL causal_5(const float* in, const float* taps, float* out, int n) { dilated<5, 4>(in, taps, out, n); }

KERNEL average_pool(const float* in, float* out, int w, int h, int out_w, int out_h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = threadIdx.y, c = blockIdx.y;
    if (x >= out_w || y >= out_h) return;
    int left = max(2 * x - 1, 0), right = min(2 * x + 2, w), top = max(2 * y - 1, 0), bottom = min(2 * y + 2, h);
    float sum = 0.0f;
    for (int j = top; j < bottom; ++j)
        for (int i = left; i < right; ++i) sum += in[(c * h + j) * w + i];
    out[(c * out_h + y) * out_w + x] = sum / ((right - left) * (bottom - top));
}

// Slopes go back to where the largest values were; places may be shared by windows that overlap.
KERNEL unpool(const float* slopes, const unsigned short* places, float* out, int pooled, int pixels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y;
    if (i < pooled) atomicAdd(&out[c * pixels + places[c * pooled + i]], slopes[c * pooled + i]);
}

// What flows back to rows of a table that words looked up; a word may be there more than once.
KERNEL look_up_slopes(const int* words, const float2* slopes, float* table, int n, int pairs)
{
    int k = blockIdx.x * blockDim.y + threadIdx.y;
    if (k >= n) return;
    int word = words[k];
    if (word < 0) return;
    for (int i = threadIdx.x; i < pairs; i += 32) {
        float2 g = slopes[k * pairs + i];
        atomicAdd(&table[(word * pairs + i) * 2], g.x);
        atomicAdd(&table[(word * pairs + i) * 2 + 1], g.y);
    }
}

// One query against all keys; each warp has keys of its own, and what warps found is joined by their maxima.
KERNEL decode(const float* q, const float* keys, const float* values, float* out, int n, float scale)
{
    __shared__ float tops[4], weights[4], parts[4][64];
    int head = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float2 query = ((const float2*)(q + head * 64))[lane], sum = make_float2(0.0f, 0.0f);
    float top = -1e30f, weight = 0.0f;
    for (int k = warp; k < n; k += 4) {
        float2 key = ((const float2*)(keys + (head * n + k) * 64))[lane];
        float score = warp_sum(query.x * key.x + query.y * key.y) * scale;
        if (score > top) {
            float shrink = expf(top - score);
            weight *= shrink;
            sum.x *= shrink;
            sum.y *= shrink;
            top = score;
        }
        float p = expf(score - top);
        float2 value = ((const float2*)(values + (head * n + k) * 64))[lane];
        weight += p;
        sum.x += p * value.x;
        sum.y += p * value.y;
    }
    if (lane == 0) { tops[warp] = top; weights[warp] = weight; }
    ((float2*)parts[warp])[lane] = sum;
    __syncthreads();
    if (threadIdx.x < 64) {
        float most = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3])), whole = 0.0f, total = 0.0f;
        for (int w = 0; w < 4; ++w) {
            float factor = expf(tops[w] - most);
            whole += factor * weights[w];
            total += factor * parts[w][threadIdx.x];
        }
        out[head * 64 + threadIdx.x] = total / whole;
    }
}

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// A gated recurrent unit's step from products that are there already.
KERNEL gated_step(const float* inputs, const float* states, const float* bias, float* hidden, int batch, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * n) return;
    int row = i / n, k = i % n;
    const float *x = inputs + row * 3 * n, *h = states + row * 3 * n;
    float reset = sigmoid(x[k] + h[k]), update = sigmoid(x[n + k] + h[n + k]);
    float fresh = tanhf(x[2 * n + k] + reset * (h[2 * n + k] + bias[k]));
    hidden[i] = (1.0f - update) * fresh + update * hidden[i];
}

// Bytes of four channels at once: a convolution of three by three by products of packed bytes, rounded to bytes again.
KERNEL convolve_bytes(const int* in, const int* weights, const int* bias, signed char* out, int w, int h, int packs,
                      int filters, float scale)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    for (int f = 0; f < filters; ++f) {
        int sum = bias[f];
        for (int j = -1; j <= 1; ++j)
            for (int i = -1; i <= 1; ++i) {
                if (y + j < 0 || y + j >= h || x + i < 0 || x + i >= w) continue;
                const int* a = in + ((y + j) * w + x + i) * packs;
                const int* b = weights + ((f * 3 + j + 1) * 3 + i + 1) * packs;
                for (int p = 0; p < packs; ++p) sum = __dp4a(a[p], b[p], sum);
            }
        out[(y * w + x) * filters + f] = max(-128, min(127, __float2int_rn(sum * scale)));
    }
}

// Blocks of 32 weights as numbers of four bits, with the least value and the step of each block.
KERNEL to_nibbles(const float* a, unsigned* out, float2* ranges, int blocks)
{
    int block = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (block >= blocks) return;
    float x = a[block * 32 + lane], low = x, high = x;
    for (int d = 16; d; d /= 2) {
        low = fminf(low, __shfl_xor_sync(ALL, low, d));
        high = fmaxf(high, __shfl_xor_sync(ALL, high, d));
    }
    float step = (high - low) / 15.0f;
    unsigned code = step > 0.0f ? min(15, (int)((x - low) / step + 0.5f)) : 0, word = code << 4 * (lane % 8);
    for (int d = 4; d; d /= 2) word |= __shfl_down_sync(ALL, word, d, 8);
    if (lane % 8 == 0) out[block * 4 + lane / 8] = word;
    if (lane == 0) ranges[block] = make_float2(low, step);
}

// Convolutions of three by three, four outputs a thread with sixteen products instead of thirty-six.
KERNEL winograd(const float* in, const float* taps, float* out, int w, int h)
{
    __shared__ float g[4][4];
    if (threadIdx.x < 4 && threadIdx.y == 0) {
        int i = threadIdx.x;
        float row[3];
        for (int j = 0; j < 3; ++j) {
            float a = taps[j], b = taps[3 + j], c = taps[6 + j];
            row[j] = i == 0 ? a : i == 1 ? 0.5f * (a + b + c) : i == 2 ? 0.5f * (a - b + c) : c;
        }
        g[i][0] = row[0];
        g[i][1] = 0.5f * (row[0] + row[1] + row[2]);
        g[i][2] = 0.5f * (row[0] - row[1] + row[2]);
        g[i][3] = row[2];
    }
    __syncthreads();
    int x = (blockIdx.x * blockDim.x + threadIdx.x) * 2, y = (blockIdx.y * blockDim.y + threadIdx.y) * 2;
    if (x >= w || y >= h) return;
    float d[4][4], m[4][4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int column = x + i - 1, row = y + j - 1;
            d[j][i] = column >= 0 && row >= 0 && column < w && row < h ? in[row * w + column] : 0.0f;
        }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float a = d[0][i] - d[2][i], b = d[1][i] + d[2][i], c = d[2][i] - d[1][i], e = d[1][i] - d[3][i];
        d[0][i] = a; d[1][i] = b; d[2][i] = c; d[3][i] = e;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        m[j][0] = (d[j][0] - d[j][2]) * g[j][0];
        m[j][1] = (d[j][1] + d[j][2]) * g[j][1];
        m[j][2] = (d[j][2] - d[j][1]) * g[j][2];
        m[j][3] = (d[j][1] - d[j][3]) * g[j][3];
    }
    float upper[4], lower[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        upper[i] = m[0][i] + m[1][i] + m[2][i];
        lower[i] = m[1][i] - m[2][i] - m[3][i];
    }
    out[y * w + x] = upper[0] + upper[1] + upper[2];
    if (x + 1 < w) out[y * w + x + 1] = upper[1] - upper[2] - upper[3];
    if (y + 1 < h) {
        out[(y + 1) * w + x] = lower[0] + lower[1] + lower[2];
        if (x + 1 < w) out[(y + 1) * w + x + 1] = lower[1] - lower[2] - lower[3];
    }
}

// The likeliest path through hidden states, costs as integers; a sequence a block, a state a thread.
KERNEL viterbi(const int* moves, const int* costs, const unsigned char* seen, unsigned char* path, int* total,
               int states, int symbols, int length)
{
    extern __shared__ int shared[];
    int* now = shared;
    unsigned char* from = (unsigned char*)(shared + 2 * states);
    int s = threadIdx.x;
    seen += blockIdx.x * length; path += blockIdx.x * length;
    if (s < states) now[s] = costs[s * symbols + seen[0]];
    for (int step = 1; step < length; ++step) {
        __syncthreads();
        const int* last = shared + (step - 1 & 1) * states;
        if (s < states) {
            int best = last[0] + moves[s], at = 0;
            for (int k = 1; k < states; ++k) {
                int c = last[k] + moves[k * states + s];
                if (c < best) { best = c; at = k; }
            }
            shared[(step & 1) * states + s] = best + costs[s * symbols + seen[step]];
            from[step * states + s] = at;
        }
    }
    __syncthreads();
    if (s != 0) return;
    const int* last = shared + (length - 1 & 1) * states;
    int at = 0;
    for (int k = 1; k < states; ++k) if (last[k] < last[at]) at = k;
    total[blockIdx.x] = last[at];
    for (int step = length - 1; step > 0; --step) { path[step] = at; at = from[step * states + at]; }
    path[0] = at;
}

__device__ unsigned mixed(unsigned x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// The error function's own unit, then a mask that a hash of the place draws.
KERNEL gelu_dropout(const float2* in, float2* out, unsigned seed, int pairs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    float2 x = in[i];
    unsigned drawn = mixed(i + seed);
    x.x = (drawn & 0xffff) < 0xc000 ? 0.5f * x.x * (1.0f + erff(x.x * 0.70710678f)) * 1.3333334f : 0.0f;
    x.y = drawn >> 16 < 0xc000 ? 0.5f * x.y * (1.0f + erff(x.y * 0.70710678f)) * 1.3333334f : 0.0f;
    out[i] = x;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _sizes(*numbers):
    return tuple(cupy.int32(n) for n in numbers)


def group_norm(a, scale, shift, out):
    images, channels, pixels = a.shape
    _run("group_norm", (channels // 3, images), (128,), a, scale, shift, out, *_sizes(channels, pixels, 3))


def batch_norm(a, out, mean, variance):
    images, channels, pixels = a.shape
    _run("batch_norm", (channels,), (64,), a, out, mean, variance, *_sizes(images, channels, pixels))


def norm_slopes(x, scale, slope, out):
    rows, n = x.shape
    _run("norm_slopes", ((rows + 1) // 2,), (64,), x, scale, slope, out, *_sizes(rows, n))


def softmax_slopes(p, slope, out):
    _run("softmax_slopes", (len(p),), (64,), p, slope, out, *_sizes(p.shape[1]))


def huber(a, b, slope, loss):
    _run("huber", (1,), (160,), a, b, slope, loss, *_sizes(a.size), cupy.float32(0.75))


def yes_or_no(logits, labels, loss, slope):
    _run("yes_or_no", (2,), (128,), logits, labels, loss, slope, *_sizes(logits.size))


def nesterov(weights, speeds, slopes):
    _run("nesterov", (1,), (96,), weights, speeds, slopes, *_sizes(weights.size // 4), cupy.float32(0.05))


def clipped_rmsprop(weights, squares, slopes):
    parts = cupy.empty(3, cupy.float32)
    _run("squares_of_parts", (3,), (128,), slopes, parts, *_sizes(slopes.size))
    numbers = *_sizes(3, slopes.size), cupy.float32(2)
    _run("clipped_rmsprop", (4,), (128,), weights, squares, slopes, parts, *numbers)


def spread_out(a, weights, out):
    (channels, h, w), filters = a.shape, weights.shape[1]
    _run(
        "spread_out",
        ((2 * w + 16) // 16, (2 * h + 8) // 8, filters),
        (16, 8),
        a,
        weights,
        out,
        *_sizes(channels, w, h, filters),
    )


def causal_5(a, taps, out):
    rows, n = a.shape
    _run("causal_5", ((n + 95) // 96, rows), (96,), a, taps, out, *_sizes(n))


def average_pool(a, out):
    (channels, h, w), (_, out_h, out_w) = a.shape, out.shape
    _run("average_pool", ((out_w + 15) // 16, channels), (16, 8), a, out, *_sizes(w, h, out_w, out_h))


def unpool(slopes, places, out):
    channels, pooled = slopes.shape
    _run("unpool", ((pooled + 63) // 64, channels), (64,), slopes, places, out, *_sizes(pooled, out.shape[1]))


def look_up_slopes(words, slopes, table):
    _run(
        "look_up_slopes",
        ((words.size + 3) // 4,),
        (32, 4),
        words,
        slopes,
        table,
        *_sizes(words.size, table.shape[1] // 2),
    )


def decode(q, keys, values, out):
    _run("decode", (len(q),), (128,), q, keys, values, out, *_sizes(keys.shape[1]), cupy.float32(0.125))


def gated_step(inputs, states, bias, hidden):
    batch, n = hidden.shape
    _run("gated_step", ((batch * n + 127) // 128,), (128,), inputs, states, bias, hidden, *_sizes(batch, n))


def convolve_bytes(a, weights, bias, out):
    h, w, channels = a.shape
    numbers = *_sizes(w, h, channels // 4, len(weights)), cupy.float32(1 / 1024)
    _run("convolve_bytes", ((w + 15) // 16, (h + 3) // 4), (16, 4), a, weights, bias, out, *numbers)


def to_nibbles(a, codes, ranges):
    _run("to_nibbles", (2,), (128,), a, codes, ranges, *_sizes(len(ranges)))


def winograd(a, taps, out):
    h, w = a.shape
    _run("winograd", ((w + 31) // 32, (h + 7) // 8), (16, 4), a, taps, out, *_sizes(w, h))


def viterbi(moves, costs, seen, path, total):
    states, length = len(moves), seen.shape[1]
    numbers = _sizes(states, costs.shape[1], length)
    _run("viterbi", (len(seen),), (32,), moves, costs, seen, path, total, *numbers, shared=8 * states + states * length)


def gelu_dropout(a, out):
    _run("gelu_dropout", (3,), (64,), a, out, cupy.uint32(77), *_sizes(a.size // 2))
