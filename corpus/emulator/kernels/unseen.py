"""Small kernels of many kinds, chosen after the rules of counting by machine code were fixed: CUDA C++."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

// Radix-2 FFT of 64 complex numbers a warp, in shared memory, real and imaginary parts side by side.
KERNEL fft_64(const float* a, float* out)
{
    __shared__ float s[4][128];
    int lane = threadIdx.x % 32, w = threadIdx.x / 32;
    const float* row = a + (blockIdx.x * 4 + w) * 128;
    for (int i = lane; i < 64; i += 32) {
        int r = __brev(i) >> 26;
        s[w][2 * r] = row[2 * i];
        s[w][2 * r + 1] = row[2 * i + 1];
    }
    __syncwarp();
    for (int half = 1; half < 64; half *= 2) {
        int k = lane % half, i = (lane / half) * 2 * half + k, j = i + half;
        float c, d;
        sincospif(-(float)k / half, &d, &c);
        float x = s[w][2 * j] * c - s[w][2 * j + 1] * d, y = s[w][2 * j] * d + s[w][2 * j + 1] * c;
        float u = s[w][2 * i], v = s[w][2 * i + 1];
        __syncwarp();
        s[w][2 * i] = u + x; s[w][2 * i + 1] = v + y;
        s[w][2 * j] = u - x; s[w][2 * j + 1] = v - y;
        __syncwarp();
    }
    for (int i = lane; i < 128; i += 32) out[(blockIdx.x * 4 + w) * 128 + i] = s[w][i];
}

// Radix-4 butterflies on float2 without shared memory.
KERNEL dft_4(const float2* a, float2* out)
{
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    float2 p = a[i], q = a[i + 1], r = a[i + 2], s = a[i + 3];
    float2 e = {p.x + r.x, p.y + r.y}, f = {p.x - r.x, p.y - r.y}, g = {q.x + s.x, q.y + s.y}, h = {q.x - s.x, q.y - s.y};
    out[i] = make_float2(e.x + g.x, e.y + g.y);
    out[i + 1] = make_float2(f.x + h.y, f.y - h.x);
    out[i + 2] = make_float2(e.x - g.x, e.y - g.y);
    out[i + 3] = make_float2(f.x - h.y, f.y + h.x);
}

KERNEL walsh_hadamard(const float* a, float* out)
{
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * 256 + t];
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        float mine = s[t], other = s[t ^ step];
        __syncthreads();
        s[t] = t & step ? other - mine : mine + other;
    }
    out[blockIdx.x * 256 + t] = s[t];
}

KERNEL stencil_5(const float* a, float* out, int m, int n)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= n || y >= m) return;
    float c = a[y * n + x], sum = -4.0f * c;
    sum += x ? a[y * n + x - 1] : 0.0f;
    sum += x < n - 1 ? a[y * n + x + 1] : 0.0f;
    sum += y ? a[(y - 1) * n + x] : 0.0f;
    sum += y < m - 1 ? a[(y + 1) * n + x] : 0.0f;
    out[y * n + x] = c + 0.1f * sum;
}

KERNEL stencil_shared(const float* a, float* out, int n)
{
    __shared__ float s[128 + 8];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t + 4] = i < n ? a[i] : 0.0f;
    if (t < 4) {
        s[t] = i >= 4 ? a[i - 4] : 0.0f;
        s[t + 132] = i + 128 < n ? a[i + 128] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 9; ++k) sum += s[t + k] * (float)(k + 1);
    if (i < n) out[i] = sum;
}

KERNEL stencil_27(const float* a, float* out)
{
    __shared__ float s[3][10][34];
    int x = threadIdx.x, y = threadIdx.y;
    for (int z = 0; z < 3; ++z)
        for (int j = y; j < 10; j += 8)
            for (int i = x; i < 34; i += 32) s[z][j][i] = a[(z * 10 + j) * 34 + i];
    __syncthreads();
    float sum = 0.0f;
    for (int z = 0; z < 3; ++z)
        for (int j = 0; j < 3; ++j)
            for (int i = 0; i < 3; ++i) sum += s[z][y + j][x + i];
    out[y * 32 + x] = sum / 27.0f;
}

KERNEL bitonic_256(const int* a, int* out)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * 256 + t];
    for (int k = 2; k <= 256; k *= 2)
        for (int j = k / 2; j; j /= 2) {
            __syncthreads();
            int p = t ^ j;
            if (p > t && ((s[t] > s[p]) == ((t & k) == 0))) {
                int x = s[t];
                s[t] = s[p];
                s[p] = x;
            }
        }
    __syncthreads();
    out[blockIdx.x * 256 + t] = s[t];
}

KERNEL odd_even(const unsigned short* a, unsigned short* out)
{
    __shared__ unsigned short s[64];
    int t = threadIdx.x;
    s[2 * t] = a[blockIdx.x * 64 + 2 * t];
    s[2 * t + 1] = a[blockIdx.x * 64 + 2 * t + 1];
    for (int round = 0; round < 64; ++round) {
        __syncwarp();
        int i = 2 * t + round % 2;
        if (i < 63 && s[i] > s[i + 1]) {
            unsigned short x = s[i];
            s[i] = s[i + 1];
            s[i + 1] = x;
        }
    }
    __syncwarp();
    out[blockIdx.x * 64 + 2 * t] = s[2 * t];
    out[blockIdx.x * 64 + 2 * t + 1] = s[2 * t + 1];
}

KERNEL rank_sort(const float* a, float* out, int n)
{
    __shared__ float s[128];
    int t = threadIdx.x, rank = 0;
    s[t] = a[t];
    __syncthreads();
    for (int i = 0; i < n; ++i) rank += s[i] < s[t] || (s[i] == s[t] && i < t);
    out[rank] = s[t];
}

KERNEL merge_paths(const int* a, const int* b, int* out, int m, int n)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= m + n) return;
    int low = max(0, d - n), high = min(d, m);
    while (low < high) {
        int mid = (low + high) / 2;
        if (a[mid] <= b[d - 1 - mid]) low = mid + 1; else high = mid;
    }
    int j = d - low;
    out[d] = j >= n || (low < m && a[low] <= b[j]) ? a[low] : b[j];
}

KERNEL scan_hillis(const int* a, int* out)
{
    __shared__ int s[2][256];
    int t = threadIdx.x, in = 0;
    s[0][t] = a[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        s[1 - in][t] = t >= d ? s[in][t] + s[in][t - d] : s[in][t];
        in = 1 - in;
        __syncthreads();
    }
    out[blockIdx.x * 256 + t] = s[in][t];
}

KERNEL scan_blelloch(const float* a, float* out)
{
    __shared__ float s[256];
    int t = threadIdx.x;
    s[2 * t] = a[2 * t];
    s[2 * t + 1] = a[2 * t + 1];
    int offset = 1;
    for (int d = 128; d; d /= 2) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[255] = 0.0f;
    for (int d = 1; d < 256; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int i = offset * (2 * t + 1) - 1, j = offset * (2 * t + 2) - 1;
            float x = s[i];
            s[i] = s[j];
            s[j] += x;
        }
    }
    __syncthreads();
    out[2 * t] = s[2 * t];
    out[2 * t + 1] = s[2 * t + 1];
}

KERNEL scan_warps(const int* a, int* out)
{
    __shared__ int sums[8];
    int t = threadIdx.x, lane = t % 32, x = a[t];
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        int y = __shfl_up_sync(~0u, x, d);
        if (lane >= d) x += y;
    }
    if (lane == 31) sums[t / 32] = x;
    __syncthreads();
    for (int w = 0; w < t / 32; ++w) x += sums[w];
    out[t] = x;
}

KERNEL spmv_csr(const int* starts, const int* columns, const float* values, const float* x, float* y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int k = starts[r]; k < starts[r + 1]; ++k) sum += values[k] * x[columns[k]];
    y[r] = sum;
}

KERNEL spmv_ell(const int* columns, const float* values, const float* x, float* y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k) sum = fmaf(values[k * rows + r], x[columns[k * rows + r]], sum);
    y[r] = sum;
}

KERNEL histogram_bytes(const unsigned char* a, unsigned* out, int n)
{
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&bins[a[i]], 1u);
    __syncthreads();
    if (bins[threadIdx.x]) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

KERNEL thomas(const float* lower, const float* main_, const float* upper, const float* right, float* x, int systems)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;
    float c[16], d[16];
    c[0] = upper[s] / main_[s];
    d[0] = right[s] / main_[s];
#pragma unroll
    for (int i = 1; i < 16; ++i) {
        int k = i * systems + s;
        float m = 1.0f / (main_[k] - lower[k] * c[i - 1]);
        c[i] = upper[k] * m;
        d[i] = (right[k] - lower[k] * d[i - 1]) * m;
    }
    x[15 * systems + s] = d[15];
#pragma unroll
    for (int i = 14; i >= 0; --i) {
        d[i] -= c[i] * d[i + 1];
        x[i * systems + s] = d[i];
    }
}

KERNEL cyclic_reduction(const float* lower, const float* main_, const float* upper, const float* right, float* x)
{
    __shared__ float a[128], b[128], c[128], d[128];
    int i = threadIdx.x, o = blockIdx.x * 128;
    a[i] = lower[o + i]; b[i] = main_[o + i]; c[i] = upper[o + i]; d[i] = right[o + i];
    for (int step = 1; step < 128; step *= 2) {
        __syncthreads();
        float e = b[i], f = d[i], g = 0.0f, h = 0.0f;
        if (i >= step) {
            float k = a[i] / b[i - step];
            e -= c[i - step] * k;
            f -= d[i - step] * k;
            g = -a[i - step] * k;
        }
        if (i + step < 128) {
            float k = c[i] / b[i + step];
            e -= a[i + step] * k;
            f -= d[i + step] * k;
            h = -c[i + step] * k;
        }
        __syncthreads();
        a[i] = g; b[i] = e; c[i] = h; d[i] = f;
    }
    x[o + i] = d[i] / b[i];
}

KERNEL lu_8(const float* a, float* out)
{
    __shared__ float s[8][8];
    int i = threadIdx.y, j = threadIdx.x;
    s[i][j] = a[blockIdx.x * 64 + i * 8 + j];
    for (int k = 0; k < 7; ++k) {
        __syncthreads();
        if (j == 0 && i > k) s[i][k] /= s[k][k];
        __syncthreads();
        if (i > k && j > k) s[i][j] -= s[i][k] * s[k][j];
    }
    __syncthreads();
    out[blockIdx.x * 64 + i * 8 + j] = s[i][j];
}

KERNEL cholesky_4(const double* a, double* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    double m[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) m[i][j] = a[t * 16 + i * 4 + j];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        double x = m[j][j];
        for (int k = 0; k < j; ++k) x -= m[j][k] * m[j][k];
        m[j][j] = sqrt(x);
        for (int i = j + 1; i < 4; ++i) {
            double y = m[i][j];
            for (int k = 0; k < j; ++k) y -= m[i][k] * m[j][k];
            m[i][j] = y / m[j][j];
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) out[t * 16 + i * 4 + j] = j <= i ? m[i][j] : 0.0;
}

KERNEL inverse_3(const float* a, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    const float* m = a + 9 * t;
    float c0 = m[4] * m[8] - m[5] * m[7], c1 = m[5] * m[6] - m[3] * m[8], c2 = m[3] * m[7] - m[4] * m[6];
    float r = 1.0f / (m[0] * c0 + m[1] * c1 + m[2] * c2);
    float* o = out + 9 * t;
    o[0] = c0 * r; o[1] = (m[2] * m[7] - m[1] * m[8]) * r; o[2] = (m[1] * m[5] - m[2] * m[4]) * r;
    o[3] = c1 * r; o[4] = (m[0] * m[8] - m[2] * m[6]) * r; o[5] = (m[2] * m[3] - m[0] * m[5]) * r;
    o[6] = c2 * r; o[7] = (m[1] * m[6] - m[0] * m[7]) * r; o[8] = (m[0] * m[4] - m[1] * m[3]) * r;
}

KERNEL find_word(const unsigned char* text, int* found, int n)
{
    __shared__ unsigned char s[256 + 4];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? text[i] : 0;
    if (t < 4) s[256 + t] = i + 256 < n ? text[i + 256] : 0;
    __syncthreads();
    if (i < n) found[i] = s[t] == 'a' && s[t + 1] == 'b' && s[t + 2] == 'a' && s[t + 3] == 'c';
}

KERNEL common_subsequence(const int* a, const int* b, int* out)
{
    __shared__ int row[3][65];
    int t = threadIdx.x;
    for (int k = 0; k < 3; ++k) row[k][t] = 0;
    if (t == 0) row[0][64] = row[1][64] = row[2][64] = 0;
    for (int d = 0; d < 127; ++d) {
        __syncthreads();
        int j = d - t, now = d % 3, before = (d + 2) % 3, last = (d + 1) % 3;
        if (j >= 0 && j < 64) {
            int up = row[before][t], left = row[before][t + 1], corner = row[last][t];
            row[now][t + 1] = a[t] == b[j] ? (j ? corner : 0) + 1 : max(up, j ? left : 0);
        }
    }
    __syncthreads();
    if (t == 63) out[0] = row[126 % 3][64];
}

KERNEL knapsack(const int* weights, const int* worths, int* out, int items)
{
    __shared__ int best[2][128];
    int w = threadIdx.x, now = 0;
    best[0][w] = 0;
    for (int i = 0; i < items; ++i) {
        __syncthreads();
        int x = best[now][w];
        if (w >= weights[i]) x = max(x, best[now][w - weights[i]] + worths[i]);
        best[1 - now][w] = x;
        now = 1 - now;
    }
    out[w] = best[now][w];
}

KERNEL floyd_warshall(const int* a, int* out)
{
    __shared__ int d[16][16];
    int i = threadIdx.y, j = threadIdx.x;
    d[i][j] = a[i * 16 + j];
    for (int k = 0; k < 16; ++k) {
        __syncthreads();
        int through = d[i][k] + d[k][j];
        __syncthreads();
        if (through < d[i][j]) d[i][j] = through;
    }
    out[i * 16 + j] = d[i][j];
}

KERNEL n_body(const float4* bodies, float3* out, int n)
{
    __shared__ float4 s[64];
    float4 me = bodies[blockIdx.x * 64 + threadIdx.x];
    float3 sum = {0.0f, 0.0f, 0.0f};
    for (int tile = 0; tile < n / 64; ++tile) {
        s[threadIdx.x] = bodies[tile * 64 + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 64; ++k) {
            float x = s[k].x - me.x, y = s[k].y - me.y, z = s[k].z - me.z;
            float r = rsqrtf(x * x + y * y + z * z + 0.01f), f = s[k].w * r * r * r;
            sum.x += f * x; sum.y += f * y; sum.z += f * z;
        }
        __syncthreads();
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}

KERNEL mandelbrot(int* out, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float cx = -2.0f + 0.0625f * (i % width), cy = -1.0f + 0.125f * (i / width), x = 0.0f, y = 0.0f;
    int n = 0;
    while (n < 50 && x * x + y * y < 4.0f) {
        float u = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = u;
        ++n;
    }
    out[i] = n;
}

KERNEL xorshift(unsigned* state, unsigned* out, int draws)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = state[i], sum = 0;
    for (int k = 0; k < draws; ++k) {
        x ^= x << 13; x ^= x >> 17; x ^= x << 5;
        sum += x >> 16;
    }
    state[i] = x;
    out[i] = sum;
}

KERNEL philox(const unsigned* a, uint4* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 c = {a[i], 1, 2, 3};
    unsigned k0 = 0x1234567, k1 = 0x89ABCDE;
#pragma unroll
    for (int r = 0; r < 10; ++r) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    out[i] = c;
}

KERNEL convolve_rows(const float* a, const float* taps, float* out, int n)
{
    __shared__ float s[160], k[16];
    int t = threadIdx.x;
    if (t < 16) k[t] = taps[t];
    const float* row = a + blockIdx.x * n;
    for (int i = t; i < 143; i += 128) s[i] = i < n ? row[i] : 0.0f;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += s[t + i] * k[i];
    out[blockIdx.x * 128 + t] = sum;
}

KERNEL convolve_2d(const float* a, const float* taps, float* out, int n)
{
    __shared__ float s[18][20];
    int x = threadIdx.x, y = threadIdx.y;
    for (int j = y; j < 18; j += 16)
        for (int i = x; i < 18; i += 16) s[j][i] = a[j * n + i];
    __syncthreads();
    float sum = 0.0f;
    for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 3; ++i) sum += s[y + j][x + i] * taps[j * 3 + i];
    out[y * 16 + x] = sum;
}

KERNEL matmul_micro(const float* a, const float* b, float* c, int n)
{
    __shared__ __align__(16) float as[16][36], bs[16][36];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 8 + tx;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int i = t; i < 512; i += 64) {
            as[i % 16][i / 16] = a[(blockIdx.y * 32 + i / 16) * n + k + i % 16];
            bs[i / 32][i % 32] = b[(k + i / 32) * n + blockIdx.x * 32 + i % 32];
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 16; ++q)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] += as[q][ty * 4 + i] * bs[q][tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) c[(blockIdx.y * 32 + ty * 4 + i) * n + blockIdx.x * 32 + tx * 4 + j] = sum[i][j];
}

struct Particle { float x, y, z, mass; int kind; int pad; };

KERNEL structs_to_arrays(const float* a, float* x, float* mass, int* kind)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const Particle p = reinterpret_cast<const Particle*>(a)[i];
    x[i] = p.x + p.y * p.z;
    mass[i] = p.mass * 2.0f;
    kind[i] = p.kind & 255;
}

KERNEL structs_shared(const float* a, float* out)
{
    __shared__ Particle s[64];
    int t = threadIdx.x;
    s[t].x = a[3 * t]; s[t].y = a[3 * t + 1]; s[t].z = a[3 * t + 2]; s[t].mass = 1.0f + t; s[t].kind = t;
    __syncthreads();
    const Particle& p = s[63 - t];
    out[t] = (p.x + p.y + p.z) * p.mass + (float)p.kind;
}

KERNEL transpose_8(const float4* a, float4* out)
{
    __shared__ float s[32][36];
    int x = threadIdx.x, y = threadIdx.y;
    float4 v = a[y * 8 + x];
    s[4 * x][y] = v.x; s[4 * x + 1][y] = v.y; s[4 * x + 2][y] = v.z; s[4 * x + 3][y] = v.w;
    __syncthreads();
    out[y * 8 + x] = make_float4(s[y][4 * x], s[y][4 * x + 1], s[y][4 * x + 2], s[y][4 * x + 3]);
}

KERNEL half2_axpy(const __half2* a, const __half2* b, __half2* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __hfma2(__floats2half2_rn(1.5f, -0.5f), a[i], b[i]);
}

KERNEL half_norm(const __half* a, float* out)
{
    __shared__ float s[4];
    int t = threadIdx.x;
    float x = __half2float(a[blockIdx.x * 128 + t]), sum = x * x;
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (t % 32 == 0) s[t / 32] = sum;
    __syncthreads();
    if (t == 0) out[blockIdx.x] = sqrtf(s[0] + s[1] + s[2] + s[3]);
}

KERNEL double_polynomial(const double* a, double* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = a[i], y = 1.0;
#pragma unroll
    for (int k = 10; k > 0; --k) y = y * x / k + 1.0;
    out[i] = y;
}

KERNEL double_dot(const double* a, const double* b, double* out)
{
    __shared__ double s[128];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * 128 + t] * b[blockIdx.x * 128 + t];
    for (int d = 64; d; d /= 2) {
        __syncthreads();
        if (t < d) s[t] += s[t + d];
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

KERNEL kahan(const float* a, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f, rest = 0.0f;
    for (int k = 0; k < n; ++k) {
        float y = __fsub_rn(a[k * gridDim.x * blockDim.x + i], rest), t = __fadd_rn(sum, y);
        rest = __fsub_rn(__fsub_rn(t, sum), y);
        sum = t;
    }
    out[i] = sum;
}

KERNEL row_softmax(const float* a, float* out)
{
    int lane = threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
    float x[4], most = -1e30f, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) { x[k] = a[row * 128 + k * 32 + lane]; most = fmaxf(most, x[k]); }
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
#pragma unroll
    for (int k = 0; k < 4; ++k) { x[k] = __expf(x[k] - most); sum += x[k]; }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
#pragma unroll
    for (int k = 0; k < 4; ++k) out[row * 128 + k * 32 + lane] = x[k] / sum;
}

KERNEL gelu_tanh(const float* a, float* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    out[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

KERNEL angles(const float* a, float* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = atan2f(a[2 * i + 1], a[2 * i]) + hypotf(a[2 * i], a[2 * i + 1]);
}

KERNEL compact(const int* a, int* out, int* count, int n)
{
    int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x % 32;
    __shared__ int sums[4], start;
    bool keep = i < n && a[i] % 3 == 0;
    unsigned votes = __ballot_sync(~0u, keep);
    if (lane == 0) sums[threadIdx.x / 32] = __popc(votes);
    __syncthreads();
    if (threadIdx.x == 0) start = atomicAdd(count, sums[0] + sums[1] + sums[2] + sums[3]);
    __syncthreads();
    int place = __popc(votes & ((1u << lane) - 1));
    for (int w = 0; w < threadIdx.x / 32; ++w) place += sums[w];
    if (keep) out[start + place] = a[i];
}

KERNEL gray_codes(const unsigned* a, unsigned* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned g = a[i] ^ (a[i] >> 1), b = g;
    for (int s = 16; s; s /= 2) b ^= b >> s;
    out[i] = b + __popc(g) + __clz(g) + (__brev(g) >> 24);
}

KERNEL bit_transpose(const unsigned* a, unsigned* out)
{
    int lane = threadIdx.x % 32;
    unsigned x = a[blockIdx.x * blockDim.x + threadIdx.x], y = 0;
#pragma unroll
    for (int b = 0; b < 32; ++b) {
        unsigned v = __ballot_sync(~0u, x >> b & 1);
        if (lane == b) y = v;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = y;
}

KERNEL crc_32(const unsigned char* a, unsigned* out, int n)
{
    __shared__ unsigned table[256];
    unsigned x = threadIdx.x;
    for (int k = 0; k < 8; ++k) x = x & 1 ? x >> 1 ^ 0xEDB88320u : x >> 1;
    table[threadIdx.x] = x;
    __syncthreads();
    unsigned c = ~0u;
    for (int k = 0; k < n; ++k) c = table[(c ^ a[threadIdx.x * n + k]) & 255] ^ c >> 8;
    out[threadIdx.x] = ~c;
}

KERNEL prime_sieve(unsigned char* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 2;
    if (i >= n) return;
    bool prime = true;
    for (int d = 2; d * d <= i; ++d) if (i % d == 0) { prime = false; break; }
    out[i] = prime;
}

KERNEL collatz(int* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1, steps = 0;
    for (long long x = i; x != 1; ++steps) x = x & 1 ? 3 * x + 1 : x / 2;
    out[i - 1] = steps;
}

KERNEL k_nearest(const float* points, const float* queries, int* out, int n)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    float x = queries[2 * q], y = queries[2 * q + 1], best = 1e30f;
    int which = -1;
    for (int k = 0; k < n; ++k) {
        float dx = points[2 * k] - x, dy = points[2 * k + 1] - y, d = dx * dx + dy * dy;
        if (d < best) { best = d; which = k; }
    }
    out[q] = which;
}

KERNEL k_means(const float2* points, const float2* centres, float* sums, int* counts)
{
    __shared__ float2 c[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 8) c[threadIdx.x] = centres[threadIdx.x];
    __syncthreads();
    float2 p = points[i];
    int best = 0;
    float least = 1e30f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        float dx = p.x - c[k].x, dy = p.y - c[k].y, d = dx * dx + dy * dy;
        if (d < least) { least = d; best = k; }
    }
    atomicAdd(&sums[2 * best], p.x);
    atomicAdd(&sums[2 * best + 1], p.y);
    atomicAdd(&counts[best], 1);
}

KERNEL atomic_minimum(const int* a, int* out)
{
    __shared__ int least;
    if (threadIdx.x == 0) least = 0x7FFFFFFF;
    __syncthreads();
    atomicMin(&least, a[blockIdx.x * 128 + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) atomicMin(out, least);
}

KERNEL bilinear(const float* image, float* out, int n)
{
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float u = x * 0.5f, v = y * 0.5f;
    int i = (int)u, j = (int)v;
    float s = u - i, t = v - j;
    const float* p = image + j * n + i;
    out[y * 32 + x] = (1 - t) * ((1 - s) * p[0] + s * p[1]) + t * ((1 - s) * p[n] + s * p[n + 1]);
}

KERNEL median_3(const float* a, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[max(i - 1, 0)], y = a[i], z = a[min(i + 1, n - 1)];
    out[i] = fmaxf(fminf(x, y), fminf(fmaxf(x, y), z));
}

KERNEL jacobi(const float* a, const float* b, float* x, int rounds)
{
    __shared__ float now[32], m[32][33];
    int i = threadIdx.x;
    for (int k = 0; k < 32; ++k) m[k][i] = a[k * 32 + i];
    now[i] = 0.0f;
    for (int r = 0; r < rounds; ++r) {
        __syncwarp();
        float sum = b[i];
        for (int j = 0; j < 32; ++j) if (j != i) sum -= m[i][j] * now[j];
        __syncwarp();
        now[i] = sum / m[i][i];
    }
    __syncwarp();
    x[i] = now[i];
}

KERNEL power_iteration(const float* a, float* out)
{
    __shared__ float v[32], m[32 * 32];
    int i = threadIdx.x;
    for (int k = 0; k < 32; ++k) m[k * 32 + i] = a[k * 32 + i];
    v[i] = 1.0f;
    for (int r = 0; r < 4; ++r) {
        __syncwarp();
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < 32; ++j) sum += m[j * 32 + i] * v[j];
        float most = fabsf(sum);
        for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
        __syncwarp();
        v[i] = sum / most;
    }
    out[i] = v[i];
}

KERNEL local_window(const int* a, int* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, seen[16];
    for (int k = 0; k < 16; ++k) seen[k] = 0;
    for (int k = 0; k < n; ++k) ++seen[a[i * n + k] & 15];
    int best = 0;
    for (int k = 1; k < 16; ++k) if (seen[k] > seen[best]) best = k;
    out[i] = best;
}

KERNEL many_registers(const float* a, float* out)
{
    float x[48];
    int i = threadIdx.x;
#pragma unroll
    for (int k = 0; k < 48; ++k) x[k] = a[k * blockDim.x + i];
#pragma unroll
    for (int r = 1; r < 4; ++r)
#pragma unroll
        for (int k = 0; k < 48; ++k) x[k] += x[(k * 5 + r) % 48] * 0.5f;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 48; ++k) sum += x[k] * (k % 3 == 0 ? 1.0f : -1.0f);
    out[i] = sum;
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def fft_64(a, out):
    _run("fft_64", (2,), (128,), a, out)


def dft_4(a, out):
    _run("dft_4", (2,), (64,), a, out)


def walsh_hadamard(a, out):
    _run("walsh_hadamard", (2,), (256,), a, out)


def stencil_5(a, out):
    m, n = a.shape
    _run("stencil_5", ((n + 31) // 32, (m + 7) // 8), (32, 8), a, out, cupy.int32(m), cupy.int32(n))


def stencil_shared(a, out):
    _run("stencil_shared", ((a.size + 127) // 128,), (128,), a, out, cupy.int32(a.size))


def stencil_27(a, out):
    _run("stencil_27", (1,), (32, 8), a, out)


def bitonic_256(a, out):
    _run("bitonic_256", (2,), (256,), a, out)


def odd_even(a, out):
    _run("odd_even", (4,), (32,), a, out)


def rank_sort(a, out):
    _run("rank_sort", (1,), (128,), a, out, cupy.int32(a.size))


def merge_paths(a, b, out):
    _run("merge_paths", (4,), (64,), a, b, out, cupy.int32(a.size), cupy.int32(b.size))


def scan_hillis(a, out):
    _run("scan_hillis", (2,), (256,), a, out)


def scan_blelloch(a, out):
    _run("scan_blelloch", (1,), (128,), a, out)


def scan_warps(a, out):
    _run("scan_warps", (1,), (256,), a, out)


def spmv_csr(starts, columns, values, x, y):
    _run("spmv_csr", (2,), (64,), starts, columns, values, x, y, cupy.int32(y.size))


def spmv_ell(columns, values, x, y):
    _run("spmv_ell", (2,), (64,), columns, values, x, y, cupy.int32(y.size))


def histogram_bytes(a, out):
    _run("histogram_bytes", (2,), (256,), a, out, cupy.int32(a.size))


def thomas(lower, main, upper, right, x):
    _run("thomas", (2,), (64,), lower, main, upper, right, x, cupy.int32(x.shape[1]))


def cyclic_reduction(lower, main, upper, right, x):
    _run("cyclic_reduction", (2,), (128,), lower, main, upper, right, x)


def lu_8(a, out):
    _run("lu_8", (4,), (8, 8), a, out)


def cholesky_4(a, out):
    _run("cholesky_4", (2,), (32,), a, out, cupy.int32(len(a)))


def inverse_3(a, out):
    _run("inverse_3", (2,), (64,), a, out, cupy.int32(len(a)))


def find_word(text, found):
    _run("find_word", (2,), (256,), text, found, cupy.int32(text.size))


def common_subsequence(a, b, out):
    _run("common_subsequence", (1,), (64,), a, b, out)


def knapsack(weights, worths, out):
    _run("knapsack", (1,), (128,), weights, worths, out, cupy.int32(weights.size))


def floyd_warshall(a, out):
    _run("floyd_warshall", (1,), (16, 16), a, out)


def n_body(bodies, out):
    _run("n_body", (2,), (64,), bodies, out, cupy.int32(len(bodies)))


def mandelbrot(out):
    _run("mandelbrot", (6,), (128,), out, cupy.int32(48))


def xorshift(state, out):
    _run("xorshift", (2,), (64,), state, out, cupy.int32(10))


def philox(a, out):
    _run("philox", (2,), (64,), a, out)


def convolve_rows(a, taps, out):
    _run("convolve_rows", (4,), (128,), a, taps, out, cupy.int32(a.shape[1]))


def convolve_2d(a, taps, out):
    _run("convolve_2d", (1,), (16, 16), a, taps, out, cupy.int32(a.shape[1]))


def matmul_micro(a, b, c):
    n = len(a)
    _run("matmul_micro", (n // 32, n // 32), (8, 8), a, b, c, cupy.int32(n))


def structs_to_arrays(a, x, mass, kind):
    _run("structs_to_arrays", (2,), (64,), a, x, mass, kind)


def structs_shared(a, out):
    _run("structs_shared", (1,), (64,), a, out)


def transpose_8(a, out):
    _run("transpose_8", (1,), (8, 32), a, out)


def half2_axpy(a, b, out):
    _run("half2_axpy", (2,), (64,), a, b, out)


def half_norm(a, out):
    _run("half_norm", (3,), (128,), a, out)


def double_polynomial(a, out):
    _run("double_polynomial", (2,), (64,), a, out)


def double_dot(a, b, out):
    _run("double_dot", (3,), (128,), a, b, out)


def kahan(a, out):
    _run("kahan", (2,), (64,), a, out, cupy.int32(len(a)))


def row_softmax(a, out):
    _run("row_softmax", (2,), (32, 4), a, out)


def gelu_tanh(a, out):
    _run("gelu_tanh", (2,), (128,), a, out)


def angles(a, out):
    _run("angles", (2,), (64,), a, out)


def compact(a, out, count):
    _run("compact", (1,), (128,), a, out, count, cupy.int32(a.size))


def gray_codes(a, out):
    _run("gray_codes", (2,), (128,), a, out)


def bit_transpose(a, out):
    _run("bit_transpose", (2,), (64,), a, out)


def crc_32(a, out):
    _run("crc_32", (1,), (256,), a, out, cupy.int32(a.shape[1]))


def prime_sieve(out):
    _run("prime_sieve", (4,), (64,), out, cupy.int32(out.size))


def collatz(out):
    _run("collatz", (2,), (64,), out)


def k_nearest(points, queries, out):
    _run("k_nearest", (2,), (64,), points, queries, out, cupy.int32(len(points)))


def k_means(points, centres, sums, counts):
    _run("k_means", (2,), (128,), points, centres, sums, counts)


def atomic_minimum(a, out):
    _run("atomic_minimum", (3,), (128,), a, out)


def bilinear(image, out):
    _run("bilinear", (2, 2), (16, 16), image, out, cupy.int32(image.shape[1]))


def median_3(a, out):
    _run("median_3", (3,), (64,), a, out, cupy.int32(a.size))


def jacobi(a, b, x):
    _run("jacobi", (1,), (32,), a, b, x, cupy.int32(5))


def power_iteration(a, out):
    _run("power_iteration", (1,), (32,), a, out)


def local_window(a, out):
    _run("local_window", (2,), (32,), a, out, cupy.int32(a.shape[1]))


def many_registers(a, out):
    _run("many_registers", (1,), (64,), a, out)
