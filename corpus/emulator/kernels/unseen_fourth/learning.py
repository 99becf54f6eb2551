"""The fourth set of kernels that no rule of counting was made from: layers, sampling, routing and narrow numbers."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

// Attention without a softmax: the sum of keys by values is kept, a column of it a thread.
KERNEL linear_attention(const float* q, const float* k, const float* v, float* out, int length, float decay)
{
    __shared__ float4 keys[4], queries[4];
    float4 state[4];
    int t = threadIdx.x;
    for (int i = 0; i < 4; ++i) state[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    q += blockIdx.x * length * 16; k += blockIdx.x * length * 16;
    v += blockIdx.x * length * 48; out += blockIdx.x * length * 48;
    for (int s = 0; s < length; ++s) {
        __syncthreads();
        if (t < 16) reinterpret_cast<float*>(keys)[t] = k[s * 16 + t];
        else if (t < 32) reinterpret_cast<float*>(queries)[t - 16] = q[s * 16 + t - 16];
        __syncthreads();
        float value = v[s * 48 + t], sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float4 a = keys[i], b = queries[i];
            state[i].x = decay * state[i].x + a.x * value;
            state[i].y = decay * state[i].y + a.y * value;
            state[i].z = decay * state[i].z + a.z * value;
            state[i].w = decay * state[i].w + a.w * value;
            sum += b.x * state[i].x + b.y * state[i].y + b.z * state[i].z + b.w * state[i].w;
        }
        out[s * 48 + t] = sum;
    }
}

// A selective scan: each channel has a state of four numbers, whose step depends on the input; in halves outside.
KERNEL selective_scan(const __half* x, const __half* step, const float4* rate, const float4* in, const float4* read,
                      __half* y, int length, int channels)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    float4 a = rate[c], h = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int t = 0; t < length; ++t) {
        float u = __half2float(x[t * channels + c]), d = __half2float(step[t * channels + c]);
        float4 b = in[t], o = read[t];
        h.x = expf(-d * a.x) * h.x + d * b.x * u;
        h.y = expf(-d * a.y) * h.y + d * b.y * u;
        h.z = expf(-d * a.z) * h.z + d * b.z * u;
        h.w = expf(-d * a.w) * h.w + d * b.w * u;
        y[t * channels + c] = __float2half(h.x * o.x + h.y * o.y + h.z * o.z + h.w * o.w);
    }
}

// A word is drawn from the likeliest ones that together have a given share: sorted by size, summed, searched.
KERNEL draw_from_top(const int* weights, const float* chances, int* word, int* kept, int n, float share)
{
    __shared__ long long keys[128];
    __shared__ int sums[4], held;
    int t = threadIdx.x, lane = t & 31, row = blockIdx.x;
    keys[t] = t < n ? (long long)weights[row * n + t] << 8 | (127 - t) : -1;
    for (int size = 2; size <= 128; size *= 2)
        for (int d = size / 2; d; d /= 2) {
            __syncthreads();
            int other = t ^ d;
            if (other > t) {
                long long a = keys[t], b = keys[other];
                if ((a < b) == ((t & size) == 0)) { keys[t] = b; keys[other] = a; }
            }
        }
    if (t == 0) held = n;
    __syncthreads();
    int weight = keys[t] < 0 ? 0 : (int)(keys[t] >> 8), sum = weight;
    for (int d = 1; d < 32; d *= 2) {
        int before = __shfl_up_sync(ALL, sum, d);
        if (lane >= d) sum += before;
    }
    if (lane == 31) sums[t / 32] = sum;
    __syncthreads();
    int all = sums[0] + sums[1] + sums[2] + sums[3];
    for (int k = 0; k < t / 32; ++k) sum += sums[k];
    int wanted = (int)(share * all);
    if (sum >= wanted && sum - weight < wanted) held = t + 1;
    __syncthreads();
    // The last one that is kept says how much all kept ones weigh.
    if (t == held - 1) sums[0] = sum;
    __syncthreads();
    int drawn = (int)(chances[row] * sums[0]);
    if (t < held && drawn < sum && drawn >= sum - weight) word[row] = 127 - (int)(keys[t] & 255);
    if (t == 0) kept[row] = held;
}

__device__ unsigned mixed(unsigned x)
{
    x ^= x >> 16; x *= 0x7feb352du;
    x ^= x >> 15; x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// A class is drawn by adding noise of Gumbel's to the logits and taking the largest, a warp a row.
KERNEL gumbel_draws(const float* logits, int* out, int rows, int n, unsigned seed)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= rows) return;
    float most = -1e30f;
    int at = 0;
    for (int i = warp.thread_rank(); i < n; i += 32) {
        float u = ((mixed(seed + row * n + i) >> 8) + 0.5f) * (1.0f / 16777216.0f);
        float score = logits[row * n + i] - logf(-logf(u));
        if (score > most) { most = score; at = i; }
    }
    float whole = cg::reduce(warp, most, cg::greater<float>());
    at = cg::reduce(warp, most == whole ? at : n, cg::less<int>());
    if (warp.thread_rank() == 0) out[row] = at;
}

// The residual is added, and rows are divided by the root of their mean square; eight halves a load.
KERNEL add_and_normalise(const uint4* x, uint4* residual, const uint4* gain, uint4* out, int n, float small)
{
    __shared__ float sums[2];
    int t = threadIdx.x, at = blockIdx.x * n + t;
    uint4 a = x[at], b = residual[at], g = gain[t];
    __half2* p = reinterpret_cast<__half2*>(&a);
    const __half2* q = reinterpret_cast<const __half2*>(&b);
    const __half2* s = reinterpret_cast<const __half2*>(&g);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        p[k] = __hadd2(p[k], q[k]);
        float2 f = __half22float2(p[k]);
        sum += f.x * f.x + f.y * f.y;
    }
    residual[at] = a;
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(ALL, sum, d);
    if (t % 32 == 0) sums[t / 32] = sum;
    __syncthreads();
    float scale = rsqrtf((sums[0] + sums[1]) / (8 * n) + small);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float2 f = __half22float2(p[k]), w = __half22float2(s[k]);
        p[k] = __floats2half2_rn(f.x * scale * w.x, f.y * scale * w.y);
    }
    out[at] = a;
}

// Products of bytes by fours, with the zero point of one side taken out and results brought back to bytes.
KERNEL byte_product(const int* a, const int* b, const int* b_sums, const int2* scales, unsigned char* c, int n,
                    int words, int zero)
{
    __shared__ int as[16][9], bs[16][9];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x, sum = 0;
    for (int k = 0; k < words; k += 8) {
        if (x < 8) as[y][x] = a[row * words + k + x];
        else bs[y][x - 8] = b[(blockIdx.x * 16 + y) * words + k + x - 8];
        __syncthreads();
#pragma unroll
        for (int w = 0; w < 8; ++w) sum = __dp4a(as[y][w], bs[x][w], sum);
        __syncthreads();
    }
    int2 scale = scales[column];
    sum -= zero * b_sums[column];
    long long wide = (long long)sum * scale.x + (1ll << (scale.y - 1));
    c[row * n + column] = min(max((int)(wide >> scale.y) + 128, 0), 255);
}

__device__ float log_add(float a, float b)
{
    float most = fmaxf(a, b);
    return most < -1e29f ? most : most + logf(expf(a - most) + expf(b - most));
}

// How likely a text is of frames, over all ways to stretch it with blanks: a text a block, in logarithms.
KERNEL alignment_loss(const float* scores, const unsigned char* texts, float* loss, int frames, int symbols,
                      int letters)
{
    __shared__ float chance[2][64];
    int t = threadIdx.x, places = 2 * letters + 1;
    scores += blockIdx.x * frames * symbols; texts += blockIdx.x * letters;
    int symbol = t < places && (t & 1) ? texts[t / 2] : 0;
    bool skips = t >= 3 && (t & 1) && t < places && texts[t / 2] != texts[t / 2 - 1];
    chance[0][t] = t < 2 ? scores[symbol] : -1e30f;
    for (int f = 1; f < frames; ++f) {
        __syncthreads();
        const float* last = chance[(f - 1) & 1];
        float sum = last[t];
        if (t > 0) sum = log_add(sum, last[t - 1]);
        if (skips) sum = log_add(sum, last[t - 2]);
        chance[f & 1][t] = t < places ? sum + scores[f * symbols + symbol] : -1e30f;
    }
    __syncthreads();
    if (t == 0) {
        const float* last = chance[(frames - 1) & 1];
        loss[blockIdx.x] = -log_add(last[places - 1], last[places - 2]);
    }
}

// Each token goes to its two best experts while they have room; places in order of the tokens, a layer a block.
KERNEL route_tokens(const float* scores, int2* expert, int2* place, int* load, int tokens, int room)
{
    __shared__ int counts[16][4], before[16];
    int t = threadIdx.x, lane = t & 31, warp = t / 32;
    scores += blockIdx.x * tokens * 16;
    expert += blockIdx.x * tokens; place += blockIdx.x * tokens; load += blockIdx.x * 16;
    if (t < 16) before[t] = 0;
    for (int base = 0; base < tokens; base += 128) {
        int token = base + t, best = -1, second = -1;
        if (token < tokens) {
            float most = -1e30f, next = -1e30f;
            for (int e = 0; e < 16; ++e) {
                float s = scores[token * 16 + e];
                if (s > most) { next = most; second = best; most = s; best = e; }
                else if (s > next) { next = s; second = e; }
            }
        }
        int own[2] = {-1, -1};
        for (int e = 0; e < 16; ++e) {
            unsigned votes = __ballot_sync(ALL, best == e || second == e);
            if (lane == 0) counts[e][warp] = __popc(votes);
            int ahead = __popc(votes & ((1u << lane) - 1));
            if (best == e) own[0] = ahead;
            if (second == e) own[1] = ahead;
        }
        __syncthreads();
        if (token < tokens) {
            for (int k = 0; k < 2; ++k) {
                int e = k ? second : best, at = before[e] + own[k];
                for (int w = 0; w < warp; ++w) at += counts[e][w];
                own[k] = at < room ? at : -1;
            }
            expert[token] = make_int2(best, second);
            place[token] = make_int2(own[0], own[1]);
        }
        __syncthreads();
        if (t < 16) before[t] += counts[t][0] + counts[t][1] + counts[t][2] + counts[t][3];
        __syncthreads();
    }
    if (t < 16) load[t] = min(before[t], room);
}

// Boxes in order of their scores: one that covers much of a later one drops it. Masks of 64 boxes, then one warp.
KERNEL cover_masks(const short4* boxes, unsigned long long* masks, int n, int words)
{
    __shared__ short4 others[64];
    int t = threadIdx.x, i = blockIdx.y * 64 + t, first = blockIdx.x * 64;
    if (first + t < n) others[t] = boxes[first + t];
    __syncthreads();
    if (i >= n) return;
    short4 a = boxes[i];
    unsigned long long mask = 0;
    int size = (a.z - a.x) * (a.w - a.y);
    for (int k = 0; k < 64 && first + k < n; ++k) {
        if (first + k <= i) continue;
        short4 b = others[k];
        int across = min(a.z, b.z) - max(a.x, b.x), down = min(a.w, b.w) - max(a.y, b.y);
        if (across <= 0 || down <= 0) continue;
        int both = across * down, either = size + (b.z - b.x) * (b.w - b.y) - both;
        if (both * 10 > either * 4) mask |= 1ull << k;
    }
    masks[i * words + blockIdx.x] = mask;
}

KERNEL keep_boxes(const unsigned long long* masks, unsigned char* kept, int n, int words)
{
    unsigned long long dropped = 0;
    for (int i = 0; i < n; ++i) {
        unsigned long long word = __shfl_sync(ALL, dropped, i / 64);
        bool keep = !(word >> (i % 64) & 1);
        if (threadIdx.x == 0) kept[i] = keep;
        if (keep && threadIdx.x < words) dropped |= masks[i * words + threadIdx.x];
    }
}

// Of every four weights the two largest stay: their values, and their places in four bits.
KERNEL two_of_four(const char4* in, char2* values, unsigned* places, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned bits = 0;
    if (i < n) {
        char4 v = in[i];
        signed char a[4] = {v.x, v.y, v.z, v.w};
        int first = 0, second = -1;
        for (int k = 1; k < 4; ++k) if (abs(a[k]) > abs(a[first])) first = k;
        for (int k = 0; k < 4; ++k) if (k != first && (second < 0 || abs(a[k]) > abs(a[second]))) second = k;
        int low = min(first, second), high = max(first, second);
        values[i] = make_char2(a[low], a[high]);
        bits = low | high << 2;
    }
    unsigned word = bits << (4 * (threadIdx.x & 7));
    for (int d = 1; d < 8; d *= 2) word |= __shfl_xor_sync(ALL, word, d);
    if (i < n && (threadIdx.x & 7) == 0) places[i / 8] = word;
}

__device__ unsigned nibble_of(float x)
{
    float size = fabsf(x);
    unsigned code = size < 0.25f ? 0 : size < 0.75f ? 1 : size < 1.25f ? 2 : size < 1.75f ? 3 : size < 2.5f ? 4
        : size < 3.5f ? 5 : size < 5.0f ? 6 : 7;
    return code | (x < 0.0f ? 8 : 0);
}

// Numbers of four bits with a power of two for each sixteen; a half warp a group.
KERNEL to_four_bits(const float* in, unsigned char* codes, signed char* exponents, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = i < n ? in[i] : 0.0f, most = fabsf(x);
    for (int d = 8; d; d >>= 1) most = fmaxf(most, __shfl_xor_sync(ALL, most, d, 16));
    int exponent = most > 0.0f ? ilogbf(most) - 2 : 0;
    unsigned code = nibble_of(ldexpf(x, -exponent)), other = __shfl_down_sync(ALL, code, 1);
    if (i >= n) return;
    if ((i & 1) == 0) codes[i / 2] = code | other << 4;
    if ((i & 15) == 0) exponents[i / 16] = exponent;
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def linear_attention(q, k, v, out):
    heads, length, _ = q.shape
    _run("linear_attention", (heads,), (48,), q, k, v, out, *_ints(length), cupy.float32(0.875))


def selective_scan(x, step, rate, into, read, y):
    _run("selective_scan", (3,), (32,), x, step, rate, into, read, y, *_ints(*x.shape))


def draw_from_top(weights, chances, word, kept):
    rows, n = weights.shape
    _run("draw_from_top", (rows,), (128,), weights, chances, word, kept, *_ints(n), cupy.float32(0.75))


def gumbel_draws(logits, out):
    _run("gumbel_draws", (6,), (128,), logits, out, *_ints(*logits.shape), cupy.uint32(2026))


def add_and_normalise(x, residual, gain, out):
    rows, n = x.shape
    _run("add_and_normalise", (rows,), (n // 8,), x, residual, gain, out, *_ints(n // 8), cupy.float32(1e-5))


def byte_product(a, b, sums, scales, c):
    m, n = c.shape
    _run("byte_product", (n // 16, m // 16), (16, 16), a, b, sums, scales, c, *_ints(n, a.shape[1] // 4, 7))


def alignment_loss(scores, texts, loss):
    n, frames, symbols = scores.shape
    _run("alignment_loss", (n,), (64,), scores, texts, loss, *_ints(frames, symbols, texts.shape[1]))


def route_tokens(scores, expert, place, load):
    _run("route_tokens", (len(scores),), (128,), scores, expert, place, load, *_ints(scores.shape[1], 30))


def suppress(boxes, masks, kept):
    n, words = masks.shape
    _run("cover_masks", (words, words), (64,), boxes, masks, *_ints(n, words))
    _run("keep_boxes", (1,), (32,), masks, kept, *_ints(n, words))


def two_of_four(a, values, places):
    _run("two_of_four", (4,), (64,), a, values, places, *_ints(len(a)))


def to_four_bits(a, codes, exponents):
    _run("to_four_bits", (4,), (128,), a, codes, exponents, *_ints(a.size))
