"""The sixth set of kernels that no rule of counting was made from: polygons, hulls, triangles, trees, maps."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;
typedef long long i64;

// Which points lie in a polygon: edges that a ray to the right crosses.
KERNEL in_polygon(const int2* corners, const int2* points, byte* out, int edges, int n)
{
    extern __shared__ int2 ring[];
    for (int k = threadIdx.x; k < edges; k += blockDim.x) ring[k] = corners[k];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int2 p = points[i];
    bool inside = false;
    int2 a = ring[edges - 1];
    for (int k = 0; k < edges; ++k) {
        int2 b = ring[k], from = a;
        a = b;
        if ((from.y > p.y) == (b.y > p.y)) continue;
        int side = (b.x - from.x) * (p.y - from.y) - (b.y - from.y) * (p.x - from.x);
        if ((side > 0) == (b.y > from.y)) inside = !inside;
    }
    out[i] = inside;
}

// Convex hulls of points in order of x, then y: chains below and above on a stack; twice the area and the corners.
__device__ int turn(short2 a, short2 b, short2 c) { return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x); }

KERNEL hulls(const short2* points, int* corners, int* area, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const short2* own = points + i * size;
    short2 hull[40];
    int have = 0;
    for (int k = 0; k < size; ++k) {
        while (have >= 2 && turn(hull[have - 2], hull[have - 1], own[k]) <= 0) --have;
        hull[have++] = own[k];
    }
    int below = have + 1;
    for (int k = size - 2; k >= 0; --k) {
        while (have >= below && turn(hull[have - 2], hull[have - 1], own[k]) <= 0) --have;
        hull[have++] = own[k];
    }
    --have;
    int sum = 0;
    for (int k = 0; k < have; ++k) sum += hull[k].x * hull[k + 1].y - hull[k].y * hull[k + 1].x;
    corners[i] = have;
    area[i] = sum;
}

// Twice the areas of polygons of different sizes, a warp each.
KERNEL ring_areas(const int2* corners, const int* starts, i64* out, int n)
{
    int ring = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (ring >= n) return;
    int from = starts[ring], to = starts[ring + 1];
    i64 sum = 0;
    for (int k = from + lane; k < to; k += 32) {
        int2 a = corners[k], b = corners[k + 1 == to ? from : k + 1];
        sum += (i64)a.x * b.y - (i64)a.y * b.x;
    }
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(ALL, sum, d);
    if (lane == 0) out[ring] = sum;
}

// What is left of triangles in a window: cut at its four sides one after the other, then the area.
KERNEL cut_triangles(const double* triangles, double* out, double low, double high, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double now[2][9], next[2][9];
    int size = 3;
    for (int k = 0; k < 3; ++k) {
        now[0][k] = triangles[6 * i + 2 * k];
        now[1][k] = triangles[6 * i + 2 * k + 1];
    }
    for (int side = 0; side < 4 && size; ++side) {
        int axis = side & 1, made = 0;
        double sign = side < 2 ? 1.0 : -1.0, edge = side < 2 ? low : -high;
        for (int k = 0; k < size; ++k) {
            int l = k + 1 < size ? k + 1 : 0;
            double a = sign * now[axis][k] - edge, b = sign * now[axis][l] - edge;
            if (a >= 0) { next[0][made] = now[0][k]; next[1][made++] = now[1][k]; }
            if ((a >= 0) == (b >= 0)) continue;
            double t = a / (a - b);
            next[0][made] = now[0][k] + t * (now[0][l] - now[0][k]);
            next[1][made++] = now[1][k] + t * (now[1][l] - now[1][k]);
        }
        size = made;
        for (int k = 0; k < size; ++k) { now[0][k] = next[0][k]; now[1][k] = next[1][k]; }
    }
    double area = 0;
    for (int k = 0; k < size; ++k) {
        int l = k + 1 < size ? k + 1 : 0;
        area += now[0][k] * now[1][l] - now[1][k] * now[0][l];
    }
    out[i] = fabs(area) / 2;
}

// How many segments of a tile each segment crosses.
__device__ int side_of(int4 s, int x, int y)
{
    int v = (s.z - s.x) * (y - s.y) - (s.w - s.y) * (x - s.x);
    return (v > 0) - (v < 0);
}

KERNEL crossings(const int4* segments, int* out, int n)
{
    __shared__ int4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x, count = 0;
    int4 own = i < n ? segments[i] : make_int4(0, 0, 0, 0);
    for (int base = 0; base < n; base += 64) {
        if (base + threadIdx.x < n) tile[threadIdx.x] = segments[base + threadIdx.x];
        __syncthreads();
        int end = min(64, n - base);
        for (int k = 0; k < end; ++k) {
            int4 other = tile[k];
            if (side_of(own, other.x, other.y) * side_of(own, other.z, other.w) < 0 &&
                side_of(other, own.x, own.y) * side_of(other, own.z, own.w) < 0) ++count;
        }
        __syncthreads();
    }
    if (i < n) out[i] = count;
}

// Boxes of a tree that windows overlap, by a stack; children of node k are 2k + 1 and 2k + 2.
KERNEL overlaps(const short4* boxes, const short4* windows, int* count, unsigned* mix, int inner, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    short4 w = windows[i];
    int stack[12], top = 0, found = 0;
    unsigned sum = 0;
    stack[top++] = 0;
    while (top) {
        int node = stack[--top];
        short4 b = boxes[node];
        if (b.x > w.z || w.x > b.z || b.y > w.w || w.y > b.w) continue;
        if (node >= inner) {
            ++found;
            sum = sum * 31 + (node - inner);
            continue;
        }
        stack[top++] = 2 * node + 2;
        stack[top++] = 2 * node + 1;
    }
    count[i] = found;
    mix[i] = sum;
}

// Whether each triangle's circle holds no other point, as triangulations want it: exact in 64 bits.
KERNEL empty_circles(const int2* points, const int3* triangles, byte* out, int* violations, int many, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool empty = true;
    if (i < n) {
        int3 t = triangles[i];
        int2 a = points[t.x], b = points[t.y], c = points[t.z];
        if ((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x) < 0) { int2 s = b; b = c; c = s; }
        for (int k = 0; k < many; ++k) {
            if (k == t.x || k == t.y || k == t.z) continue;
            int2 p = points[k];
            i64 ax = a.x - p.x, ay = a.y - p.y, bx = b.x - p.x, by = b.y - p.y, cx = c.x - p.x, cy = c.y - p.y;
            i64 value = (ax * ax + ay * ay) * (bx * cy - by * cx) - (bx * bx + by * by) * (ax * cy - ay * cx) +
                        (cx * cx + cy * cy) * (ax * by - ay * bx);
            if (value > 0) { empty = false; break; }
        }
        out[i] = empty;
    }
    int bad = __syncthreads_count(!empty);
    if (threadIdx.x == 0) violations[blockIdx.x] = bad;
}

// Squared distances of points to triangles by where the nearest point lies: corner, edge or face.
__device__ float3 less(float3 a, float3 b) { return make_float3(a.x - b.x, a.y - b.y, a.z - b.z); }
__device__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ float3 along(float3 a, float t, float3 b)
{
    return make_float3(a.x + t * b.x, a.y + t * b.y, a.z + t * b.z);
}

__device__ float3 nearest_on(float3 a, float3 b, float3 c, float3 p)
{
    float3 ab = less(b, a), ac = less(c, a), ap = less(p, a);
    float d1 = dot(ab, ap), d2 = dot(ac, ap);
    if (d1 <= 0 && d2 <= 0) return a;
    float3 bp = less(p, b);
    float d3 = dot(ab, bp), d4 = dot(ac, bp);
    if (d3 >= 0 && d4 <= d3) return b;
    float vc = d1 * d4 - d3 * d2;
    if (vc <= 0 && d1 >= 0 && d3 <= 0) return along(a, d1 / (d1 - d3), ab);
    float3 cp = less(p, c);
    float d5 = dot(ab, cp), d6 = dot(ac, cp);
    if (d6 >= 0 && d5 <= d6) return c;
    float vb = d5 * d2 - d1 * d6;
    if (vb <= 0 && d2 >= 0 && d6 <= 0) return along(a, d2 / (d2 - d6), ac);
    float va = d3 * d6 - d5 * d4;
    if (va <= 0 && d4 - d3 >= 0 && d5 - d6 >= 0) return along(b, (d4 - d3) / (d4 - d3 + (d5 - d6)), less(c, b));
    float scale = 1 / (va + vb + vc);
    return along(along(a, vb * scale, ab), vc * scale, ac);
}

KERNEL triangle_distances(const float3* corners, const float3* points, float* out, int triangles, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float3 p = points[i];
    float least = 1e30f;
    for (int k = 0; k < triangles; ++k) {
        float3 to = less(p, nearest_on(corners[3 * k], corners[3 * k + 1], corners[3 * k + 2], p));
        least = fminf(least, dot(to, to));
    }
    out[i] = least;
}

// Lines of equal height in squares of a map: which of sixteen cases, and the length of the lines in each row of tiles.
KERNEL contours(const float* map, byte* cases, float* length, int w, int h, float level)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w - 1 || y >= h - 1) return;
    float a = map[y * w + x], b = map[y * w + x + 1], c = map[(y + 1) * w + x + 1], d = map[(y + 1) * w + x];
    int kind = (a > level) | (b > level) << 1 | (c > level) << 2 | (d > level) << 3;
    float top = (level - a) / (b - a), right = (level - b) / (c - b), bottom = (level - d) / (c - d);
    float left = (level - a) / (d - a), sum = 0;
    switch (kind) {
    case 0: case 15: break;
    case 1: case 14: sum = sqrtf(top * top + left * left); break;
    case 2: case 13: sum = sqrtf((1 - top) * (1 - top) + right * right); break;
    case 3: case 12: sum = sqrtf(1 + (left - right) * (left - right)); break;
    case 4: case 11: sum = sqrtf((1 - bottom) * (1 - bottom) + (1 - right) * (1 - right)); break;
    case 6: case 9: sum = sqrtf(1 + (top - bottom) * (top - bottom)); break;
    case 7: case 8: sum = sqrtf(bottom * bottom + (1 - left) * (1 - left)); break;
    default:
        sum = sqrtf(top * top + left * left) + sqrtf((1 - bottom) * (1 - bottom) + (1 - right) * (1 - right));
    }
    cases[y * (w - 1) + x] = kind;
    length[y * (w - 1) + x] = sum;
}

// The closest pair of points of a block: each thread some pairs, the smallest of all by warps.
KERNEL closest_pairs(const short2* points, u64* out, int size)
{
    extern __shared__ short2 own[];
    __shared__ u64 least[8];
    for (int k = threadIdx.x; k < size; k += blockDim.x) own[k] = points[blockIdx.x * size + k];
    __syncthreads();
    u64 best = ~0ull;
    for (int a = threadIdx.x; a < size; a += blockDim.x)
        for (int b = a + 1; b < size; ++b) {
            int dx = own[a].x - own[b].x;
            unsigned square = dx * dx;
            if (square > best >> 32) continue;
            int dy = own[a].y - own[b].y;
            square += dy * dy;
            best = min(best, (u64)square << 32 | a << 16 | b);
        }
    for (int d = 16; d; d >>= 1) best = min(best, __shfl_down_sync(ALL, best, d));
    if (threadIdx.x % 32 == 0) least[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x) return;
    for (int k = 1; k < blockDim.x / 32; ++k) best = min(best, least[k]);
    out[blockIdx.x] = best;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    block = block if isinstance(block, tuple) else (block,)
    grid = grid if isinstance(grid, tuple) else (grid,)
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def in_polygon(corners, points, out):
    edges, n = len(corners), len(points)
    _run("in_polygon", 3, 128, corners, points, out, *_ints(edges, n), shared=8 * edges)


def hulls(points, corners, area):
    n, size, _ = points.shape
    _run("hulls", 3, 32, points, corners, area, *_ints(size, n))


def ring_areas(corners, starts, out):
    _run("ring_areas", 5, 96, corners, starts, out, *_ints(out.size))


def cut_triangles(triangles, out):
    _run("cut_triangles", 3, 48, triangles, out, cupy.float64(-0.75), cupy.float64(1.25), *_ints(len(out)))


def crossings(segments, out):
    n = len(segments)
    _run("crossings", (n + 63) // 64, 64, segments, out, *_ints(n))


def overlaps(boxes, windows, count, mix):
    _run("overlaps", 2, 64, boxes, windows, count, mix, *_ints(len(boxes) // 2, len(windows)))


def empty_circles(points, triangles, out, violations):
    _run("empty_circles", 3, 96, points, triangles, out, violations, *_ints(len(points), len(triangles)))


def triangle_distances(corners, points, out):
    _run("triangle_distances", 2, 96, corners, points, out, *_ints(len(corners) // 3, len(points)))


def contours(map, cases, length):
    h, w = map.shape
    grid = ((w + 30) // 32, (h + 6) // 8)
    _run("contours", grid, (32, 8), map, cases, length, *_ints(w, h), cupy.float32(0.25))


def closest_pairs(points, out):
    blocks, size, _ = points.shape
    _run("closest_pairs", blocks, 64, points, out, *_ints(size), shared=4 * size)
