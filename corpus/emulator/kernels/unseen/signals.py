"""Small kernels that the rules of counting by machine code were not made from: transforms, stencils, filters."""

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
    float2 e = {p.x + r.x, p.y + r.y}, f = {p.x - r.x, p.y - r.y};
    float2 g = {q.x + s.x, q.y + s.y}, h = {q.x - s.x, q.y - s.y};
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


def convolve_rows(a, taps, out):
    _run("convolve_rows", (4,), (128,), a, taps, out, cupy.int32(a.shape[1]))


def convolve_2d(a, taps, out):
    _run("convolve_2d", (1,), (16, 16), a, taps, out, cupy.int32(a.shape[1]))


def bilinear(image, out):
    _run("bilinear", (2, 2), (16, 16), image, out, cupy.int32(image.shape[1]))


def median_3(a, out):
    _run("median_3", (3,), (64,), a, out, cupy.int32(a.size))


def row_softmax(a, out):
    _run("row_softmax", (2,), (32, 4), a, out)


def gelu_tanh(a, out):
    _run("gelu_tanh", (2,), (128,), a, out)


def angles(a, out):
    _run("angles", (2,), (64,), a, out)


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
