"""The third set of kernels that no rule of counting was made from: chance, prices, particles, waves, geometry."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

// Paths of a price that is worth nothing once it falls below a barrier: a path leaves its loop there.
KERNEL barrier_paths(const float* normals, float* out, int paths, int steps, float barrier)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= paths) return;
    float log_price = 0.0f;
    bool alive = true;
    for (int s = 0; s < steps; ++s) {
        log_price += -0.0002f + 0.04f * normals[s * paths + p];
        if (log_price < barrier) { alive = false; break; }
    }
    out[p] = alive ? fmaxf(100.0f * expf(log_price) - 95.0f, 0.0f) : 0.0f;
}

__device__ double call_price(double spot, double strike, double years, double volatility)
{
    double spread = volatility * sqrt(years), d = log(spot / strike) / spread + 0.5 * spread;
    return spot * normcdf(d) - strike * normcdf(d - spread);
}

// The volatility that explains a price, by halving an interval until it is small.
KERNEL implied_volatility(const double* prices, const double* strikes, double* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double low = 0.01, high = 2.0, wanted = prices[i], strike = strikes[i];
    while (high - low > 1e-4) {
        double mid = 0.5 * (low + high);
        if (call_price(20.0, strike, 0.5, mid) < wanted) low = mid; else high = mid;
    }
    out[i] = 0.5 * (low + high);
}

// Several steps of heat in a line without going back to memory: a tile gets smaller by one cell a step.
KERNEL heat_steps(const float* in, float* out, int n, int steps, float rate)
{
    extern __shared__ float s[];
    float *now = s, *next = s + blockDim.x;
    int inner = blockDim.x - 2 * steps, at = blockIdx.x * inner + (int)threadIdx.x - steps, t = threadIdx.x;
    bool inside = at >= 0 && at < n;
    now[t] = inside ? in[at] : 0.0f;
    __syncthreads();
    for (int k = 1; k <= steps; ++k) {
        if (t >= k && t < blockDim.x - k && inside) {
            float left = at > 0 ? now[t - 1] : now[t], right = at < n - 1 ? now[t + 1] : now[t];
            next[t] = now[t] + rate * (left - 2.0f * now[t] + right);
        }
        __syncthreads();
        float* swap = now; now = next; next = swap;
    }
    if (t >= steps && t < steps + inner && at < n) out[at] = now[t];
}

// Nine points of a Laplacian; a thread goes down a column and keeps three rows in registers and neighbours by shuffles.
KERNEL march_columns(const float* in, float* out, int w, int h, int rows)
{
    int lane = threadIdx.x, x = blockIdx.x * 30 + lane - 1, y = blockIdx.y * rows;
    bool used = x >= 0 && x < w;
    float sums[3];
    float middle = 0.0f, next = 0.0f;
    for (int k = -1; k <= rows; ++k) {
        int row = y + k;
        next = used && row >= 0 && row < h ? in[row * w + x] : 0.0f;
        float sides = __shfl_up_sync(ALL, next, 1) + __shfl_down_sync(ALL, next, 1);
        sums[0] = k == -1 ? 0.0f : sums[1];
        sums[1] = k == -1 ? 0.0f : sums[2];
        sums[2] = sides + 4.0f * next;
        if (k >= 1 && row - 1 < h && used && lane >= 1 && lane <= 30)
            out[(row - 1) * w + x] = (sums[0] + sums[2] + 4.0f * (sums[1] - 4.0f * middle) - 20.0f * middle) / 6.0f;
        middle = next;
    }
}

// What is carried along by a flow, from whichever side the flow comes.
KERNEL advect(const float* a, const float4* flow, float* out, int w, int h, int d, float dt)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= w || y >= h || z >= d) return;
    int i = (z * h + y) * w + x;
    float here = a[i], change = 0.0f;
    float4 v = flow[i];
    if (v.x > 0.0f) change += v.x * (here - (x > 0 ? a[i - 1] : 0.0f));
    else change += v.x * ((x < w - 1 ? a[i + 1] : 0.0f) - here);
    if (v.y > 0.0f) change += v.y * (here - (y > 0 ? a[i - w] : 0.0f));
    else change += v.y * ((y < h - 1 ? a[i + w] : 0.0f) - here);
    if (v.z > 0.0f) change += v.z * (here - (z > 0 ? a[i - w * h] : 0.0f));
    else change += v.z * ((z < d - 1 ? a[i + w * h] : 0.0f) - here);
    out[i] = here - dt * change + dt * v.w;
}

// Yee's grid in two dimensions: the magnetic field, then the electric one.
KERNEL magnetic(float* hx, float* hy, const float* ez, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * w + x;
    if (x >= w || y >= h) return;
    if (y < h - 1) hx[i] -= 0.5f * (ez[i + w] - ez[i]);
    if (x < w - 1) hy[i] += 0.5f * (ez[i + 1] - ez[i]);
}

KERNEL electric(const float* hx, const float* hy, float* ez, const float* slowness, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1, i = y * w + x;
    if (x >= w - 1 || y >= h - 1) return;
    ez[i] += slowness[i] * (hy[i] - hy[i - 1] - hx[i] + hx[i - w]);
}

// Charges go to the four corners around them, in fixed point; a block gathers them before it adds them to all.
KERNEL deposit(const uint2* places, const int* charges, long long* grid, int n, int w, int h)
{
    __shared__ unsigned long long own[12 * 16];
    for (int i = threadIdx.x; i < w * h; i += blockDim.x) own[i] = 0;
    __syncthreads();
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < n; p += gridDim.x * blockDim.x) {
        uint2 at = places[p];
        int x = at.x >> 8, y = at.y >> 8, u = at.x & 255, v = at.y & 255;
        long long q = charges[p];
        atomicAdd(&own[y * w + x], (unsigned long long)(q * (256 - u) * (256 - v)));
        atomicAdd(&own[y * w + x + 1], (unsigned long long)(q * u * (256 - v)));
        atomicAdd(&own[(y + 1) * w + x], (unsigned long long)(q * (256 - u) * v));
        atomicAdd(&own[(y + 1) * w + x + 1], (unsigned long long)(q * u * v));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < w * h; i += blockDim.x)
        if (own[i]) atomicAdd((unsigned long long*)&grid[i], own[i]);
}

struct Particle { float3 place, speed; float charge, mass; };

__device__ float3 cross(float3 a, float3 b)
{
    return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

__device__ float3 add(float3 a, float3 b, float k) { return make_float3(a.x + k * b.x, a.y + k * b.y, a.z + k * b.z); }

// Boris' step of charged particles in an electric and a magnetic field.
KERNEL boris(Particle* particles, const float3* fields, int n, float dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Particle p = particles[i];
    float3 electric_field = fields[0], magnetic_field = fields[1];
    float half = 0.5f * dt * p.charge / p.mass;
    float3 v = add(p.speed, electric_field, half);
    float3 turn = make_float3(half * magnetic_field.x, half * magnetic_field.y, half * magnetic_field.z);
    float factor = 2.0f / (1.0f + turn.x * turn.x + turn.y * turn.y + turn.z * turn.z);
    float3 turned = add(v, cross(v, turn), 1.0f);
    v = add(v, cross(turned, turn), factor);
    p.speed = add(v, electric_field, half);
    p.place = add(p.place, p.speed, dt);
    particles[i] = p;
}

// Forces of Lennard and Jones from lists of neighbours in a box that repeats; far ones are left out.
KERNEL pair_forces(const float4* places, const int* counts, const int* near, float4* forces, int n, int most, float box)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = places[i], sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int k = 0; k < counts[i]; ++k) {
        float4 q = places[near[k * n + i]];
        float x = p.x - q.x, y = p.y - q.y, z = p.z - q.z;
        x -= box * rintf(x / box);
        y -= box * rintf(y / box);
        z -= box * rintf(z / box);
        float square = x * x + y * y + z * z;
        if (square > 4.0f) continue;
        float s = 1.0f / square, s3 = s * s * s, f = 24.0f * s * s3 * (2.0f * s3 - 1.0f);
        sum.x += f * x;
        sum.y += f * y;
        sum.z += f * z;
        sum.w += 2.0f * s3 * (s3 - 1.0f);
    }
    forces[i] = sum;
}

// Spins of one colour flip by chance, which is drawn from a hash of place and time; chances are numbers of 32 bits.
KERNEL flip_spins(signed char* spins, const unsigned* chances, int w, int h, int colour, unsigned time)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x, y = k / (w / 2), x = 2 * (k % (w / 2)) + ((y + colour) & 1);
    if (y >= h) return;
    int around = spins[y * w + (x + 1) % w] + spins[y * w + (x + w - 1) % w] + spins[(y + 1) % h * w + x]
               + spins[(y + h - 1) % h * w + x];
    int gain = around * spins[y * w + x];
    unsigned drawn = (y * w + x) * 0x9e3779b9u + time * 0x85ebca6bu;
    drawn ^= drawn >> 15;
    drawn *= 0xc2b2ae35u;
    drawn ^= drawn >> 13;
    if (gain <= 0 || drawn < chances[gain]) spins[y * w + x] = -spins[y * w + x];
}

// Where planets are on their ellipses: Newton's steps until they are small.
KERNEL kepler(const double* anomaly, const double* eccentricity, double2* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double m = anomaly[i], e = eccentricity[i], angle = e > 0.8 ? 3.141592653589793 : m;
    for (int k = 0; k < 50; ++k) {
        double step = (angle - e * sin(angle) - m) / (1.0 - e * cos(angle));
        angle -= step;
        if (fabs(step) < 1e-13) break;
    }
    double s, c;
    sincos(angle, &s, &c);
    out[i] = make_double2(c - e, sqrt(1.0 - e * e) * s);
}

// Transforms of nine numbers as three by three, all in registers; numbers of one transform are apart by the count.
__device__ void three(float2& a, float2& b, float2& c)
{
    float2 s = make_float2(b.x + c.x, b.y + c.y), d = make_float2(0.8660254f * (b.x - c.x), 0.8660254f * (b.y - c.y));
    float2 m = make_float2(a.x - 0.5f * s.x, a.y - 0.5f * s.y);
    a.x += s.x; a.y += s.y;
    b = make_float2(m.x + d.y, m.y - d.x);
    c = make_float2(m.x - d.y, m.y + d.x);
}

__constant__ float2 ninths[5] = {
    {1.0f, 0.0f}, {0.76604444f, -0.64278761f}, {0.17364818f, -0.98480775f}, {-0.5f, -0.8660254f},
    {-0.93969262f, -0.34202014f}};

KERNEL fourier_9(const float2* in, float2* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 v[9];
#pragma unroll
    for (int k = 0; k < 9; ++k) v[k] = in[k * n + i];
#pragma unroll
    for (int k = 0; k < 3; ++k) three(v[k], v[k + 3], v[k + 6]);
#pragma unroll
    for (int j = 1; j < 3; ++j)
#pragma unroll
        for (int k = 1; k < 3; ++k) {
            float2 x = v[3 * j + k], y = ninths[j * k];
            v[3 * j + k] = make_float2(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
        }
#pragma unroll
    for (int j = 0; j < 3; ++j) three(v[3 * j], v[3 * j + 1], v[3 * j + 2]);
#pragma unroll
    for (int j = 0; j < 3; ++j)
#pragma unroll
        for (int k = 0; k < 3; ++k) out[(j + 3 * k) * n + i] = v[3 * j + k];
}

// Two levels of the whole-number wavelet of five and three, by lifting in shared memory; a row a block.
KERNEL wavelet(const short* in, short* out, int n)
{
    extern __shared__ int line[];
    int t = threadIdx.x;
    in += blockIdx.x * n; out += blockIdx.x * n;
    for (int i = t; i < n; i += blockDim.x) line[i] = in[i];
    for (int apart = 1; apart <= 2; apart *= 2) {
        __syncthreads();
        int count = n / apart;
        for (int k = 2 * t + 1; k < count; k += 2 * blockDim.x) {
            int left = line[(k - 1) * apart], right = k + 1 < count ? line[(k + 1) * apart] : left;
            line[k * apart] -= (left + right) >> 1;
        }
        __syncthreads();
        for (int k = 2 * t; k < count; k += 2 * blockDim.x) {
            int right = line[(k + 1) * apart], left = k > 0 ? line[(k - 1) * apart] : right;
            line[k * apart] += (left + right + 2) >> 2;
        }
    }
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) {
        int place = i % 2 ? n / 2 + i / 2 : i % 4 ? n / 4 + i / 4 : i / 4;
        out[place] = line[i];
    }
}

// How far two series are apart if time may stretch: diagonals of a table, three of them at a time.
KERNEL time_warp(const float* a, const float* b, float* out, int n, int m, int width)
{
    __shared__ float diagonals[3][64];
    int i = threadIdx.x;
    a += blockIdx.x * n; b += blockIdx.x * m;
    const float far = 1e30f;
    diagonals[0][i] = diagonals[1][i] = diagonals[2][i] = far;
    __syncthreads();
    for (int d = 0; d < n + m - 1; ++d) {
        float *now = diagonals[d % 3], *last = diagonals[(d + 2) % 3], *before = diagonals[(d + 1) % 3];
        int j = d - i;
        float value = far;
        if (i < n && j >= 0 && j < m && abs(i - j) <= width) {
            float best = far;
            if (i == 0 && j == 0) best = 0.0f;
            if (i > 0) best = fminf(last[i - 1], j > 0 ? before[i - 1] : far);
            best = fminf(best, j > 0 ? last[i] : far);
            value = best + fabsf(a[i] - b[j]);
        }
        __syncthreads();
        now[i] = value;
        __syncthreads();
    }
    if (i == n - 1) out[blockIdx.x] = diagonals[(n + m - 2) % 3][i];
}

struct Triangle { float3 a, ab, ac; };

__device__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

// The triangle that a ray meets first, by the method of Moeller and Trumbore; triangles come through shared memory.
KERNEL first_hits(const Triangle* triangles, int count, const float3* origins, const float3* rays, int* hit,
                  float* depth, int n)
{
    __shared__ Triangle tile[16];
    int i = blockIdx.x * blockDim.x + threadIdx.x, first = -1;
    float3 o = make_float3(0, 0, 0), d = make_float3(0, 0, 1);
    if (i < n) { o = origins[i]; d = rays[i]; }
    float nearest = 1e30f;
    for (int base = 0; base < count; base += 16) {
        __syncthreads();
        if (threadIdx.x < 16 && base + threadIdx.x < count) tile[threadIdx.x] = triangles[base + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < min(16, count - base); ++k) {
            Triangle t = tile[k];
            float3 p = cross(d, t.ac);
            float whole = dot(t.ab, p);
            if (fabsf(whole) < 1e-7f) continue;
            float3 from = make_float3(o.x - t.a.x, o.y - t.a.y, o.z - t.a.z);
            float u = dot(from, p) / whole;
            if (u < 0.0f || u > 1.0f) continue;
            float3 q = cross(from, t.ab);
            float v = dot(d, q) / whole;
            if (v < 0.0f || u + v > 1.0f) continue;
            float at = dot(t.ac, q) / whole;
            if (at > 0.0f && at < nearest) { nearest = at; first = base + k; }
        }
    }
    if (i < n) { hit[i] = first; depth[i] = first < 0 ? -1.0f : nearest; }
}

// Pixels that triangles with whole-number corners cover: the last triangle wins; nothing is drawn on upper edges.
KERNEL cover(const int2* corners, int count, unsigned char* out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int found = 0;
    for (int t = count - 1; t >= 0; --t) {
        int2 a = corners[3 * t], b = corners[3 * t + 1], c = corners[3 * t + 2];
        if (x < min(a.x, min(b.x, c.x)) || x > max(a.x, max(b.x, c.x))) continue;
        int u = (b.x - a.x) * (y - a.y) - (b.y - a.y) * (x - a.x);
        int v = (c.x - b.x) * (y - b.y) - (c.y - b.y) * (x - b.x);
        int s = (a.x - c.x) * (y - c.y) - (a.y - c.y) * (x - c.x);
        if ((u > 0 && v > 0 && s > 0) || (u < 0 && v < 0 && s < 0)) { found = t + 1; break; }
    }
    out[y * w + x] = found;
}

// Whether points are within a polygon: how often a ray crosses its edges.
__constant__ int2 outline[9] = {
    {0, 0}, {90, 10}, {70, 50}, {100, 100}, {50, 60}, {20, 95}, {30, 50}, {-20, 70}, {5, 30}};

KERNEL within(const int2* points, unsigned* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool inside = false;
    if (i < n) {
        int2 p = points[i];
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            int2 a = outline[k], b = outline[(k + 1) % 9];
            if ((a.y > p.y) == (b.y > p.y)) continue;
            int side = (b.x - a.x) * (p.y - a.y) - (p.x - a.x) * (b.y - a.y);
            if (b.y > a.y ? side > 0 : side < 0) inside = !inside;
        }
    }
    unsigned votes = __ballot_sync(ALL, inside);
    if (threadIdx.x % 32 == 0) out[i / 32] = votes;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _sizes(*numbers):
    return tuple(cupy.int32(n) for n in numbers)


def barrier_paths(normals, out):
    steps, paths = normals.shape
    _run("barrier_paths", ((paths + 63) // 64,), (64,), normals, out, *_sizes(paths, steps), cupy.float32(-0.1))


def implied_volatility(prices, strikes, out):
    _run("implied_volatility", (2,), (32,), prices, strikes, out, *_sizes(prices.size))


def heat_steps(a, out):
    inner = 64 - 2 * 5
    blocks = (a.size + inner - 1) // inner
    _run("heat_steps", (blocks,), (64,), a, out, *_sizes(a.size, 5), cupy.float32(0.2), shared=2 * 64 * 4)


def march_columns(a, out):
    h, w = a.shape
    _run("march_columns", ((w + 29) // 30, (h + 6) // 7), (32,), a, out, *_sizes(w, h, 7))


def advect(a, flow, out):
    d, h, w = a.shape
    _run(
        "advect",
        ((w + 15) // 16, (h + 3) // 4, (d + 1) // 2),
        (16, 4, 2),
        a,
        flow,
        out,
        *_sizes(w, h, d),
        cupy.float32(0.1),
    )


def yee_steps(hx, hy, ez, slowness):
    h, w = ez.shape
    grid = (w + 15) // 16, (h + 7) // 8
    for _ in range(2):
        _run("magnetic", grid, (16, 8), hx, hy, ez, *_sizes(w, h))
        _run("electric", grid, (16, 8), hx, hy, ez, slowness, *_sizes(w, h))


def deposit(places, charges, grid):
    h, w = grid.shape
    _run("deposit", (2,), (96,), places, charges, grid, *_sizes(len(places), w, h))


def boris(particles, fields):
    _run("boris", (2,), (64,), particles, fields, *_sizes(len(particles)), cupy.float32(0.1))


def pair_forces(places, counts, near, forces):
    n = len(places)
    _run("pair_forces", (2,), (64,), places, counts, near, forces, *_sizes(n, len(near)), cupy.float32(5))


def flip_spins(spins, chances):
    h, w = spins.shape
    for time in range(2):
        for colour in (0, 1):
            numbers = *_sizes(w, h, colour), cupy.uint32(time)
            _run("flip_spins", ((w // 2 * h + 127) // 128,), (128,), spins, chances, *numbers)


def kepler(anomaly, eccentricity, out):
    _run("kepler", (2,), (64,), anomaly, eccentricity, out, *_sizes(anomaly.size))


def fourier_9(a, out):
    _run("fourier_9", (2,), (64,), a, out, *_sizes(a.shape[1]))


def wavelet(a, out):
    rows, n = a.shape
    _run("wavelet", (rows,), (32,), a, out, *_sizes(n), shared=4 * n)


def time_warp(a, b, out):
    _run("time_warp", (len(a),), (64,), a, b, out, *_sizes(a.shape[1], b.shape[1], 12))


def first_hits(triangles, origins, rays, hit, depth):
    n = hit.size
    _run(
        "first_hits",
        ((n + 63) // 64,),
        (64,),
        triangles,
        *_sizes(len(triangles)),
        origins,
        rays,
        hit,
        depth,
        *_sizes(n),
    )


def cover(corners, out):
    h, w = out.shape
    _run("cover", ((w + 15) // 16, (h + 7) // 8), (16, 8), corners, *_sizes(len(corners)), out, *_sizes(w, h))


def within(points, out):
    _run("within", ((len(points) + 63) // 64,), (64,), points, out, *_sizes(len(points)))
