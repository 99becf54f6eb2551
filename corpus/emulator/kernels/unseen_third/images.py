"""The third set of kernels that no rule of counting was made from: colours, filters, shapes and paths in images."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void

__constant__ unsigned char bayer[8][8] = {
    {0, 32, 8, 40, 2, 34, 10, 42}, {48, 16, 56, 24, 50, 18, 58, 26}, {12, 44, 4, 36, 14, 46, 6, 38},
    {60, 28, 52, 20, 62, 30, 54, 22}, {3, 35, 11, 43, 1, 33, 9, 41}, {51, 19, 59, 27, 49, 17, 57, 25},
    {15, 47, 7, 39, 13, 45, 5, 37}, {63, 31, 55, 23, 61, 29, 53, 21}};

__device__ int clamped(int i, int n) { return min(max(i, 0), n - 1); }

// Luma and chroma in fixed point of sixteen bits.
KERNEL to_ycbcr(const uchar4* in, uchar4* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = in[i];
    int r = p.x, g = p.y, b = p.z;
    p.x = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
    p.y = ((-11059 * r - 21709 * g + 32768 * b + 32767) >> 16) + 128;
    p.z = ((32768 * r - 27439 * g - 5329 * b + 32767) >> 16) + 128;
    out[i] = p;
}

struct Colour { float r, g, b; };

__device__ float channel(float n, float hue, float s, float v)
{
    float k = fmodf(n + hue, 6.0f);
    return v - v * s * fmaxf(0.0f, fminf(fminf(k, 4.0f - k), 1.0f));
}

// To hue, saturation and value, and back with another hue.
KERNEL turn_hue(const Colour* in, Colour* out, int n, float turn)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        Colour c = in[i];
        float most = fmaxf(c.r, fmaxf(c.g, c.b)), spread = most - fminf(c.r, fminf(c.g, c.b)), hue = 0.0f;
        if (spread > 0.0f) {
            if (most == c.r) hue = (c.g - c.b) / spread;
            else if (most == c.g) hue = (c.b - c.r) / spread + 2.0f;
            else hue = (c.r - c.g) / spread + 4.0f;
        }
        hue += turn + 6.0f;
        float s = most > 0.0f ? spread / most : 0.0f;
        c.r = channel(5.0f, hue, s, most);
        c.g = channel(3.0f, hue, s, most);
        c.b = channel(1.0f, hue, s, most);
        out[i] = c;
    }
}

// A mean over a row's window as a running sum, a row a thread.
KERNEL box_rows(const unsigned char* in, unsigned char* out, int w, int h, int radius)
{
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= h) return;
    in += y * w; out += y * w;
    int sum = 0, count = 0;
    for (int x = 0; x < min(radius, w); ++x) { sum += in[x]; ++count; }
    for (int x = 0; x < w; ++x) {
        if (x + radius < w) { sum += in[x + radius]; ++count; }
        if (x - radius - 1 >= 0) { sum -= in[x - radius - 1]; --count; }
        out[x] = sum / count;
    }
}

// The largest value within two steps, from a tile with a frame in shared memory.
KERNEL dilate(const unsigned char* in, unsigned char* out, int w, int h)
{
    __shared__ unsigned char tile[12][36];
    int left = blockIdx.x * 32 - 2, top = blockIdx.y * 8 - 2;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 12 * 36; i += 256) {
        int y = top + i / 36, x = left + i % 36;
        tile[i / 36][i % 36] = x >= 0 && y >= 0 && x < w && y < h ? in[y * w + x] : 0;
    }
    __syncthreads();
    int x = left + 2 + threadIdx.x, y = top + 2 + threadIdx.y;
    if (x >= w || y >= h) return;
    int most = 0;
    for (int j = -2; j <= 2; ++j) {
        int reach = 2 - abs(j);
        for (int i = -reach; i <= reach; ++i) most = max(most, (int)tile[threadIdx.y + 2 + j][threadIdx.x + 2 + i]);
    }
    out[y * w + x] = most;
}

__device__ int slope_size(const short2* g, int i) { return abs(g[i].x) + abs(g[i].y); }

// Keeps slopes that are the largest along their own direction.
KERNEL thin_edges(const short2* slopes, unsigned short* out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int i = y * w + x, kept = 0;
    if (x > 0 && y > 0 && x < w - 1 && y < h - 1) {
        short2 g = slopes[i];
        int across = abs(g.x), down = abs(g.y), step;
        if (across > 2 * down) step = 1;
        else if (down > 2 * across) step = w;
        else step = (g.x > 0) == (g.y > 0) ? w + 1 : w - 1;
        int size = across + down;
        if (size > slope_size(slopes, i - step) && size >= slope_size(slopes, i + step)) kept = size;
    }
    out[i] = kept;
}

// The threshold that sets dark and light apart best, and the picture in two colours; an image a block.
KERNEL otsu(const unsigned char* image, unsigned char* out, int* threshold, int pixels)
{
    __shared__ int counts[256], sums[256], at[256];
    __shared__ double apart[256];
    int t = threadIdx.x;
    image += blockIdx.x * pixels; out += blockIdx.x * pixels;
    counts[t] = 0;
    __syncthreads();
    for (int i = t; i < pixels; i += 256) atomicAdd(&counts[image[i]], 1);
    __syncthreads();
    sums[t] = counts[t] * t;
    for (int d = 1; d < 256; d *= 2) {
        __syncthreads();
        int c = t >= d ? counts[t - d] : 0, s = t >= d ? sums[t - d] : 0;
        __syncthreads();
        counts[t] += c;
        sums[t] += s;
    }
    __syncthreads();
    long long below = counts[t], above = pixels - below;
    double score = -1.0;
    if (below > 0 && above > 0) {
        double off = (double)((long long)sums[t] * pixels - (long long)sums[255] * below);
        score = off * off / (double)(below * above);
    }
    apart[t] = score;
    at[t] = t;
    for (int d = 128; d; d /= 2) {
        __syncthreads();
        if (t < d && apart[t + d] > apart[t]) { apart[t] = apart[t + d]; at[t] = at[t + d]; }
    }
    __syncthreads();
    if (t == 0) threshold[blockIdx.x] = at[0];
    for (int i = t; i < pixels; i += 256) out[i] = image[i] > at[0] ? 255 : 0;
}

__device__ float texel(const float* image, int x, int y, int w, int h)
{
    return x >= 0 && y >= 0 && x < w && y < h ? __ldg(&image[y * w + x]) : 0.0f;
}

// Turned about the middle; black outside.
KERNEL rotate_image(const float* __restrict__ in, float* out, int w, int h, float c, float s)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float dx = x - 0.5f * (w - 1), dy = y - 0.5f * (h - 1);
    float u = c * dx + s * dy + 0.5f * (w - 1), v = c * dy - s * dx + 0.5f * (h - 1);
    int i = (int)floorf(u), j = (int)floorf(v);
    float p = u - i, q = v - j;
    float upper = texel(in, i, j, w, h) * (1.0f - p) + texel(in, i + 1, j, w, h) * p;
    float lower = texel(in, i, j + 1, w, h) * (1.0f - p) + texel(in, i + 1, j + 1, w, h) * p;
    out[y * w + x] = upper + q * (lower - upper);
}

// Grey as a pattern of dots, a bit a dot: a warp makes a word.
KERNEL dither(const float* in, unsigned* out, int w, int h)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y >= h) return;
    bool lit = x < w && in[y * w + x] * 64.0f > bayer[y & 7][x & 7] + 0.5f;
    unsigned word = __ballot_sync(0xffffffffu, lit);
    if (threadIdx.x == 0) out[y * gridDim.x + blockIdx.x] = word;
}

// Twice the picture less its blur, four pixels a thread.
KERNEL sharpen(const unsigned char* in, unsigned char* out, int w, int h)
{
    int x = (blockIdx.x * blockDim.x + threadIdx.x) * 4, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int column[6] = {0, 0, 0, 0, 0, 0}, centre[4];
#pragma unroll
    for (int j = -1; j <= 1; ++j) {
        const unsigned char* row = in + clamped(y + j, h) * w;
        uchar4 v = *reinterpret_cast<const uchar4*>(row + x);
        int times = j ? 1 : 2;
        column[0] += times * row[max(x - 1, 0)];
        column[1] += times * v.x;
        column[2] += times * v.y;
        column[3] += times * v.z;
        column[4] += times * v.w;
        column[5] += times * row[min(x + 4, w - 1)];
        if (j == 0) { centre[0] = v.x; centre[1] = v.y; centre[2] = v.z; centre[3] = v.w; }
    }
    unsigned char sharp[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
        sharp[k] = min(max(2 * centre[k] - ((column[k] + 2 * column[k + 1] + column[k + 2] + 8) >> 4), 0), 255);
    *reinterpret_cast<uchar4*>(out + y * w + x) = make_uchar4(sharp[0], sharp[1], sharp[2], sharp[3]);
}

// The square of each pixel's distance to the nearest mark: down the columns, then along the rows.
KERNEL column_distances(const unsigned char* marks, int* near, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= w) return;
    int d = 1000;
    for (int y = 0; y < h; ++y) { d = marks[y * w + x] ? 0 : d + 1; near[y * w + x] = d; }
    for (int y = h - 1; y >= 0; --y) { d = min(d + 1, near[y * w + x]); near[y * w + x] = d; }
}

KERNEL row_distances(const int* near, int* out, int w)
{
    extern __shared__ int row[];
    int y = blockIdx.x;
    for (int x = threadIdx.x; x < w; x += blockDim.x) row[x] = near[y * w + x];
    __syncthreads();
    for (int x = threadIdx.x; x < w; x += blockDim.x) {
        int best = row[x] * row[x];
        for (int d = 1; d * d < best; ++d) {
            if (x - d >= 0) best = min(best, d * d + row[x - d] * row[x - d]);
            if (x + d < w) best = min(best, d * d + row[x + d] * row[x + d]);
        }
        out[y * w + x] = best;
    }
}

__device__ int mirrored(int i, int n) { return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i; }

// Colours from a mosaic whose even rows are red and green and whose odd rows are green and blue.
KERNEL demosaic(const unsigned char* in, unsigned char* out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const unsigned char* row = in + y * w;
    const unsigned char* above = in + mirrored(y - 1, h) * w;
    const unsigned char* below = in + mirrored(y + 1, h) * w;
    int left = mirrored(x - 1, w), right = mirrored(x + 1, w);
    int sides = row[left] + row[right], ends = above[x] + below[x];
    int corners = above[left] + above[right] + below[left] + below[right];
    int r, g, b;
    if ((x ^ y) & 1) {
        g = row[x];
        r = y & 1 ? (ends + 1) / 2 : (sides + 1) / 2;
        b = y & 1 ? (sides + 1) / 2 : (ends + 1) / 2;
    } else {
        g = (sides + ends + 2) / 4;
        r = y & 1 ? (corners + 2) / 4 : row[x];
        b = y & 1 ? row[x] : (corners + 2) / 4;
    }
    out += (y * w + x) * 3;
    out[0] = r; out[1] = g; out[2] = b;
}

// The cheapest way from the first row to the last one by steps to the row's three nearest, and back along it.
KERNEL cheapest_seam(const unsigned char* costs, signed char* steps, int* path, int* total, int w, int h)
{
    __shared__ int rows[2][128];
    int x = threadIdx.x;
    if (x < w) rows[0][x] = costs[x];
    for (int y = 1; y < h; ++y) {
        const int* last = rows[(y - 1) & 1];
        __syncthreads();
        if (x < w) {
            int best = last[x], step = 0;
            if (x > 0 && last[x - 1] < best) { best = last[x - 1]; step = -1; }
            if (x < w - 1 && last[x + 1] < best) { best = last[x + 1]; step = 1; }
            rows[y & 1][x] = best + costs[y * w + x];
            steps[y * w + x] = step;
        }
    }
    __syncthreads();
    if (x == 0) {
        const int* last = rows[(h - 1) & 1];
        int at = 0;
        for (int k = 1; k < w; ++k) if (last[k] < last[at]) at = k;
        *total = last[at];
        for (int y = h - 1; y > 0; --y) { path[y] = at; at += steps[y * w + at]; }
        path[0] = at;
    }
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _size(image):
    return cupy.int32(image.shape[1]), cupy.int32(image.shape[0])


def _tiles(image, x, y):
    return (image.shape[1] + x - 1) // x, (image.shape[0] + y - 1) // y


def to_ycbcr(image, out):
    _run("to_ycbcr", (3,), (128,), image, out, cupy.int32(len(image)))


def turn_hue(image, out):
    _run("turn_hue", (2,), (64,), image, out, cupy.int32(len(image)), cupy.float32(1.7))


def box_rows(image, out):
    _run("box_rows", (2,), (32,), image, out, *_size(image), cupy.int32(3))


def dilate(image, out):
    _run("dilate", _tiles(image, 32, 8), (32, 8), image, out, *_size(image))


def thin_edges(slopes, out):
    _run("thin_edges", _tiles(slopes, 16, 8), (16, 8), slopes, out, *_size(slopes))


def otsu(image, out, threshold):
    _run("otsu", (len(image),), (256,), image, out, threshold, cupy.int32(image.shape[1]))


def rotate_image(image, out):
    _run(
        "rotate_image", _tiles(image, 16, 16), (16, 16), image, out, *_size(image), cupy.float32(0.8), cupy.float32(0.6)
    )


def dither(image, out):
    _run("dither", _tiles(image, 32, 4), (32, 4), image, out, *_size(image))


def sharpen(image, out):
    _run("sharpen", _tiles(image, 64, 8), (16, 8), image, out, *_size(image))


def distances(marks, near, out):
    h, w = marks.shape
    _run("column_distances", ((w + 31) // 32,), (32,), marks, near, *_size(marks))
    _run("row_distances", (h,), (32,), near, out, cupy.int32(w), shared=4 * w)


def demosaic(mosaic, out):
    _run("demosaic", _tiles(mosaic, 32, 4), (32, 4), mosaic, out, *_size(mosaic))


def cheapest_seam(costs, path, total):
    steps = cupy.empty(costs.shape, cupy.int8)
    _run("cheapest_seam", (1,), (96,), costs, steps, path, total, *_size(costs))
