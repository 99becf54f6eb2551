"""The fourth set of kernels that no rule of counting was made from: particles, flows, finance, noise, tones."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

// Density of a fluid of particles that are sorted by cell: neighbours come from the nine cells around.
KERNEL fluid_density(const float2* place, const int* starts, float* density, int cells, int n, float reach, float mass)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = place[i];
    int cx = (int)(p.x / reach), cy = (int)(p.y / reach);
    float sum = 0.0f, square = reach * reach;
    for (int y = max(cy - 1, 0); y <= min(cy + 1, cells - 1); ++y)
        for (int x = max(cx - 1, 0); x <= min(cx + 1, cells - 1); ++x)
            for (int k = starts[y * cells + x]; k < starts[y * cells + x + 1]; ++k) {
                float dx = place[k].x - p.x, dy = place[k].y - p.y, rest = square - dx * dx - dy * dy;
                if (rest > 0.0f) sum += rest * rest * rest;
            }
    density[i] = mass * sum;
}

struct Node { float x, y, mass, width; int next, child; };

// Gravity by a tree of squares: a node that is far for its width stands for all of its bodies. No stack: the nodes are
// in depth-first order, and each says where to go on when it is not opened.
KERNEL tree_gravity(const Node* nodes, const float2* bodies, float2* pull, int n, float soft, float open)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = bodies[i], sum = make_float2(0.0f, 0.0f);
    int node = 0;
    while (node >= 0) {
        Node c = nodes[node];
        float dx = c.x - p.x, dy = c.y - p.y, square = dx * dx + dy * dy;
        if (c.child < 0 || c.width * c.width < open * open * square) {
            float near = square + soft, factor = c.mass / (near * sqrtf(near));
            sum.x += factor * dx;
            sum.y += factor * dy;
            node = c.next;
        } else {
            node = c.child;
        }
    }
    pull[i] = sum;
}

// A step of shallow water by Lax and Friedrichs: depth and momentum, periodic.
__device__ float4 flow_x(float4 q)
{
    float u = q.y / q.x;
    return make_float4(q.y, q.y * u + 4.905f * q.x * q.x, q.z * u, 0.0f);
}

__device__ float4 flow_y(float4 q)
{
    float v = q.z / q.x;
    return make_float4(q.z, q.y * v, q.z * v + 4.905f * q.x * q.x, 0.0f);
}

KERNEL shallow_water(const float4* in, float4* out, int w, int h, float rate)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float4 l = in[y * w + (x + w - 1) % w], r = in[y * w + (x + 1) % w];
    float4 u = in[(y + h - 1) % h * w + x], d = in[(y + 1) % h * w + x];
    float4 fl = flow_x(l), fr = flow_x(r), fu = flow_y(u), fd = flow_y(d);
    float4 q;
    q.x = 0.25f * (l.x + r.x + u.x + d.x) - rate * (fr.x - fl.x + fd.x - fu.x);
    q.y = 0.25f * (l.y + r.y + u.y + d.y) - rate * (fr.y - fl.y + fd.y - fu.y);
    q.z = 0.25f * (l.z + r.z + u.z + d.z) - rate * (fr.z - fl.z + fd.z - fu.z);
    q.w = 0.0f;
    out[y * w + x] = q;
}

// A rope's links are pulled to their length, all at once, a few rounds; one rope a block, the first knot is fast.
KERNEL pull_rope(float3* knots, int n, float length, int rounds)
{
    __shared__ float3 p[2][64];
    int t = threadIdx.x;
    knots += blockIdx.x * n;
    if (t < n) p[0][t] = knots[t];
    __syncthreads();
    int now = 0;
    for (int k = 0; k < rounds; ++k, now ^= 1) {
        if (t < n) {
            float3 self = p[now][t], move = make_float3(0.0f, 0.0f, 0.0f);
            for (int side = -1; side <= 1; side += 2) {
                int other = t + side;
                if (t == 0 || other < 0 || other >= n) continue;
                float3 q = p[now][other];
                float dx = q.x - self.x, dy = q.y - self.y, dz = q.z - self.z;
                float away = sqrtf(dx * dx + dy * dy + dz * dz), part = 0.5f * (away - length) / away;
                if (other == 0) part *= 2.0f;
                move.x += 0.5f * part * dx; move.y += 0.5f * part * dy; move.z += 0.5f * part * dz;
            }
            p[now ^ 1][t] = make_float3(self.x + move.x, self.y + move.y, self.z + move.z);
        }
        __syncthreads();
    }
    if (t < n) knots[t] = p[now][t];
}

// To a grid of half as many points by weights 1, 2 and 4, and back by means.
KERNEL coarsen(const float* fine, float* coarse, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, w = 2 * n + 1;
    if (x >= n || y >= n) return;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 3; ++j)
#pragma unroll
        for (int i = 0; i < 3; ++i)
            sum += (i == 1 ? 2.0f : 1.0f) * (j == 1 ? 2.0f : 1.0f) * fine[(2 * y + j) * w + 2 * x + i];
    coarse[y * n + x] = sum / 16.0f;
}

KERNEL refine(const float* coarse, float* fine, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, w = 2 * n + 1;
    if (x >= w || y >= w) return;
    auto at = [&](int i, int j) { return i >= 0 && j >= 0 && i < n && j < n ? coarse[j * n + i] : 0.0f; };
    int i = x / 2, j = y / 2;
    float value;
    switch ((x & 1) + 2 * (y & 1)) {
    case 3: value = at(i, j); break;
    case 2: value = 0.5f * (at(i - 1, j) + at(i, j)); break;
    case 1: value = 0.5f * (at(i, j - 1) + at(i, j)); break;
    default: value = 0.25f * (at(i - 1, j - 1) + at(i, j - 1) + at(i - 1, j) + at(i, j));
    }
    fine[y * w + x] += value;
}

// Perlin's noise in two dimensions, three octaves.
__device__ float slope(int hash, float x, float y)
{
    switch (hash & 7) {
    case 0: return x + y;
    case 1: return x - y;
    case 2: return y - x;
    case 3: return -x - y;
    case 4: return x;
    case 5: return -x;
    case 6: return y;
    default: return -y;
    }
}

__device__ float fade(float t) { return t * t * t * (t * (t * 6.0f - 15.0f) + 10.0f); }

KERNEL noise(const unsigned char* order, float* out, int w, int h, float scale)
{
    __shared__ unsigned char p[256];
    p[threadIdx.x] = order[threadIdx.x];
    __syncthreads();
    for (int k = blockIdx.x * 256 + threadIdx.x; k < w * h; k += gridDim.x * 256) {
        float x = (k % w) * scale, y = (k / w) * scale, sum = 0.0f, size = 1.0f;
        for (int octave = 0; octave < 3; ++octave, x *= 2.0f, y *= 2.0f, size *= 0.5f) {
            int i = (int)x, j = (int)y;
            float u = x - i, v = y - j, a = fade(u), b = fade(v);
            int left = p[i & 255], right = p[(i + 1) & 255];
            float upper = slope(p[(left + j) & 255], u, v), lower = slope(p[(left + j + 1) & 255], u, v - 1.0f);
            upper += a * (slope(p[(right + j) & 255], u - 1.0f, v) - upper);
            lower += a * (slope(p[(right + j + 1) & 255], u - 1.0f, v - 1.0f) - lower);
            sum += size * (upper + b * (lower - upper));
        }
        out[k] = sum;
    }
}

// How many boxes each box meets, by a tree of boxes and a stack: leaves are single boxes.
KERNEL count_hits(const short4* boxes, const short2* children, const short4* queries, int* hits, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    short4 q = queries[i];
    short stack[24];
    int top = 0, count = 0;
    stack[top++] = 0;
    do {
        int node = stack[--top];
        short4 b = boxes[node];
        if (b.x > q.z || b.z < q.x || b.y > q.w || b.w < q.y) continue;
        short2 c = children[node];
        if (c.x < 0) { ++count; continue; }
        stack[top++] = c.x;
        stack[top++] = c.y;
    } while (top > 0);
    hits[i] = count;
}

// Heaps of sand fall over to their four sides until none is higher than three; sand at the border is lost.
KERNEL sandpile(const int* in, int* out, int* rounds)
{
    __shared__ int heap[16][17];
    int x = threadIdx.x, y = threadIdx.y, base = blockIdx.x * 256 + y * 16 + x, round = 0;
    heap[y][x] = in[base];
    __syncthreads();
    while (true) {
        int falls = heap[y][x] / 4, gained = 0;
        if (!__syncthreads_or(falls)) break;
        if (x > 0) gained += heap[y][x - 1] / 4;
        if (x < 15) gained += heap[y][x + 1] / 4;
        if (y > 0) gained += heap[y - 1][x] / 4;
        if (y < 15) gained += heap[y + 1][x] / 4;
        __syncthreads();
        heap[y][x] += gained - 4 * falls;
        ++round;
        __syncthreads();
    }
    out[base] = heap[y][x];
    if (x == 0 && y == 0) rounds[blockIdx.x] = round;
}

// Points of a low-discrepancy sequence: directions of the bits of Gray's code, and how many lie under a parabola.
KERNEL sobol(const unsigned* directions, uint2* points, unsigned* under, int n)
{
    __shared__ unsigned d[64];
    if (threadIdx.x < 64) d[threadIdx.x] = directions[threadIdx.x];
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, x = 0, y = 0;
    bool inside = false;
    if (i < n) {
        for (unsigned gray = i ^ i >> 1; gray; gray &= gray - 1) {
            int bit = __ffs(gray) - 1;
            x ^= d[bit];
            y ^= d[32 + bit];
        }
        points[i] = make_uint2(x, y);
        inside = __umulhi(x, x) >= y;
    }
    unsigned votes = __ballot_sync(ALL, inside);
    if ((threadIdx.x & 31) == 0 && votes) atomicAdd(under, __popc(votes));
}

// An option's price back in time by Crank and Nicolson: an option a block, a price a thread; one thread solves.
KERNEL crank_nicolson(const double* strikes, double* out, int steps, double dt, double sigma, double rate)
{
    __shared__ double value[40], right[40], upper[40];
    int j = threadIdx.x;
    double strike = strikes[blockIdx.x];
    value[j] = fmax(j * 5.0 - strike, 0.0);
    double s = sigma * sigma * j * j, lower = 0.25 * dt * (s - rate * j), middle = -0.5 * dt * (s + rate);
    double higher = 0.25 * dt * (s + rate * j);
    for (int step = 1; step <= steps; ++step) {
        __syncthreads();
        double known = 0.0;
        if (j > 0 && j < 39) known = lower * value[j - 1] + (1.0 + middle) * value[j] + higher * value[j + 1];
        if (j == 39) known = 195.0 - strike * exp(-rate * dt * step);
        __syncthreads();
        right[j] = known;
        __syncthreads();
        if (j == 0) {
            upper[0] = 0.0;
            for (int k = 1; k < 39; ++k) {
                double q = sigma * sigma * k * k, l = -0.25 * dt * (q - rate * k), m = 1.0 + 0.5 * dt * (q + rate);
                double u = -0.25 * dt * (q + rate * k), pivot = m - l * upper[k - 1];
                upper[k] = u / pivot;
                right[k] = (right[k] - l * right[k - 1]) / pivot;
            }
            value[39] = right[39];
            for (int k = 38; k >= 0; --k) value[k] = right[k] - upper[k] * value[k + 1];
        }
    }
    __syncthreads();
    if (j == 20) out[blockIdx.x] = value[20];
}

// Van der Pol's oscillator by steps of second and third order whose size follows their difference.
KERNEL adaptive_steps(const double* stiffness, double2* out, int* taken, int n, double until)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double mu = stiffness[i], x = 2.0, v = 0.0, t = 0.0, h = 0.0625;
    int steps = 0;
    while (t < until) {
        bool last = h >= until - t;
        if (last) h = until - t;
        double ax = v, av = mu * (1.0 - x * x) * v - x;
        double px = x + 0.5 * h * ax, pv = v + 0.5 * h * av, bx = pv, bv = mu * (1.0 - px * px) * pv - px;
        double qx = x + 0.75 * h * bx, qv = v + 0.75 * h * bv, cx = qv, cv = mu * (1.0 - qx * qx) * qv - qx;
        double nx = x + h * (2.0 * ax + 3.0 * bx + 4.0 * cx) / 9.0, nv = v + h * (2.0 * av + 3.0 * bv + 4.0 * cv) / 9.0;
        double dx = nv, dv = mu * (1.0 - nx * nx) * nv - nx;
        double error = fmax(fabs(h * (-5.0 * ax / 72.0 + bx / 12.0 + cx / 9.0 - dx / 8.0)),
                            fabs(h * (-5.0 * av / 72.0 + bv / 12.0 + cv / 9.0 - dv / 8.0)));
        ++steps;
        if (error <= 1e-3) { t = last ? until : t + h; x = nx; v = nv; }
        if (error > 1e-3) h *= 0.5;
        else if (error < 1e-4) h *= 2.0;
    }
    out[i] = make_double2(x, v);
    taken[i] = steps;
}

// The strength of single tones in frames of samples, by Goertzel's recurrence: a frame a block, a tone a thread.
KERNEL tones(const short* samples, const float* twice_cosine, float* power, int length)
{
    extern __shared__ short frame[];
    for (int i = threadIdx.x; i < length; i += blockDim.x) frame[i] = samples[blockIdx.x * length + i];
    __syncthreads();
    float c = twice_cosine[threadIdx.x], last = 0.0f, before = 0.0f;
#pragma unroll 4
    for (int i = 0; i < length; ++i) {
        float now = frame[i] * (1.0f / 32768.0f) + c * last - before;
        before = last;
        last = now;
    }
    power[blockIdx.x * blockDim.x + threadIdx.x] = last * last + before * before - c * last * before;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def fluid_density(places, starts, density):
    reach, mass = cupy.float32(0.125), cupy.float32(100)
    _run("fluid_density", (4,), (64,), places, starts, density, *_ints(8, density.size), reach, mass)


def tree_gravity(nodes, bodies, pull):
    _run("tree_gravity", (3,), (64,), nodes, bodies, pull, *_ints(len(bodies)), cupy.float32(0.01), cupy.float32(1.5))


def shallow_water(a, out):
    h, w, _ = a.shape
    _run("shallow_water", (2, 5), (32, 4), a, out, *_ints(w, h), cupy.float32(0.02))


def pull_rope(knots):
    _run("pull_rope", (len(knots),), (64,), knots, *_ints(knots.shape[1]), cupy.float32(0.5), *_ints(5))


def two_grids(fine, coarse):
    n = len(coarse)
    _run("coarsen", (2, 2), (8, 8), fine, coarse, *_ints(n))
    _run("refine", (3, 4), (16, 8), coarse, fine, *_ints(n))


def noise(order, out):
    h, w = out.shape
    _run("noise", (2,), (256,), order, out, *_ints(w, h), cupy.float32(0.15625))


def count_hits(boxes, children, queries, hits):
    _run("count_hits", (3,), (64,), boxes, children, queries, hits, *_ints(hits.size))


def sandpile(heaps, out, rounds):
    _run("sandpile", (rounds.size,), (16, 16), heaps, out, rounds)


def sobol(directions, points, under):
    _run("sobol", (5,), (96,), directions, points, under, *_ints(len(points)))


def crank_nicolson(strikes, out):
    numbers = cupy.float64(0.05), cupy.float64(0.3), cupy.float64(0.02)
    _run("crank_nicolson", (strikes.size,), (40,), strikes, out, *_ints(10), *numbers)


def adaptive_steps(stiffness, out, taken):
    _run("adaptive_steps", (2,), (32,), stiffness, out, taken, *_ints(taken.size), cupy.float64(4))


def tones(samples, cosines, power):
    n, length = samples.shape
    _run("tones", (n,), (cosines.size,), samples, cosines, power, *_ints(length), shared=2 * length)
