"""The fifth set of kernels that no rule of counting was made from: images painted, filtered, matched and measured."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;

// One step of a flood of nearest seeds over a picture: each pixel asks nine others `step` away.
KERNEL flood_seeds(const short2* in, short2* out, int w, int h, int step)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    short2 best = make_short2(-1, -1);
    int least = 1 << 30;
    for (int dy = -step; dy <= step; dy += step)
        for (int dx = -step; dx <= step; dx += step) {
            int i = x + dx, j = y + dy;
            if (i < 0 || j < 0 || i >= w || j >= h) continue;
            short2 s = in[j * w + i];
            if (s.x < 0) continue;
            int square = (s.x - x) * (s.x - x) + (s.y - y) * (s.y - y);
            if (square < least) { least = square; best = s; }
        }
    out[y * w + x] = best;
}

// The nearest of sixteen colours by squares that are weighted as eyes do.
__constant__ uchar4 palette[16] = {
    {0, 0, 0, 0}, {29, 43, 83, 0}, {126, 37, 83, 0}, {0, 135, 81, 0}, {171, 82, 54, 0}, {95, 87, 79, 0},
    {194, 195, 199, 0}, {255, 241, 232, 0}, {255, 0, 77, 0}, {255, 163, 0, 0}, {255, 236, 39, 0}, {0, 228, 54, 0},
    {41, 173, 255, 0}, {131, 118, 156, 0}, {255, 119, 168, 0}, {255, 204, 170, 0}};

KERNEL to_palette(const uchar4* in, byte* out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uchar4 c = in[i];
        int best = 0, least = 1 << 30;
        for (int k = 0; k < 16; ++k) {
            uchar4 p = palette[k];
            int r = c.x - p.x, g = c.y - p.y, b = c.z - p.z;
            int apart = 3 * r * r + 6 * g * g + b * b;
            if (apart < least) { least = apart; best = k; }
        }
        out[i] = best;
    }
}

// Pictures laid over each other from the lowest layer on, until nothing shines through when seen from the top.
KERNEL lay_over(const uchar4* layers, uchar4* out, int count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int r = 0, g = 0, b = 0, through = 256;
    for (int k = count - 1; k >= 0; --k) {
        uchar4 c = layers[k * n + i];
        if (c.w == 0) continue;
        int part = c.w == 255 ? through : through * c.w >> 8;
        r += c.x * part;
        g += c.y * part;
        b += c.z * part;
        through -= part;
        if (through == 0) break;
    }
    out[i] = make_uchar4(r >> 8, g >> 8, b >> 8, min(256 - through, 255));
}

// The least of 2 R + 1 values along rows: a row a block, least ones from both ends of pieces as long as the window.
template <int R> __device__ void least_along(const byte* in, byte* out, int w)
{
    constexpr int LONG = 2 * R + 1;
    extern __shared__ byte line[];
    int wide = w + 2 * R, pieces = (wide + LONG - 1) / LONG, pitch = pieces * LONG;
    byte *from_left = line, *from_right = line + pitch;
    in += blockIdx.x * w;
    for (int i = threadIdx.x; i < pitch; i += blockDim.x) {
        int x = i - R;
        from_left[i] = from_right[i] = x >= 0 && x < w ? in[x] : 255;
    }
    __syncthreads();
    for (int p = threadIdx.x; p < pieces; p += blockDim.x) {
        byte* a = from_left + p * LONG;
        byte* b = from_right + p * LONG;
        for (int k = 1; k < LONG; ++k) {
            a[k] = min(a[k], a[k - 1]);
            b[LONG - 1 - k] = min(b[LONG - 1 - k], b[LONG - k]);
        }
    }
    __syncthreads();
    out += blockIdx.x * w;
    for (int x = threadIdx.x; x < w; x += blockDim.x) out[x] = min(from_right[x], from_left[x + 2 * R]);
}

KERNEL erode_rows(const byte* in, byte* out, int w) { least_along<4>(in, out, w); }

// Which of 48 neighbours are darker, in 64 bits, and how far to the left the right picture looks most alike.
__device__ u64 darker_around(const byte* image, int x, int y, int w, int h)
{
    byte centre = image[y * w + x];
    u64 bits = 0;
    for (int dy = -3; dy <= 3; ++dy)
        for (int dx = -3; dx <= 3; ++dx) {
            if (dx == 0 && dy == 0) continue;
            int i = min(max(x + dx, 0), w - 1), j = min(max(y + dy, 0), h - 1);
            bits = bits << 1 | (image[j * w + i] < centre);
        }
    return bits;
}

KERNEL match_rows(const byte* left, const byte* right, byte* shift, byte* cost, int w, int h)
{
    __shared__ u64 line[64];
    int x = threadIdx.x, y = blockIdx.x;
    if (x < w) line[x] = darker_around(right, x, y, w, h);
    __syncthreads();
    if (x >= w) return;
    u64 own = darker_around(left, x, y, w, h);
    int best = 0, least = 64;
    for (int d = 0; d < 12; ++d) {
        if (d > x) break;
        int apart = __popcll(own ^ line[x - d]);
        if (apart < least) { least = apart; best = d; }
    }
    shift[y * w + x] = best;
    cost[y * w + x] = least;
}

// Colours of three bytes to 16 bits, four pixels a thread from three words.
__device__ unsigned in_16_bits(unsigned r, unsigned g, unsigned b) { return (r >> 3) << 11 | (g >> 2) << 5 | b >> 3; }

KERNEL to_565(const unsigned* in, uint2* out, int quads)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    unsigned a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    unsigned p = in_16_bits(a & 255, a >> 8 & 255, a >> 16 & 255), q = in_16_bits(a >> 24, b & 255, b >> 8 & 255);
    unsigned r = in_16_bits(b >> 16 & 255, b >> 24, c & 255), s = in_16_bits(c >> 8 & 255, c >> 16 & 255, c >> 24);
    out[i] = make_uint2(p | q << 16, r | s << 16);
}

// Lines after Bresenham, a line a thread; pixels are bits of words.
KERNEL draw_lines(const int4* lines, unsigned* words, int pitch, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int4 l = lines[i];
    int dx = abs(l.z - l.x), dy = -abs(l.w - l.y), right = l.x < l.z ? 1 : -1, down = l.y < l.w ? 1 : -1;
    int error = dx + dy;
    while (true) {
        atomicOr(&words[l.y * pitch + (l.x >> 5)], 1u << (l.x & 31));
        if (l.x == l.z && l.y == l.w) break;
        int twice = 2 * error;
        if (twice >= dy) { error += dy; l.x += right; }
        if (twice <= dx) { error += dx; l.y += down; }
    }
}

// Which of some triangles is nearest at each pixel: signs of areas say what is inside.
struct Triangle { int2 a, b, c; int depth, colour; };

__device__ int area(int2 a, int2 b, int x, int y) { return (b.x - a.x) * (y - a.y) - (b.y - a.y) * (x - a.x); }

KERNEL fill_triangles(const Triangle* triangles, int* out, int count, int w, int h)
{
    __shared__ Triangle some[16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, t = threadIdx.y * 16 + threadIdx.x;
    int nearest = 1 << 30, colour = -1;
    for (int first = 0; first < count; first += 16) {
        __syncthreads();
        int now = min(16, count - first);
        int* to = reinterpret_cast<int*>(some);
        const int* from = reinterpret_cast<const int*>(triangles + first);
        if (t < now * 8) to[t] = from[t];
        __syncthreads();
        for (int k = 0; k < now; ++k) {
            const Triangle& q = some[k];
            if (q.depth >= nearest) continue;
            int u = area(q.a, q.b, x, y), v = area(q.b, q.c, x, y), s = area(q.c, q.a, x, y);
            if ((u >= 0 && v >= 0 && s >= 0) || (u <= 0 && v <= 0 && s <= 0)) { nearest = q.depth; colour = q.colour; }
        }
    }
    if (x < w && y < h) out[y * w + x] = colour;
}

// How alike two pictures are in tiles of 8 x 8, from whole sums of a warp's two values a lane.
KERNEL alike_tiles(const byte* a, const byte* b, float* out, int w)
{
    int lane = threadIdx.x, tile = blockIdx.x * blockDim.y + threadIdx.y, across = w / 8;
    int x = tile % across * 8 + lane % 8, y = tile / across * 8 + lane / 8;
    int p = a[y * w + x], q = b[y * w + x], r = a[(y + 4) * w + x], s = b[(y + 4) * w + x];
    int one = p + r, other = q + s, squares = p * p + r * r + q * q + s * s, products = p * q + r * s;
    one = __reduce_add_sync(ALL, one);
    other = __reduce_add_sync(ALL, other);
    squares = __reduce_add_sync(ALL, squares);
    products = __reduce_add_sync(ALL, products);
    if (lane) return;
    float mean = one * other / 4096.0f, means = (one * one + other * other) / 4096.0f;
    float both = products / 64.0f - mean, spread = squares / 64.0f - means;
    out[tile] = (2.0f * mean + 6.5f) * (2.0f * both + 58.5f) / ((means + 6.5f) * (spread + 58.5f));
}

// A map of places to take pixels from, between four of them, as lenses need; what lies outside is grey.
KERNEL remap(const float* in, const float2* places, float* out, int w, int h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = places[i];
    float left = floorf(p.x), top = floorf(p.y);
    int x = (int)left, y = (int)top;
    if (x < 0 || y < 0 || x + 1 >= w || y + 1 >= h) { out[i] = 0.5f; return; }
    float u = p.x - left, v = p.y - top;
    const float* at = in + y * w + x;
    float above = at[0] + u * (at[1] - at[0]), below = at[w] + u * (at[w + 1] - at[w]);
    out[i] = above + v * (below - above);
}

// Places that are greater than all within two pixels, written in order of rows by one block.
KERNEL peaks(const unsigned short* in, int* found, int* count, int w, int h)
{
    __shared__ int sums[8], base;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (threadIdx.x == 0) base = 0;
    for (int first = 0; first < w * h; first += blockDim.x) {
        int i = first + threadIdx.x, x = i % w, y = i / w;
        bool peak = i < w * h;
        for (int dy = -2; dy <= 2 && peak; ++dy)
            for (int dx = -2; dx <= 2; ++dx) {
                int j = y + dy, k = x + dx;
                if ((!dx && !dy) || j < 0 || k < 0 || j >= h || k >= w) continue;
                if (in[j * w + k] >= in[i]) { peak = false; break; }
            }
        unsigned mask = __ballot_sync(ALL, peak);
        if (lane == 0) sums[warp] = __popc(mask);
        __syncthreads();
        int at = base;
        for (int k = 0; k < warp; ++k) at += sums[k];
        if (peak) found[at + __popc(mask & ((1u << lane) - 1))] = i;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) base = at + __popc(mask);
        __syncthreads();
    }
    if (threadIdx.x == 0) *count = base;
}

// Quarter turns of tiles of 4 x 4 bytes that threads hold in words.
KERNEL quarter_turn(const unsigned* in, unsigned* out, int wide, int high)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= wide || j >= high) return;
    unsigned a = in[(4 * j + 3) * wide + i], b = in[(4 * j + 2) * wide + i];
    unsigned c = in[(4 * j + 1) * wide + i], d = in[4 * j * wide + i];
    unsigned low = __byte_perm(a, b, 0x5140), more = __byte_perm(c, d, 0x5140);
    unsigned high_ones = __byte_perm(a, b, 0x7362), highest = __byte_perm(c, d, 0x7362);
    unsigned* to = out + 4 * i * high + (high - 1 - j);
    to[0] = __byte_perm(low, more, 0x5410);
    to[high] = __byte_perm(low, more, 0x7632);
    to[2 * high] = __byte_perm(high_ones, highest, 0x5410);
    to[3 * high] = __byte_perm(high_ones, highest, 0x7632);
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def flood_seeds(first, second):
    h, w, _ = first.shape
    for step in (16, 8, 4, 2, 1):
        _run("flood_seeds", ((w + 15) // 16, (h + 7) // 8), (16, 8), first, second, *_ints(w, h, step))
        first, second = second, first


def to_palette(image, out):
    _run("to_palette", (3,), (128,), image, out, *_ints(out.size))


def lay_over(layers, out):
    _run("lay_over", (3,), (96,), layers, out, *_ints(len(layers), len(out)))


def erode_rows(image, out):
    h, w = image.shape
    _run("erode_rows", (h,), (64,), image, out, *_ints(w), shared=2 * 9 * ((w + 16) // 9))


def match_rows(left, right, shift, cost):
    h, w = left.shape
    _run("match_rows", (h,), (64,), left, right, shift, cost, *_ints(w, h))


def to_565(image, out):
    _run("to_565", (2,), (64,), image, out, *_ints(len(out)))


def draw_lines(lines, words):
    _run("draw_lines", (2,), (64,), lines, words, *_ints(words.shape[1], len(lines)))


def fill_triangles(triangles, out):
    h, w = out.shape
    _run("fill_triangles", ((w + 15) // 16, (h + 7) // 8), (16, 8), triangles, out, *_ints(len(triangles), w, h))


def alike_tiles(a, b, out):
    _run("alike_tiles", (out.size // 3,), (32, 3), a, b, out, *_ints(a.shape[1]))


def remap(image, places, out):
    h, w = image.shape
    _run("remap", (3,), (128,), image, places, out, *_ints(w, h, out.size))


def peaks(image, found, count):
    h, w = image.shape
    _run("peaks", (1,), (256,), image, found, count, *_ints(w, h))


def quarter_turn(image, out):
    h, wide = image.shape
    _run("quarter_turn", (2, 3), (8, 4), image, out, *_ints(wide, h // 4))
