"""The second set of kernels that no rule of counting was made from: simulations, images, prices, chance."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void

__device__ float distance_to_scene(float3 p)
{
    float x = p.x - rintf(p.x / 2.0f) * 2.0f, z = p.z - rintf(p.z / 2.0f) * 2.0f;
    float sphere = sqrtf(x * x + p.y * p.y + z * z) - 0.6f;
    float qx = fmaxf(fabsf(x) - 0.3f, 0.0f), qy = fmaxf(fabsf(p.y) - 0.9f, 0.0f), qz = fmaxf(fabsf(z) - 0.3f, 0.0f);
    return fminf(fminf(sphere, sqrtf(qx * qx + qy * qy + qz * qz) - 0.05f), p.y + 1.0f);
}

// Rays go as far as nothing is near; how many steps each takes, its neighbours do not know.
KERNEL march_rays(int* steps, float* depth, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float u = (x + 0.5f) / w * 2.0f - 1.0f, v = (y + 0.5f) / h * 2.0f - 1.0f, t = 0.0f;
    float r = 1.0f / sqrtf(u * u + v * v + 1.0f);
    int n = 0;
    for (; n < 40; ++n) {
        float d = distance_to_scene(make_float3(1.0f + u * r * t, 0.25f + v * r * t, -3.0f + r * t));
        if (d < 0.01f) break;
        t += d;
        if (t > 12.0f) break;
    }
    steps[y * w + x] = n;
    depth[y * w + x] = t;
}

__constant__ int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float weight[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};

// A step of a lattice of nine velocities: populations are pulled from neighbours, then relaxed; walls send them back.
KERNEL lattice_step(const float* f, const unsigned char* wall, float* out, int w, int h, float omega)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= w || y >= h) return;
    int at = y * w + x, n = w * h;
    float p[9];
    if (wall[at]) {
        for (int k = 0; k < 9; ++k) out[k * n + at] = f[k * n + at];
        return;
    }
#pragma unroll
    for (int k = 0; k < 9; ++k) {
        int from = (y - cy[k] + h) % h * w + (x - cx[k] + w) % w;
        int back = k == 0 ? 0 : k < 5 ? (k + 1) % 4 + 1 : (k - 3) % 4 + 5;
        p[k] = wall[from] ? f[back * n + at] : f[k * n + from];
    }
    float rho = 0.0f, ux = 0.0f, uy = 0.0f;
#pragma unroll
    for (int k = 0; k < 9; ++k) { rho += p[k]; ux += cx[k] * p[k]; uy += cy[k] * p[k]; }
    ux /= rho;
    uy /= rho;
    float square = 1.0f - 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int k = 0; k < 9; ++k) {
        float c = 3.0f * (cx[k] * ux + cy[k] * uy);
        out[k * n + at] = p[k] + omega * (weight[k] * rho * (square + c + 0.5f * c * c) - p[k]);
    }
}

// Thirty-two cells a word: neighbours are counted bit by bit with full adders.
KERNEL life_in_bits(const unsigned* a, unsigned* out, int words, int rows)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= words || y >= rows) return;
    unsigned ones = 0, twos = 0, fours = 0, own = a[y * words + x];
    for (int j = -1; j <= 1; ++j) {
        const unsigned* row = a + (y + j + rows) % rows * words;
        unsigned mid = row[x], before = row[(x + words - 1) % words], after = row[(x + 1) % words];
        unsigned left = __funnelshift_l(before, mid, 1), right = __funnelshift_r(mid, after, 1);
        unsigned add[3] = {left, right, j ? mid : 0};
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            unsigned carry = ones & add[k];
            ones ^= add[k];
            fours |= twos & carry;
            twos ^= carry;
        }
    }
    out[y * words + x] = twos & ~fours & (ones | own);
}

__device__ uint4 philox_7(unsigned counter, unsigned key)
{
    unsigned c0 = counter, c1 = 0, c2 = 0x2545f491, c3 = 0, k0 = key, k1 = ~key;
    for (int r = 0; r < 7; ++r) {
        unsigned long long p = 0xD2511F53ull * c0, q = 0xCD9E8D57ull * c2;
        c0 = (unsigned)(q >> 32) ^ c1 ^ k0;
        c1 = (unsigned)q;
        c2 = (unsigned)(p >> 32) ^ c3 ^ k1;
        c3 = (unsigned)p;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return make_uint4(c0, c1, c2, c3);
}

// Pairs of random points, those within a circle are counted.
KERNEL count_in_circle(unsigned key, int draws, int* total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, inside = 0;
    for (int k = 0; k < draws; ++k) {
        uint4 r = philox_7(i * draws + k, key);
        const float unit = 0x1p-24f;
        float x = (r.x >> 8) * unit, y = (r.y >> 8) * unit, u = (r.z >> 8) * unit, v = (r.w >> 8) * unit;
        if (x * x + y * y < 1.0f) ++inside;
        if (u * u + v * v < 1.0f) ++inside;
    }
    for (int d = 16; d; d >>= 1) inside += __shfl_down_sync(~0u, inside, d);
    if (threadIdx.x % 32 == 0) atomicAdd(total, inside);
}

// An option on the mean of twelve prices of a path, by normal numbers of Box and Muller.
KERNEL asian_option(const float* uniform, float* out, float price, float strike, float rate, float sigma)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    const float dt = 1.0f / 12.0f;
    float drift = (rate - 0.5f * sigma * sigma) * dt, spread = sigma * sqrtf(dt), sum = 0.0f, s = price;
#pragma unroll
    for (int k = 0; k < 6; ++k) {
        float radius = sqrtf(-2.0f * logf(uniform[2 * k * n + i])), a, b;
        sincospif(2.0f * uniform[(2 * k + 1) * n + i], &a, &b);
        s *= expf(drift + spread * radius * b);
        sum += s;
        s *= expf(drift + spread * radius * a);
        sum += s;
    }
    out[i] = expf(-rate) * fmaxf(sum / 12.0f - strike, 0.0f);
}

KERNEL black_scholes(const double* price, const double* strike, const double* years, double* call, double* put, int n,
                     double rate, double sigma)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        double s = price[i], k = strike[i], t = years[i], root = sigma * sqrt(t);
        double d1 = (log(s / k) + (rate + 0.5 * sigma * sigma) * t) / root, d2 = d1 - root, now = k * exp(-rate * t);
        double c = s * normcdf(d1) - now * normcdf(d2);
        call[i] = c;
        put[i] = c - s + now;
    }
}

// An American put by a tree of 63 steps, an option a block, a node a thread.
KERNEL binomial_put(const float* strikes, float* out, float price, float up, float p, float discount)
{
    __shared__ float value[64];
    int t = threadIdx.x;
    float strike = strikes[blockIdx.x], node = price * powf(up, 2.0f * t - 63.0f);
    value[t] = fmaxf(strike - node, 0.0f);
    for (int step = 62; step >= 0; --step) {
        __syncthreads();
        float hold = 0.0f;
        if (t <= step) hold = discount * (p * value[t + 1] + (1.0f - p) * value[t]);
        __syncthreads();
        node *= up;
        if (t <= step) value[t] = fmaxf(hold, strike - node);
    }
    if (t == 0) out[blockIdx.x] = value[0];
}

// Particles in cells of a row and their neighbours in cells beside them.
KERNEL cell_forces(const float2* place, const int* starts, float2* force, int cells)
{
    int c = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (c >= cells) return;
    for (int i = starts[c] + lane; i < starts[c + 1]; i += 32) {
        float2 me = place[i], sum = make_float2(0.0f, 0.0f);
        for (int k = max(c - 1, 0); k <= min(c + 1, cells - 1); ++k)
            for (int j = starts[k]; j < starts[k + 1]; ++j) {
                if (j == i) continue;
                float dx = me.x - place[j].x, dy = me.y - place[j].y, r2 = dx * dx + dy * dy;
                if (r2 >= 1.0f) continue;
                float s = 1.0f / (r2 + 0.5f), s3 = s * s * s, f = 24.0f * s * s3 * (2.0f * s3 - 1.0f);
                sum.x += f * dx;
                sum.y += f * dy;
            }
        force[i] = sum;
    }
}

// Seven points, planes above and below kept in registers as the block climbs.
KERNEL wave_3d(const float* now, const float* before, float* out, int w, int h, int d)
{
    __shared__ float s[10][18];
    int x = threadIdx.x, y = threadIdx.y, plane = w * h;
    int i = blockIdx.x * 16 + x, j = blockIdx.y * 8 + y, at = j * w + i;
    bool inside = i < w && j < h;
    float below = 0.0f, mid = inside ? now[at] : 0.0f;
    for (int k = 0; k < d; ++k) {
        float above = inside && k + 1 < d ? now[(k + 1) * plane + at] : 0.0f;
        __syncthreads();
        s[y + 1][x + 1] = mid;
        if (x == 0) s[y + 1][0] = j < h && i > 0 ? now[k * plane + at - 1] : 0.0f;
        if (x == 15) s[y + 1][17] = j < h && i + 1 < w ? now[k * plane + at + 1] : 0.0f;
        if (y == 0) s[0][x + 1] = i < w && j > 0 ? now[k * plane + at - w] : 0.0f;
        if (y == 7) s[9][x + 1] = i < w && j + 1 < h ? now[k * plane + at + w] : 0.0f;
        __syncthreads();
        if (inside) {
            float around = s[y + 1][x] + s[y + 1][x + 2] + s[y][x + 1] + s[y + 2][x + 1] + below + above;
            out[k * plane + at] = 2.0f * mid - before[k * plane + at] + 0.1f * (around - 6.0f * mid);
        }
        below = mid;
        mid = above;
    }
}

__device__ float cubic(float p, float q, float r, float s, float t)
{
    return q + 0.5f * t * (r - p + t * (2.0f * p - 5.0f * q + 4.0f * r - s + t * (3.0f * (q - r) + s - p)));
}

KERNEL enlarge_bicubic(const unsigned char* in, unsigned char* out, int w, int h, int ow, int oh)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ow || y >= oh) return;
    float u = (x + 0.5f) * w / ow - 0.5f, v = (y + 0.5f) * h / oh - 0.5f;
    int i = __float2int_rd(u), j = __float2int_rd(v);
    float rows[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const unsigned char* row = in + min(max(j + k - 1, 0), h - 1) * w;
        rows[k] = cubic(row[max(i - 1, 0)], row[max(i, 0)], row[min(i + 1, w - 1)], row[min(i + 2, w - 1)], u - i);
    }
    float value = cubic(rows[0], rows[1], rows[2], rows[3], v - j);
    out[y * ow + x] = (unsigned char)fminf(fmaxf(value + 0.5f, 0.0f), 255.0f);
}

KERNEL edges_of_image(const unsigned char* in, unsigned short* size, unsigned char* direction, int w, int h)
{
    __shared__ int s[10][34];
    int x0 = blockIdx.x * 32 - 1, y0 = blockIdx.y * 8 - 1;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 340; i += 256) {
        int x = x0 + i % 34, y = y0 + i / 34;
        s[i / 34][i % 34] = x >= 0 && x < w && y >= 0 && y < h ? in[y * w + x] : 0;
    }
    __syncthreads();
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.x * 32 + x, j = blockIdx.y * 8 + y;
    if (i >= w || j >= h) return;
    int gx = s[y][x + 2] + 2 * s[y + 1][x + 2] + s[y + 2][x + 2] - s[y][x] - 2 * s[y + 1][x] - s[y + 2][x];
    int gy = s[y + 2][x] + 2 * s[y + 2][x + 1] + s[y + 2][x + 2] - s[y][x] - 2 * s[y][x + 1] - s[y][x + 2];
    size[j * w + i] = abs(gx) + abs(gy);
    // Eight directions by comparisons alone.
    direction[j * w + i] = (gy < 0) << 2 | (gx < 0) << 1 | (abs(gy) > abs(gx));
}

KERNEL bilateral(const float* in, float* out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float c = in[y * w + x], sum = 0.0f, total = 0.0f;
    for (int j = max(y - 2, 0); j <= min(y + 2, h - 1); ++j)
        for (int i = max(x - 2, 0); i <= min(x + 2, w - 1); ++i) {
            float v = in[j * w + i], d = v - c;
            float k = __expf(-0.125f * ((x - i) * (x - i) + (y - j) * (y - j)) - 2.0f * d * d);
            sum += k * v;
            total += k;
        }
    out[y * w + x] = sum / total;
}

// Sums of all that is above and to the left: rows by warps, then columns by threads.
KERNEL integral_rows(const unsigned char* in, unsigned* out, int w)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    unsigned before = 0;
    for (int base = 0; base < w; base += 32) {
        unsigned x = base + lane < w ? in[row * w + base + lane] : 0;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            unsigned y = __shfl_up_sync(~0u, x, d);
            if (lane >= d) x += y;
        }
        if (base + lane < w) out[row * w + base + lane] = before + x;
        before += __shfl_sync(~0u, x, 31);
    }
}

KERNEL integral_columns(unsigned* out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= w) return;
    unsigned sum = 0;
    for (int y = 0; y < h; ++y) out[y * w + x] = sum += out[y * w + x];
}

// Four blocks of 8 x 8 pixels: rows, then columns, by eight cosines, then divided and rounded.
KERNEL cosines_8(const unsigned char* in, short* out, const float* table, const unsigned char* divisors)
{
    __shared__ float c[8][9], a[8][8][9];
    int x = threadIdx.x, y = threadIdx.y, b = threadIdx.z, block = blockIdx.x * 4 + b;
    if (b == 0) c[y][x] = table[y * 8 + x];
    a[b][y][x] = in[block * 64 + y * 8 + x] - 128.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k) sum += a[b][y][k] * c[x][k];
    __syncthreads();
    a[b + 4][y][x] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int k = 0; k < 8; ++k) sum += a[b + 4][k][x] * c[y][k];
    out[block * 64 + y * 8 + x] = __float2int_rn(sum / divisors[y * 8 + x]);
}

// Four steps of Runge and Kutta of Lorenz's equations.
KERNEL lorenz(const double* start, double* out, int n, int steps, double dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double s[3] = {start[3 * i], start[3 * i + 1], start[3 * i + 2]};
    auto slope = [](const double* p, double* q) {
        q[0] = 10.0 * (p[1] - p[0]);
        q[1] = p[0] * (28.0 - p[2]) - p[1];
        q[2] = p[0] * p[1] - 8.0 / 3.0 * p[2];
    };
    for (int step = 0; step < steps; ++step) {
        double k[4][3], p[3];
        slope(s, k[0]);
        for (int j = 0; j < 3; ++j) p[j] = s[j] + 0.5 * dt * k[0][j];
        slope(p, k[1]);
        for (int j = 0; j < 3; ++j) p[j] = s[j] + 0.5 * dt * k[1][j];
        slope(p, k[2]);
        for (int j = 0; j < 3; ++j) p[j] = s[j] + dt * k[2][j];
        slope(p, k[3]);
        for (int j = 0; j < 3; ++j) s[j] += dt / 6.0 * (k[0][j] + 2.0 * k[1][j] + 2.0 * k[2][j] + k[3][j]);
    }
    for (int j = 0; j < 3; ++j) out[3 * i + j] = s[j];
}

// Filters of second order in a row, a channel a thread, samples of channels side by side.
KERNEL biquads(const float* in, const float* coefficients, float* out, int channels, int samples)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    const float* k = coefficients + c * 5;
    float b0 = k[0], b1 = k[1], b2 = k[2], a1 = k[3], a2 = k[4], z1 = 0.0f, z2 = 0.0f;
    for (int i = 0; i < samples; ++i) {
        float x = in[i * channels + c], y = b0 * x + z1;
        z1 = b1 * x - a1 * y + z2;
        z2 = b2 * x - a2 * y;
        out[i * channels + c] = y;
    }
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def _grid(w, h, x, y):
    return (w + x - 1) // x, (h + y - 1) // y


def march_rays(steps, depth):
    h, w = steps.shape
    _run("march_rays", _grid(w, h, 16, 8), (16, 8), steps, depth, cupy.int32(w), cupy.int32(h))


def lattice_step(f, wall, out):
    h, w = wall.shape
    size = cupy.int32(w), cupy.int32(h)
    _run("lattice_step", _grid(w, h, 32, 4), (32, 4), f, wall, out, *size, cupy.float32(1.25))


def life_in_bits(a, out):
    h, w = a.shape
    _run("life_in_bits", _grid(w, h, 4, 16), (4, 16), a, out, cupy.int32(w), cupy.int32(h))


def count_in_circle(total):
    _run("count_in_circle", (3,), (64,), cupy.uint32(12345), cupy.int32(10), total)


def asian_option(uniform, out):
    _run("asian_option", (2,), (64,), uniform, out, *(cupy.float32(x) for x in (100, 95, 0.03, 0.25)))


def black_scholes(price, strike, years, call, put):
    rates = cupy.float64(0.02), cupy.float64(0.3)
    _run("black_scholes", (2,), (64,), price, strike, years, call, put, cupy.int32(price.size), *rates)


def binomial_put(strikes, out):
    numbers = (cupy.float32(x) for x in (100, 1.02, 0.505, 0.999))
    _run("binomial_put", (strikes.size,), (64,), strikes, out, *numbers)


def cell_forces(place, starts, force):
    _run("cell_forces", (3,), (128,), place, starts, force, cupy.int32(starts.size - 1))


def wave_3d(now, before, out):
    d, h, w = now.shape
    _run("wave_3d", _grid(w, h, 16, 8), (16, 8), now, before, out, cupy.int32(w), cupy.int32(h), cupy.int32(d))


def enlarge_bicubic(image, out):
    (h, w), (oh, ow) = image.shape, out.shape
    _run("enlarge_bicubic", _grid(ow, oh, 32, 4), (32, 4), image, out, *(cupy.int32(x) for x in (w, h, ow, oh)))


def edges_of_image(image, size, direction):
    h, w = image.shape
    _run("edges_of_image", _grid(w, h, 32, 8), (32, 8), image, size, direction, cupy.int32(w), cupy.int32(h))


def bilateral(image, out):
    h, w = image.shape
    _run("bilateral", _grid(w, h, 16, 16), (16, 16), image, out, cupy.int32(w), cupy.int32(h))


def integral(image, out):
    h, w = image.shape
    _run("integral_rows", (h // 4,), (32, 4), image, out, cupy.int32(w))
    _run("integral_columns", (2,), (64,), out, cupy.int32(w), cupy.int32(h))


def cosines_8(image, out, table, divisors):
    _run("cosines_8", (len(image) // 4,), (8, 8, 4), image, out, table, divisors)


def lorenz(start, out):
    _run("lorenz", (2,), (64,), start, out, cupy.int32(len(start)), cupy.int32(4), cupy.float64(0.01))


def biquads(samples, coefficients, out):
    count, channels = samples.shape
    _run("biquads", (2,), (64,), samples, coefficients, out, cupy.int32(channels), cupy.int32(count))
