"""The fourth set of kernels that no rule of counting was made from: colours, filters, lines and regions of images."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void

__device__ unsigned char byte_of(int v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

// A frame of a video, luma in full and chroma in pairs of half the size, to colours; two pixels of a row a thread.
KERNEL from_nv12(const unsigned char* luma, const uchar2* chroma, uchar4* out, int w, int h)
{
    int x = (blockIdx.x * blockDim.x + threadIdx.x) * 2, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    uchar2 c = chroma[(y / 2) * (w / 2) + x / 2];
    int u = c.x - 128, v = c.y - 128;
    int red = 409 * v + 128, green = -100 * u - 208 * v + 128, blue = 516 * u + 128;
    uchar2 two = *reinterpret_cast<const uchar2*>(luma + y * w + x);
    int first = 298 * (two.x - 16), second = 298 * (two.y - 16);
    uchar4 p = make_uchar4(byte_of((first + red) >> 8), byte_of((first + green) >> 8), byte_of((first + blue) >> 8),
                           255);
    uchar4 q = make_uchar4(byte_of((second + red) >> 8), byte_of((second + green) >> 8), byte_of((second + blue) >> 8),
                           255);
    out[y * w + x] = p;
    out[y * w + x + 1] = q;
}

// Votes for the lines through each mark: an angle a block, distances in shared memory.
KERNEL hough(const unsigned char* marks, const int2* turns, unsigned* votes, int w, int h, int bins)
{
    extern __shared__ unsigned counts[];
    int2 turn = turns[blockIdx.x];
    for (int i = threadIdx.x; i < bins; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < w * h; i += blockDim.x) {
        if (!marks[i]) continue;
        int x = i % w, y = i / w;
        int distance = (x * turn.x + y * turn.y) >> 10;
        atomicAdd(&counts[distance + bins / 2], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) votes[blockIdx.x * bins + i] = counts[i];
}

// Weak edges are kept if a chain of edges in the same tile joins them to a strong one.
KERNEL hysteresis(const unsigned char* edges, unsigned char* out, int w, int h, int low, int high)
{
    __shared__ unsigned char state[18][34];
    int t = threadIdx.y * 32 + threadIdx.x;
    for (int i = t; i < 18 * 34; i += 256) state[i / 34][i % 34] = 0;
    __syncthreads();
    int x = blockIdx.x * 32 + threadIdx.x, i = threadIdx.x + 1;
    for (int k = 0; k < 2; ++k) {
        int y = blockIdx.y * 16 + threadIdx.y + 8 * k;
        if (x < w && y < h) {
            int e = edges[y * w + x];
            state[threadIdx.y + 8 * k + 1][i] = e >= high ? 2 : e >= low ? 1 : 0;
        }
    }
    int changed;
    do {
        changed = 0;
        __syncthreads();
        bool grows[2];
        for (int k = 0; k < 2; ++k) {
            int j = threadIdx.y + 8 * k + 1;
            grows[k] = false;
            if (state[j][i] != 1) continue;
            for (int d = 0; d < 9 && !grows[k]; ++d) grows[k] = state[j + d / 3 - 1][i + d % 3 - 1] == 2;
        }
        __syncthreads();
        for (int k = 0; k < 2; ++k)
            if (grows[k]) { state[threadIdx.y + 8 * k + 1][i] = 2; changed = 1; }
    } while (__syncthreads_or(changed));
    for (int k = 0; k < 2; ++k) {
        int y = blockIdx.y * 16 + threadIdx.y + 8 * k;
        if (x < w && y < h) out[y * w + x] = state[threadIdx.y + 8 * k + 1][i] == 2 ? 255 : 0;
    }
}

// The middle one of 25 values, a bit of it at a time from the highest.
KERNEL median_25(const unsigned char* in, unsigned char* out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    unsigned char values[25];
#pragma unroll
    for (int k = 0; k < 25; ++k) {
        int i = min(max(x + k % 5 - 2, 0), w - 1), j = min(max(y + k / 5 - 2, 0), h - 1);
        values[k] = in[j * w + i];
    }
    int median = 0;
    for (int bit = 128; bit; bit >>= 1) {
        int below = 0;
#pragma unroll
        for (int k = 0; k < 25; ++k) below += values[k] < median + bit;
        if (below <= 12) median += bit;
    }
    out[y * w + x] = median;
}

// Four levels of a pyramid from one tile of 16 x 16: each pixel is the mean of four of the level below.
KERNEL pyramid(const uchar4* in, uchar4* out, int w)
{
    __shared__ uchar4 level[64];
    int x = threadIdx.x, y = threadIdx.y, tiles = gridDim.x;
    int size = 8, place = 0, rows = gridDim.y;
    const uchar4* corner = in + (blockIdx.y * 16 + 2 * y) * w + blockIdx.x * 16 + 2 * x;
    uchar4 a = corner[0], b = corner[1], c = corner[w], d = corner[w + 1];
    while (true) {
        uchar4 mean;
        if (x < size && y < size) {
            mean.x = (a.x + b.x + c.x + d.x + 2) / 4;
            mean.y = (a.y + b.y + c.y + d.y + 2) / 4;
            mean.z = (a.z + b.z + c.z + d.z + 2) / 4;
            mean.w = (a.w + b.w + c.w + d.w + 2) / 4;
            out[place + (blockIdx.y * size + y) * tiles * size + blockIdx.x * size + x] = mean;
        }
        if (size == 1) break;
        __syncthreads();
        if (x < size && y < size) level[y * size + x] = mean;
        __syncthreads();
        place += tiles * rows * size * size;
        size /= 2;
        if (x < size && y < size) {
            const uchar4* from = &level[4 * size * y + 2 * x];
            a = from[0]; b = from[1]; c = from[2 * size]; d = from[2 * size + 1];
        }
    }
}

// Floyd and Steinberg's dither, an image a block and a row a thread, each two pixels behind the row above it.
KERNEL diffuse_errors(const unsigned char* in, unsigned char* out, int w, int h)
{
    extern __shared__ int errors[];
    int y = threadIdx.x, pitch = w + 2;
    in += blockIdx.x * w * h; out += blockIdx.x * w * h;
    for (int i = y; i < (h + 1) * pitch; i += blockDim.x) errors[i] = 0;
    __syncthreads();
    int carried = 0;
    for (int step = 0; step < w + 2 * h; ++step) {
        int x = step - 2 * y;
        if (y < h && x >= 0 && x < w) {
            int value = in[y * w + x] * 16 + errors[y * pitch + x + 1] + carried;
            int chosen = value >= 2048 ? 255 : 0, error = (value - chosen * 16) / 16;
            out[y * w + x] = chosen;
            carried = 7 * error;
            int* below = errors + (y + 1) * pitch + x;
            below[0] += 3 * error;
            below[1] += 5 * error;
            below[2] += error;
        }
        __syncthreads();
    }
}

// How much a corner each pixel is: determinant less a part of the squared trace of the sums of slopes' products.
template <int SIDE> __device__ void corners(const float* in, float* out, int w, int h, float part)
{
    __shared__ float3 products[SIDE + 2][SIDE + 2];
    int left = blockIdx.x * SIDE, top = blockIdx.y * SIDE;
    for (int j = threadIdx.y; j < SIDE + 2; j += blockDim.y)
        for (int i = threadIdx.x; i < SIDE + 2; i += blockDim.x) {
            int x = left + i, y = top + j;
            float3 p = make_float3(0.0f, 0.0f, 0.0f);
            if (x > 0 && y > 0 && x < w - 1 && y < h - 1) {
                float dx = in[y * w + x + 1] - in[y * w + x - 1], dy = in[(y + 1) * w + x] - in[(y - 1) * w + x];
                p = make_float3(dx * dx, dx * dy, dy * dy);
            }
            products[j][i] = p;
        }
    __syncthreads();
    int x = left + threadIdx.x + 1, y = top + threadIdx.y + 1;
    if (x >= w - 1 || y >= h - 1) return;
    float xx = 0.0f, xy = 0.0f, yy = 0.0f;
    for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 3; ++i) {
            float3 p = products[threadIdx.y + j][threadIdx.x + i];
            xx += p.x; xy += p.y; yy += p.z;
        }
    out[(y - 1) * (w - 2) + x - 1] = xx * yy - xy * xy - part * (xx + yy) * (xx + yy);
}

KERNEL __launch_bounds__(144) harris(const float* in, float* out, int w, int h, float part)
{
    corners<12>(in, out, w, h, part);
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def from_nv12(luma, chroma, out):
    h, w = luma.shape
    _run("from_nv12", (2, h // 6), (16, 6), luma, chroma, out, *_ints(w, h))


def hough(marks, turns, votes):
    h, w = marks.shape
    angles, bins = votes.shape
    _run("hough", (angles,), (96,), marks, turns, votes, *_ints(w, h, bins), shared=4 * bins)


def hysteresis(edges, out):
    h, w = edges.shape
    _run("hysteresis", ((w + 31) // 32, (h + 15) // 16), (32, 8), edges, out, *_ints(w, h, 120, 215))


def median_25(image, out):
    h, w = image.shape
    _run("median_25", ((w + 31) // 32, (h + 3) // 4), (32, 4), image, out, *_ints(w, h))


def pyramid(image, out):
    h, w, _ = image.shape
    _run("pyramid", (w // 16, h // 16), (8, 8), image, out, *_ints(w))


def diffuse_errors(images, out):
    n, h, w = images.shape
    _run("diffuse_errors", (n,), (32,), images, out, *_ints(w, h), shared=4 * (h + 1) * (w + 2))


def harris(image, out):
    h, w = image.shape
    _run("harris", ((w + 9) // 12, (h + 9) // 12), (12, 12), image, out, *_ints(w, h), cupy.float32(0.05))
