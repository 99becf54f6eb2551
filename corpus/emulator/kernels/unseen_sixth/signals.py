"""The sixth set of kernels that no rule of counting was made from: sound, filters, images, maps of distances."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;

// The strength of a few tones in each frame, by Goertzel's recurrence; a tone a thread, frames by rows of the block.
KERNEL goertzel(const float* frames, const double* factors, double* out, int size, int tones, int n)
{
    int tone = threadIdx.x, frame = blockIdx.x * blockDim.y + threadIdx.y;
    if (tone >= tones || frame >= n) return;
    double f = factors[tone], a = 0, b = 0;
    for (int k = 0; k < size; ++k) {
        double now = frames[frame * size + k] + f * a - b;
        b = a;
        a = now;
    }
    out[frame * tones + tone] = a * a + b * b - f * a * b;
}

// Sound of four bits a sample back to sixteen: steps from a table that grow and shrink.
__constant__ short step_sizes[89] = {
    7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107,
    118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796, 876, 963,
    1060, 1166, 1282, 1411, 1552, 1707, 1878, 2066, 2272, 2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894,
    6484, 7132, 7845, 8630, 9493, 10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794,
    32767};
__constant__ signed char step_moves[8] = {-1, -1, -1, -1, 2, 4, 6, 8};

KERNEL adpcm(const unsigned* packed, short* out, int words, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int value = 0, at = 0;
    for (int w = 0; w < words; ++w) {
        unsigned word = packed[w * n + i];
        for (int k = 0; k < 8; ++k, word >>= 4) {
            int code = word & 15, size = step_sizes[at], change = size >> 3;
            if (code & 1) change += size >> 2;
            if (code & 2) change += size >> 1;
            if (code & 4) change += size;
            value += code & 8 ? -change : change;
            value = max(-32768, min(32767, value));
            at = max(0, min(88, at + step_moves[code & 7]));
            out[(w * 8 + k) * n + i] = value;
        }
    }
}

// Sixteen-bit samples to eight bits by logarithm, four at a time.
__device__ unsigned mu_law(int sample)
{
    unsigned sign = sample < 0 ? 0x80 : 0, size = min(abs(sample), 32635) + 132;
    int exponent = 24 - __clz(size);
    return ~(sign | exponent << 4 | (size >> (exponent + 3) & 15)) & 255;
}

KERNEL to_mu_law(const short4* in, uchar4* out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        short4 s = in[i];
        out[i] = make_uchar4(mu_law(s.x), mu_law(s.y), mu_law(s.z), mu_law(s.w));
    }
}

// How often each frame of sound crosses zero, and the longest stretch without: bits of signs by warps.
KERNEL zero_crossings(const float* frames, int* count, int* longest, int words)
{
    __shared__ unsigned signs[33];
    int lane = threadIdx.x & 31;
    const float* own = frames + blockIdx.x * words * 32;
    for (int w = threadIdx.x >> 5; w < words; w += blockDim.x >> 5) {
        unsigned bits = __ballot_sync(ALL, own[w * 32 + lane] < 0);
        if (lane == 0) signs[w] = bits;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    int crossings = 0;
    if (lane < words) {
        unsigned bits = signs[lane], next = lane + 1 < words ? signs[lane + 1] : bits >> 31;
        crossings = __popc(bits ^ __funnelshift_r(bits, next, 1));
    }
    crossings = __reduce_add_sync(ALL, crossings);
    if (lane) return;
    count[blockIdx.x] = crossings;
    int most = 0, last = -1;
    for (int w = 0; w < words; ++w) {
        unsigned next = w + 1 < words ? signs[w + 1] : signs[w] >> 31;
        unsigned ends = signs[w] ^ __funnelshift_r(signs[w], next, 1);
        while (ends) {
            int at = w * 32 + __ffs(ends) - 1;
            most = max(most, at - last);
            last = at;
            ends &= ends - 1;
        }
    }
    longest[blockIdx.x] = max(most, words * 32 - 1 - last);
}

// Takes noise away by a filter that learns from what is left over; a channel a thread, eight weights.
KERNEL learn_filter(const double* heard, const double* noise, double* out, double rate, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double weight[8] = {}, past[8] = {};
    for (int k = 0; k < size; ++k) {
#pragma unroll
        for (int j = 7; j > 0; --j) past[j] = past[j - 1];
        past[0] = noise[k * n + i];
        double guess = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) guess += weight[j] * past[j];
        double left = heard[k * n + i] - guess;
#pragma unroll
        for (int j = 0; j < 8; ++j) weight[j] += rate * left * past[j];
        out[k * n + i] = left;
    }
}

// Sums of sums, every eighth, differences of differences: a filter of whole numbers that may run over.
KERNEL decimate_by_sums(const signed char* in, int* out, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = 0, b = 0, c = 0, da = 0, db = 0, dc = 0;
    for (int k = 0; k < size; ++k) {
        a += (int)in[i * size + k] << 20;
        b += a;
        c += b;
        if (k % 8 != 7) continue;
        unsigned x = c - da;
        da = c;
        unsigned y = x - db;
        db = x;
        out[k / 8 * n + i] = (int)(y - dc) >> 9;
        dc = y;
    }
}

// Pitch of frames: where a frame is most like itself, a shift a thread.
KERNEL pitch(const short* frames, int* out, int size, int low)
{
    extern __shared__ short frame[];
    __shared__ u64 best[4];
    int t = threadIdx.x, shift = low + t;
    for (int k = t; k < size; k += blockDim.x) frame[k] = frames[blockIdx.x * size + k];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k + shift < size; ++k) sum += (int)frame[k] * frame[k + shift];
    u64 own = (u64)(sum + 0x80000000u) << 32 | (unsigned)(65535 - shift);
    for (int d = 16; d; d >>= 1) {
        u64 other = __shfl_xor_sync(ALL, own, d);
        if (other > own) own = other;
    }
    if (t % 32 == 0) best[t / 32] = own;
    __syncthreads();
    if (t) return;
    for (int k = 1; k < blockDim.x / 32; ++k) own = max(own, best[k]);
    out[blockIdx.x] = 65535 - (int)(own & 65535);
}

// Squares of distances to the nearest set pixel: first along columns, then by the lowest parabolas along rows.
KERNEL column_distances(const byte* image, int* down, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= w) return;
    int far = 100;
    for (int y = 0; y < h; ++y) {
        far = image[y * w + x] ? 0 : min(far + 1, 100);
        down[y * w + x] = far;
    }
    for (int y = h - 2; y >= 0; --y) {
        far = min(down[(y + 1) * w + x] + 1, 100);
        if (far < down[y * w + x]) down[y * w + x] = far;
    }
}

KERNEL row_distances(const int* down, int* out, int w, int h)
{
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= h) return;
    short at[48], from[49];
    int top = 0;
    const int* g = down + y * w;
    at[0] = 0;
    from[0] = 0;
    for (int x = 1; x < w; ++x) {
        int own = x * x + g[x] * g[x], start = 0;
        while (top >= 0) {
            int k = at[top], other = k * k + g[k] * g[k];
            start = own <= other ? 0 : (own - other) / (2 * (x - k)) + 1;
            if (start > from[top]) break;
            --top;
        }
        if (top < 0) start = 0;
        if (start >= w) continue;
        at[++top] = x;
        from[top] = start;
    }
    for (int x = w - 1; x >= 0; --x) {
        while (from[top] > x) --top;
        int k = at[top];
        out[y * w + x] = (x - k) * (x - k) + g[k] * g[k];
    }
}

// Cells around points of chance, one in each square of eight: the nearest and which it is.
__device__ unsigned scrambled(unsigned v)
{
    v = (v ^ v >> 16) * 0x7feb352du;
    v = (v ^ v >> 15) * 0x846ca68bu;
    return v ^ v >> 16;
}

KERNEL worley(int* nearest, byte* cell, int w, int h, unsigned seed)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int least = 1 << 30, which = 0;
    for (int j = -1; j <= 1; ++j)
        for (int i = -1; i <= 1; ++i) {
            int cx = (x >> 3) + i, cy = (y >> 3) + j;
            unsigned r = scrambled((unsigned)(cx * 7 + cy * 131) + seed);
            if (r >> 28 == 0) continue;
            int dx = cx * 8 + (r & 7) - x, dy = cy * 8 + (r >> 3 & 7) - y, far = dx * dx + dy * dy;
            if (far >= least) continue;
            least = far;
            which = r >> 8 & 255;
        }
    nearest[y * w + x] = least;
    cell[y * w + x] = which;
}

// How an image moves: slopes in windows of five, then two equations; none where the window has no corners.
KERNEL flow(const byte* first, const byte* second, float2* out, int w, int h)
{
    __shared__ short across[12][20], down[12][20], change[12][20];
    int left = blockIdx.x * 16 - 2, top = blockIdx.y * 8 - 2;
    for (int k = threadIdx.y * 16 + threadIdx.x; k < 12 * 20; k += 128) {
        int x = left + k % 20, y = top + k / 20;
        int gx = 0, gy = 0, gt = 0;
        if (x > 0 && y > 0 && x < w - 1 && y < h - 1) {
            int at = y * w + x;
            gx = first[at + 1] - first[at - 1];
            gy = first[at + w] - first[at - w];
            gt = second[at] - first[at];
        }
        across[k / 20][k % 20] = gx;
        down[k / 20][k % 20] = gy;
        change[k / 20][k % 20] = gt;
    }
    __syncthreads();
    int x = left + 2 + threadIdx.x, y = top + 2 + threadIdx.y;
    if (x >= w || y >= h) return;
    int xx = 0, xy = 0, yy = 0, xt = 0, yt = 0;
    for (int j = 0; j < 5; ++j)
        for (int i = 0; i < 5; ++i) {
            int a = across[threadIdx.y + j][threadIdx.x + i], b = down[threadIdx.y + j][threadIdx.x + i];
            int c = change[threadIdx.y + j][threadIdx.x + i];
            xx += a * a; xy += a * b; yy += b * b; xt += a * c; yt += b * c;
        }
    double area = (double)xx * yy - (double)xy * xy;
    float2 v = make_float2(0, 0);
    if (area > 1e6) {
        v.x = (float)(((double)xy * yt - (double)yy * xt) / area);
        v.y = (float)(((double)xy * xt - (double)xx * yt) / area);
    }
    out[y * w + x] = v;
}

// Four tracks of halves mixed to two, louder and softer over time, and cut off at one.
KERNEL mix_tracks(const __half2* tracks, const __half2* gains, __half2* out, int tracks_have, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half2 sum = __float2half2_rn(0.0f), one = __float2half2_rn(1.0f);
    for (int k = 0; k < tracks_have; ++k) sum = __hfma2(tracks[k * n + i], gains[k], sum);
    out[i] = __hmax2(__hneg2(one), __hmin2(one, sum));
}

// The edge of the first spot of each small picture, walked around with the wall on one side.
KERNEL walk_edges(const u64* pictures, int* lengths, int* areas, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 p = pictures[i];
    if (!p) { lengths[i] = areas[i] = 0; return; }
    int start = __ffsll(p) - 1, sx = start & 7, sy = start >> 3;
    int x = sx, y = sy, way = 0, steps = 0, area = 0;
    do {
        // At the corner (x, y), going right, down, left or up; the spot is on the right hand.
        int dx = way == 0 ? 1 : way == 2 ? -1 : 0, dy = way == 1 ? 1 : way == 3 ? -1 : 0;
        area -= y * dx;
        x += dx;
        y += dy;
        ++steps;
        // The squares ahead on the left and on the right of the corner that is reached.
        int lx = way == 0 || way == 1 ? x : x - 1, ly = way == 1 || way == 2 ? y : y - 1;
        int rx = way == 0 || way == 3 ? x : x - 1, ry = way == 0 || way == 1 ? y : y - 1;
        bool l = lx >= 0 && lx < 8 && ly >= 0 && ly < 8 && (p >> (ly * 8 + lx) & 1);
        bool r = rx >= 0 && rx < 8 && ry >= 0 && ry < 8 && (p >> (ry * 8 + rx) & 1);
        if (!r) way = (way + 1) & 3;
        else if (l) way = (way + 3) & 3;
    } while (x != sx || y != sy || way != 0);
    lengths[i] = steps;
    areas[i] = area;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    block = block if isinstance(block, tuple) else (block,)
    grid = grid if isinstance(grid, tuple) else (grid,)
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def goertzel(frames, factors, out):
    n, size = frames.shape
    _run("goertzel", (n + 7) // 8, (16, 8), frames, factors, out, *_ints(size, factors.size, n))


def adpcm(packed, out):
    _run("adpcm", 3, 32, packed, out, *_ints(*packed.shape))


def to_mu_law(samples, out):
    _run("to_mu_law", 2, 96, samples, out, *_ints(len(samples)))


def zero_crossings(frames, count, longest):
    _run("zero_crossings", count.size, 96, frames, count, longest, *_ints(frames.shape[1] // 32))


def learn_filter(heard, noise, out):
    _run("learn_filter", 2, 48, heard, noise, out, cupy.float64(0.02), *_ints(*heard.shape))


def decimate_by_sums(samples, out):
    n, size = samples.shape
    _run("decimate_by_sums", 3, 32, samples, out, *_ints(size, n))


def pitch(frames, out):
    size = frames.shape[1]
    _run("pitch", out.size, 96, frames, out, *_ints(size, 20), shared=2 * size)


def distances_to_set(image, down, out):
    h, w = image.shape
    _run("column_distances", 2, 32, image, down, *_ints(w, h))
    _run("row_distances", 2, 32, down, out, *_ints(w, h))


def worley(nearest, cell):
    h, w = nearest.shape
    _run("worley", ((w + 15) // 16, (h + 7) // 8), (16, 8), nearest, cell, *_ints(w, h), cupy.uint32(77))


def flow(first, second, out):
    h, w = first.shape
    _run("flow", ((w + 15) // 16, (h + 7) // 8), (16, 8), first, second, out, *_ints(w, h))


def mix_tracks(tracks, gains, out):
    k, n, _ = tracks.shape
    _run("mix_tracks", 3, 96, tracks, gains, out, *_ints(k, n))


def walk_edges(pictures, lengths, areas):
    _run("walk_edges", 3, 32, pictures, lengths, areas, *_ints(pictures.size))
