"""Numerical programs as textbooks have them: simulation, finance, transforms, filters, small linear algebra."""

import cupy

module = cupy.RawModule(
    code=r"""
extern "C" __global__ void bodies(const float4* bodies, float4* out, int n)
{
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 me = bodies[i];
    float ax = 0, ay = 0, az = 0;
    for (int start = 0; start < n; start += 64) {
        tile[threadIdx.x] = bodies[start + threadIdx.x];
        __syncthreads();
        #pragma unroll 8
        for (int k = 0; k < 64; ++k) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float r = dx * dx + dy * dy + dz * dz + 0.01f;
            float s = tile[k].w / (r * sqrtf(r));
            ax += dx * s;
            ay += dy * s;
            az += dz * s;
        }
        __syncthreads();
    }
    out[i] = make_float4(ax, ay, az, 0);
}

extern "C" __global__ void mandelbrot(int* out, int m, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= m) return;
    float cr = -2.0f + 2.5f * x / n, ci = -1.25f + 2.5f * y / m, zr = 0, zi = 0;
    int k = 0;
    while (k < 40 && zr * zr + zi * zi < 4) {
        float t = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = t;
        ++k;
    }
    out[y * n + x] = k;
}

__device__ float below(float d)  // the normal distribution function by erfc
{
    return 0.5f * erfcf(-d * 0.70710678f);
}

extern "C" __global__ void black_scholes(const float* price, const float* strike, const float* years, float* call,
                                         float* put)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float rate = 0.02f, volatility = 0.3f;
    float s = price[i], k = strike[i], t = years[i];
    float root = sqrtf(t), d1 = (logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
    float d2 = d1 - volatility * root, discounted = k * expf(-rate * t);
    call[i] = s * below(d1) - discounted * below(d2);
    put[i] = discounted * below(-d2) - s * below(-d1);
}

__device__ uint4 philox(uint4 c, uint2 key)
{
    for (int round = 0; round < 10; ++round) {
        unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return c;
}

extern "C" __global__ void monte_carlo_pi(unsigned long long seed, unsigned* words, unsigned* inside)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned count = 0;
    for (unsigned k = 0; k < 4; ++k) {
        uint4 r = philox(make_uint4(i, k, 0, 0), make_uint2((unsigned)seed, (unsigned)(seed >> 32)));
        if (k == 0) words[i] = r.x;
        unsigned long long x = r.x >> 8, y = r.y >> 8, u = r.z >> 8, v = r.w >> 8;
        count += (x * x + y * y < 1ull << 48) + (u * u + v * v < 1ull << 48);
    }
    for (int d = 16; d; d /= 2) count += __shfl_down_sync(~0u, count, d);
    if (threadIdx.x % 32 == 0) atomicAdd(inside, count);
}

__constant__ unsigned directions[5][16] = {
    {32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1},
    {32768, 49152, 40960, 61440, 34816, 52224, 43520, 65280, 32896, 49344, 41120, 61680, 34952, 52428, 43690, 65535},
    {32768, 16384, 57344, 36864, 26624, 13312, 49664, 33024, 24704, 12352, 57376, 36880, 26632, 13316, 49666, 33025},
    {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768},
    {65535, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987}};

extern "C" __global__ void sobol(unsigned* out, int n)
{
    int dimension = blockIdx.y;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned gray = i ^ i >> 1, x = 0;
        for (int bit = 0; gray; ++bit, gray >>= 1)
            if (gray & 1) x ^= directions[dimension][bit];
        out[dimension * n + i] = x;
    }
}

extern "C" __global__ void fft(const float2* a, float2* out)  // radix 2, 128 points a block
{
    __shared__ float2 data[128];
    int t = threadIdx.x;
    for (int k = t; k < 128; k += 64) data[__brev(k) >> 25] = a[blockIdx.x * 128 + k];
    for (int half = 1; half < 128; half *= 2) {
        __syncthreads();
        int place = t % half, i = t / half * 2 * half + place;
        float s, c;
        sincospif(-(float)place / half, &s, &c);
        float2 x = data[i], y = data[i + half];
        float2 w = make_float2(y.x * c - y.y * s, y.x * s + y.y * c);
        data[i] = make_float2(x.x + w.x, x.y + w.y);
        data[i + half] = make_float2(x.x - w.x, x.y - w.y);
    }
    __syncthreads();
    for (int k = t; k < 128; k += 64) out[blockIdx.x * 128 + k] = data[k];
}

__constant__ float dct_matrix[8][8] = {
    {0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f},
    {0.49039264f, 0.41573481f, 0.27778512f, 0.09754516f, -0.09754516f, -0.27778512f, -0.41573481f, -0.49039264f},
    {0.46193977f, 0.19134172f, -0.19134172f, -0.46193977f, -0.46193977f, -0.19134172f, 0.19134172f, 0.46193977f},
    {0.41573481f, -0.09754516f, -0.49039264f, -0.27778512f, 0.27778512f, 0.49039264f, 0.09754516f, -0.41573481f},
    {0.35355339f, -0.35355339f, -0.35355339f, 0.35355339f, 0.35355339f, -0.35355339f, -0.35355339f, 0.35355339f},
    {0.27778512f, -0.49039264f, 0.09754516f, 0.41573481f, -0.41573481f, -0.09754516f, 0.49039264f, -0.27778512f},
    {0.19134172f, -0.46193977f, 0.46193977f, -0.19134172f, -0.19134172f, 0.46193977f, -0.46193977f, 0.19134172f},
    {0.09754516f, -0.27778512f, 0.41573481f, -0.49039264f, 0.49039264f, -0.41573481f, 0.27778512f, -0.09754516f}};

extern "C" __global__ void dct(const float* a, float* out, int n)
{
    __shared__ float block[8][9], rows[8][9];
    int x = threadIdx.x, y = threadIdx.y, at = (blockIdx.y * 8 + y) * n + blockIdx.x * 8 + x;
    block[y][x] = a[at];
    __syncthreads();
    float total = 0;
    for (int k = 0; k < 8; ++k) total += dct_matrix[x][k] * block[y][k];
    rows[y][x] = total;
    __syncthreads();
    total = 0;
    for (int k = 0; k < 8; ++k) total += dct_matrix[y][k] * rows[k][x];
    out[at] = total;
}

template <int R> __device__ float taps(const float* line, const float* weights)
{
    float total = 0;
    #pragma unroll
    for (int k = -R; k <= R; ++k) total += line[k] * weights[R + k];
    return total;
}

__constant__ float weights[7] = {0.03125f, 0.109375f, 0.21875f, 0.28125f, 0.21875f, 0.109375f, 0.03125f};

extern "C" __global__ void convolve_rows(const float* a, float* out, int n)
{
    __shared__ float line[64 + 6];
    int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y;
    for (int k = threadIdx.x; k < 70; k += 64) {
        int from = blockIdx.x * 64 + k - 3;
        line[k] = from >= 0 && from < n ? a[y * n + from] : 0.0f;
    }
    __syncthreads();
    if (x < n) out[y * n + x] = taps<3>(line + threadIdx.x + 3, weights);
}

extern "C" __global__ void convolve_columns(const float* a, float* out, int m, int n)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= n || y >= m) return;
    float total = 0;
    for (int k = -3; k <= 3; ++k)
        if (y + k >= 0 && y + k < m) total += a[(y + k) * n + x] * weights[3 + k];
    out[y * n + x] = total;
}

extern "C" __global__ void stencil_volume(const float* a, float* out, int depth, int m, int n)
{
    __shared__ float plane[10][18];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    bool inside = x < n && y < m;
    auto at = [=](int z, int yy, int xx) {
        return z >= 0 && z < depth && yy >= 0 && yy < m && xx >= 0 && xx < n ? a[(z * m + yy) * n + xx] : 0.0f;
    };
    float behind = 0, here = at(0, y, x), ahead = at(1, y, x);
    for (int z = 0; z < depth; ++z) {
        int r = threadIdx.y + 1, c = threadIdx.x + 1;
        plane[r][c] = here;
        if (threadIdx.y == 0) plane[0][c] = at(z, y - 1, x);
        if (threadIdx.y == 7) plane[9][c] = at(z, y + 1, x);
        if (threadIdx.x == 0) plane[r][0] = at(z, y, x - 1);
        if (threadIdx.x == 15) plane[r][17] = at(z, y, x + 1);
        __syncthreads();
        if (inside)
            out[(z * m + y) * n + x] =
                6 * here - behind - ahead - plane[r - 1][c] - plane[r + 1][c] - plane[r][c - 1] - plane[r][c + 1];
        __syncthreads();
        behind = here;
        here = ahead;
        ahead = at(z + 2, y, x);
    }
}

extern "C" __global__ void lu(float* matrices)  // a warp a matrix, 16 by 16, no pivots; a thread a column pair
{
    float* a = matrices + (blockIdx.x * blockDim.y + threadIdx.y) * 256;
    int t = threadIdx.x;
    for (int k = 0; k < 16; ++k) {
        if (t > k && t < 16) a[t * 16 + k] /= a[k * 16 + k];
        __syncwarp();
        for (int e = t; e < 256; e += 32) {
            int i = e / 16, j = e % 16;
            if (i > k && j > k) a[e] -= a[i * 16 + k] * a[k * 16 + j];
        }
        __syncwarp();
    }
}

extern "C" __global__ void cholesky(const double* a, double* out)
{
    __shared__ double l[12][13];
    int t = threadIdx.x;
    for (int e = t; e < 144; e += 32) l[e / 12][e % 12] = a[blockIdx.x * 144 + e];
    __syncthreads();
    for (int k = 0; k < 12; ++k) {
        if (t == 0) l[k][k] = sqrt(l[k][k]);
        __syncthreads();
        if (t > k && t < 12) l[t][k] /= l[k][k];
        __syncthreads();
        if (t > k && t < 12)
            for (int j = k + 1; j <= t; ++j) l[t][j] -= l[t][k] * l[j][k];
        __syncthreads();
    }
    for (int e = t; e < 144; e += 32) out[blockIdx.x * 144 + e] = e % 12 <= e / 12 ? l[e / 12][e % 12] : 0;
}

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out, int n)
{
    // A warp a query; a lane a dimension of 32; softmax with a running maximum.
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float mine = q[row * 32 + lane], best = -1e30f, weight = 0, total = 0;
    for (int j = 0; j <= row; ++j) {
        float s = mine * k[j * 32 + lane];
        for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
        float most = fmaxf(best, s), shrink = expf(best - most), e = expf(s - most);
        weight = weight * shrink + e;
        total = total * shrink + e * v[j * 32 + lane];
        best = most;
    }
    out[row * 32 + lane] = total / weight;
}

extern "C" __global__ void sgemm(const float* a, const float* b, float* c, int n)  // 32 by 32, two stages of 8 deep
{
    __shared__ float as[2][8][33], bs[2][8][32];
    int t = threadIdx.x, row = t / 8 * 2, column = t % 8 * 4;
    const float *from = a + blockIdx.y * 32 * n, *right = b + blockIdx.x * 32;
    float total[2][4] = {};
    auto fetch = [&](int stage, int k) {
        for (int e = t; e < 256; e += 128) {
            as[stage][e % 8][e / 8] = from[e / 8 * n + k + e % 8];
            bs[stage][e / 32][e % 32] = right[(k + e / 32) * n + e % 32];
        }
    };
    fetch(0, 0);
    for (int k = 0; k < n; k += 8) {
        __syncthreads();
        if (k + 8 < n) fetch((k / 8 + 1) % 2, k + 8);
        #pragma unroll
        for (int d = 0; d < 8; ++d)
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j)
                    total[i][j] += as[k / 8 % 2][d][row + i] * bs[k / 8 % 2][d][column + j];
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
            c[(blockIdx.y * 32 + row + i) * n + blockIdx.x * 32 + column + j] = total[i][j];
}

extern "C" __global__ void quantize(const float* a, signed char* codes, float* scales, int n)
{
    __shared__ float most[4];
    int t = threadIdx.x;
    float largest = 0;
    for (int k = t; k < n; k += 128) largest = fmaxf(largest, fabsf(a[blockIdx.x * n + k]));
    for (int d = 16; d; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
    if (t % 32 == 0) most[t / 32] = largest;
    __syncthreads();
    largest = fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
    float scale = __fdiv_rn(largest, 127.0f);
    if (t == 0) scales[blockIdx.x] = scale;
    for (int k = t; k < n; k += 128) {
        int code = __float2int_rn(__fdiv_rn(a[blockIdx.x * n + k], scale));
        codes[blockIdx.x * n + k] = (signed char)max(-127, min(127, code));
    }
}
""",
    options=("-std=c++17",),
)


def bodies(a, out):
    module.get_function("bodies")((len(a) // 64,), (64,), (a, out, cupy.int32(len(a))))


def mandelbrot(out):
    m, n = out.shape
    module.get_function("mandelbrot")(((n + 15) // 16, (m + 7) // 8), (16, 8), (out, cupy.int32(m), cupy.int32(n)))


def black_scholes(price, strike, years, call, put):
    module.get_function("black_scholes")((2,), (64,), (price, strike, years, call, put))


def monte_carlo_pi(words, inside):
    module.get_function("monte_carlo_pi")((2,), (64,), (cupy.uint64(0x123456789ABCDEF), words, inside))


def sobol(out):
    module.get_function("sobol")((2, 5), (32,), (out, cupy.int32(out.shape[1])))


def fft(a, out):
    module.get_function("fft")((len(a),), (64,), (a, out))


def dct(a, out):
    m, n = a.shape
    module.get_function("dct")((n // 8, m // 8), (8, 8), (a, out, cupy.int32(n)))


def separable(a, out):
    m, n = a.shape
    between = cupy.empty((m, n), dtype=cupy.float32)
    module.get_function("convolve_rows")(((n + 63) // 64, m), (64,), (a, between, cupy.int32(n)))
    grid = ((n + 31) // 32, (m + 3) // 4)
    module.get_function("convolve_columns")(grid, (32, 4), (between, out, cupy.int32(m), cupy.int32(n)))


def stencil_volume(a, out):
    depth, m, n = a.shape
    grid = ((n + 15) // 16, (m + 7) // 8)
    sizes = cupy.int32(depth), cupy.int32(m), cupy.int32(n)
    module.get_function("stencil_volume")(grid, (16, 8), (a, out, *sizes))


def lu(a):
    module.get_function("lu")((len(a) // 2,), (32, 2), (a,))


def cholesky(a, out):
    module.get_function("cholesky")((len(a),), (32,), (a, out))


def attention(q, k, v, out):
    module.get_function("attention")((len(q) // 4,), (128,), (q, k, v, out, cupy.int32(len(q))))


def sgemm(a, b, c):
    n = len(a)
    module.get_function("sgemm")((n // 32, n // 32), (128,), (a, b, c, cupy.int32(n)))


def quantize(a, codes, scales):
    m, n = a.shape
    module.get_function("quantize")((m,), (128,), (a, codes, scales, cupy.int32(n)))
