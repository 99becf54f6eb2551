"""The fifth set of kernels that no rule of counting was made from: bodies, fields, rays, curves, signals, money."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

// Three bodies in a plane by steps of Runge and Kutta, a system a thread.
struct State { double x[3], y[3], u[3], v[3]; };

__device__ State change(const State& s)
{
    State d;
    for (int i = 0; i < 3; ++i) {
        double a = 0, b = 0;
        for (int j = 0; j < 3; ++j) {
            if (j == i) continue;
            double dx = s.x[j] - s.x[i], dy = s.y[j] - s.y[i], square = dx * dx + dy * dy + 0.01;
            double pull = 1.0 / (square * sqrt(square));
            a += pull * dx;
            b += pull * dy;
        }
        d.x[i] = s.u[i]; d.y[i] = s.v[i]; d.u[i] = a; d.v[i] = b;
    }
    return d;
}

__device__ State moved(const State& s, const State& d, double h)
{
    State r;
    for (int i = 0; i < 3; ++i) {
        r.x[i] = s.x[i] + h * d.x[i]; r.y[i] = s.y[i] + h * d.y[i];
        r.u[i] = s.u[i] + h * d.u[i]; r.v[i] = s.v[i] + h * d.v[i];
    }
    return r;
}

KERNEL three_bodies(const State* in, State* out, int steps, double h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    State s = in[i];
    for (int k = 0; k < steps; ++k) {
        State a = change(s), b = change(moved(s, a, 0.5 * h)), c = change(moved(s, b, 0.5 * h));
        State d = change(moved(s, c, h));
        s = moved(moved(moved(moved(s, a, h / 6), b, h / 3), c, h / 3), d, h / 6);
    }
    out[i] = s;
}

// A gas of particles on a square lattice, four directions in four bits: collisions, then moves, in shared memory.
KERNEL lattice_gas(const unsigned char* in, unsigned char* out, int steps)
{
    __shared__ unsigned char cells[2][16][20];
    int x = threadIdx.x, y = threadIdx.y, at = (blockIdx.x * 16 + y) * 20 + x, now = 0;
    cells[0][y][x] = in[at] & 15;
    for (int step = 0; step < steps; ++step) {
        int c = cells[now][y][x];
        if (c == 5) c = 10;
        else if (c == 10) c = 5;
        cells[now][y][x] = c;
        __syncthreads();
        int moved = (cells[now][y][(x + 19) % 20] & 1) | (cells[now][(y + 15) % 16][x] & 2);
        moved |= (cells[now][y][(x + 1) % 20] & 4) | (cells[now][(y + 1) % 16][x] & 8);
        now ^= 1;
        cells[now][y][x] = moved;
        __syncthreads();
    }
    out[at] = cells[now][y][x];
}

// A wood that grows, burns and is lit by chance; cells of a ring of rows, one step a launch.
KERNEL forest_fire(const unsigned char* in, unsigned char* out, int w, int h, unsigned step)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int i = y * w + x;
    unsigned r = (i + step * 7919u) * 2654435761u;
    r ^= r >> 13;
    r *= 0x5bd1e995u;
    r ^= r >> 15;
    switch (in[i]) {
    case 0: out[i] = (r & 7) == 0; break;
    case 1: {
        bool lit = (r & 63) == 0;
        if (x > 0) lit |= in[i - 1] == 2;
        if (x < w - 1) lit |= in[i + 1] == 2;
        lit |= in[(y + h - 1) % h * w + x] == 2 || in[(y + 1) % h * w + x] == 2;
        out[i] = lit ? 2 : 1;
        break;
    }
    default: out[i] = 0;
    }
}

// Two matters that react and spread, after Gray and Scott, as pairs in shared memory.
KERNEL react(const float2* in, float2* out, int steps, float feed, float kill)
{
    __shared__ float2 field[2][12][25];
    int x = threadIdx.x, y = threadIdx.y, at = (blockIdx.x * 12 + y) * 24 + x, now = 0;
    field[0][y][x] = in[at];
    __syncthreads();
    int left = (x + 23) % 24, right = (x + 1) % 24, up = (y + 11) % 12, down = (y + 1) % 12;
    for (int step = 0; step < steps; ++step, now ^= 1) {
        float2 c = field[now][y][x], l = field[now][y][left], r = field[now][y][right];
        float2 u = field[now][up][x], d = field[now][down][x];
        float reaction = c.x * c.y * c.y;
        float a = 0.16f * (l.x + r.x + u.x + d.x - 4.0f * c.x), b = 0.08f * (l.y + r.y + u.y + d.y - 4.0f * c.y);
        field[now ^ 1][y][x] = make_float2(c.x + a - reaction + feed * (1.0f - c.x),
                                           c.y + b + reaction - (feed + kill) * c.y);
        __syncthreads();
    }
    out[at] = field[now][y][x];
}

// The first of some spheres that each ray meets, and how far off; -1 if none.
KERNEL meet_spheres(const float3* directions, const float4* spheres, int* hit, float* distance, int count, int n)
{
    __shared__ float4 s[24];
    if (threadIdx.x < count) s[threadIdx.x] = spheres[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float3 d = directions[i];
    float length = rsqrtf(d.x * d.x + d.y * d.y + d.z * d.z), nearest = 1e30f;
    d.x *= length; d.y *= length; d.z *= length;
    int best = -1;
    for (int k = 0; k < count; ++k) {
        float along = s[k].x * d.x + s[k].y * d.y + s[k].z * d.z;
        if (along < 0.0f) continue;
        float off = s[k].x * s[k].x + s[k].y * s[k].y + s[k].z * s[k].z - along * along;
        float inside = s[k].w * s[k].w - off;
        if (inside < 0.0f) continue;
        float t = along - sqrtf(inside);
        if (t > 0.0f && t < nearest) { nearest = t; best = k; }
    }
    hit[i] = best;
    distance[i] = best < 0 ? 0.0f : nearest;
}

// Points of curves of degree DEGREE after de Casteljau; curves along one side of the grid, places along the other.
template <int DEGREE> __device__ void on_curve(const float2* controls, float2* out, int places)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= places) return;
    float2 p[DEGREE + 1];
    float t = k / (places - 1.0f);
#pragma unroll
    for (int i = 0; i <= DEGREE; ++i) p[i] = controls[blockIdx.y * (DEGREE + 1) + i];
#pragma unroll
    for (int level = DEGREE; level > 0; --level)
#pragma unroll
        for (int i = 0; i < level; ++i) {
            p[i].x += t * (p[i + 1].x - p[i].x);
            p[i].y += t * (p[i + 1].y - p[i].y);
        }
    out[blockIdx.y * places + k] = p[0];
}

KERNEL bezier(const float2* controls, float2* out, int places) { on_curve<5>(controls, out, places); }

// Turns of joints of arms one after the other: products of quaternions from the first to each joint, an arm a warp.
__device__ float4 product(float4 a, float4 b)
{
    return make_float4(a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y, a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
                       a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w, a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z);
}

KERNEL turn_joints(const float4* turns, float4* out, int joints, int arms)
{
    int arm = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (arm >= arms) return;
    float4 q = lane < joints ? turns[arm * joints + lane] : make_float4(0.0f, 0.0f, 0.0f, 1.0f);
    for (int d = 1; d < 32; d <<= 1) {
        float4 before;
        before.x = __shfl_up_sync(ALL, q.x, d);
        before.y = __shfl_up_sync(ALL, q.y, d);
        before.z = __shfl_up_sync(ALL, q.z, d);
        before.w = __shfl_up_sync(ALL, q.w, d);
        if (lane >= d) q = product(before, q);
    }
    if (lane < joints) out[arm * joints + lane] = q;
}

// How long points stay near under z := (|x| + |y| i)^2 + c, in whole numbers with 24 bits behind the point.
KERNEL burning_ship(unsigned short* out, int w, int h, int most)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= w || j >= h) return;
    const long long one = 1 << 24;
    long long a = -9 * one / 5 + i * (one / 300), b = -one / 10 + j * (one / 300), x = 0, y = 0;
    int k = 0;
    for (; k < most; ++k) {
        long long xx = x * x >> 24, yy = y * y >> 24;
        if (xx + yy > 4 * one) break;
        long long xy = x * y >> 23;
        y = (xy < 0 ? -xy : xy) + b;
        x = xx - yy + a;
    }
    out[j * w + i] = k;
}

// Lifting of 5 and 3 points, whole numbers, all levels of a row in shared memory.
KERNEL lift_rows(const short* in, short* out, int n)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    for (int i = t; i < n; i += blockDim.x) s[i] = in[blockIdx.x * n + i];
    for (int step = 1; 2 * step <= n; step *= 2) {
        __syncthreads();
        for (int i = step + 2 * step * t; i < n; i += 2 * step * blockDim.x) {
            int right = i + step < n ? s[i + step] : s[i - step];
            s[i] -= (s[i - step] + right) >> 1;
        }
        __syncthreads();
        for (int i = 2 * step * t; i < n; i += 2 * step * blockDim.x) {
            int left = i ? s[i - step] : s[i + step], right = i + step < n ? s[i + step] : left;
            s[i] += (left + right + 2) >> 2;
        }
    }
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) out[blockIdx.x * n + i] = s[i];
}

// The rate at which payments are worth nothing now, after Newton; a thread stops when its step is small.
KERNEL internal_rates(const double* payments, double* rate, int terms, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double r = 0.1;
    for (int round = 0; round < 40; ++round) {
        double factor = 1.0 / (1.0 + r), value = 0.0, slope = 0.0;
        for (int k = terms - 1; k >= 0; --k) {
            slope = slope * factor + value;
            value = value * factor + payments[k * n + i];
        }
        double step = value / (slope * factor * factor);
        r += step;
        if (fabs(step) < 1e-13) break;
    }
    rate[i] = r;
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def three_bodies(start, out):
    n = len(start)
    _run("three_bodies", (2,), (32,), start, out, *_ints(6), cupy.float64(0.05), *_ints(n))


def lattice_gas(cells, out):
    _run("lattice_gas", (len(cells),), (20, 16), cells, out, *_ints(9))


def forest_fire(wood, other):
    h, w = wood.shape
    for step in range(6):
        _run("forest_fire", ((w + 31) // 32, (h + 3) // 4), (32, 4), wood, other, *_ints(w, h), cupy.uint32(step))
        wood, other = other, wood


def react(field, out):
    _run("react", (len(field),), (24, 12), field, out, *_ints(8), cupy.float32(0.035), cupy.float32(0.065))


def meet_spheres(directions, spheres, hit, distance):
    _run("meet_spheres", (4,), (96,), directions, spheres, hit, distance, *_ints(len(spheres), hit.size))


def bezier(controls, out):
    _run("bezier", (2, len(controls)), (48,), controls, out, *_ints(out.shape[1]))


def turn_joints(turns, out):
    arms, joints, _ = turns.shape
    _run("turn_joints", ((arms + 2) // 3,), (32, 3), turns, out, *_ints(joints, arms))


def burning_ship(out):
    h, w = out.shape
    _run("burning_ship", ((w + 15) // 16, (h + 7) // 8), (16, 8), out, *_ints(w, h, 60))


def lift_rows(a, out):
    _run("lift_rows", (len(a),), (64,), a, out, *_ints(a.shape[1]))


def internal_rates(payments, rate):
    _run("internal_rates", (3,), (32,), payments, rate, *_ints(*payments.shape))
