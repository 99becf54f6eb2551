"""The second set of kernels that no rule of counting was made from: factorisations, solves, transposes."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

// A matrix of 16 x 16 a block: rows are exchanged so that the pivot is the largest of its column.
KERNEL lu_pivoted(const float* a, float* out, int* order)
{
    __shared__ float s[16][17];
    __shared__ int pivot, places[16];
    int i = threadIdx.y, j = threadIdx.x;
    s[i][j] = a[blockIdx.x * 256 + i * 16 + j];
    if (i == 0) places[j] = j;
    __syncthreads();
    for (int k = 0; k < 15; ++k) {
        if (i == 0) {
            // Lanes 16 to 31 of this warp are row 1: only the first half votes.
            float size = j >= k ? fabsf(s[j][k]) : -1.0f;
            int at = j;
            for (int d = 8; d; d >>= 1) {
                float other = __shfl_xor_sync(0xffffu, size, d);
                int there = __shfl_xor_sync(0xffffu, at, d);
                if (other > size || (other == size && there < at)) { size = other; at = there; }
            }
            if (j == 0) pivot = at;
        }
        __syncthreads();
        int p = pivot;
        if (i == 0 && p != k) {
            float x = s[k][j];
            s[k][j] = s[p][j];
            s[p][j] = x;
            if (j == 0) { int y = places[k]; places[k] = places[p]; places[p] = y; }
        }
        __syncthreads();
        if (j == k && i > k) s[i][k] /= s[k][k];
        __syncthreads();
        if (i > k && j > k) s[i][j] -= s[i][k] * s[k][j];
        __syncthreads();
    }
    out[blockIdx.x * 256 + i * 16 + j] = s[i][j];
    if (i == 0) order[blockIdx.x * 16 + j] = places[j];
}

// Right-looking, a tile of 24 x 24 in shared memory, its upper half left alone.
KERNEL cholesky_tile(const float* a, float* out)
{
    __shared__ float s[24][25];
    int t = threadIdx.x;
    for (int i = t; i < 576; i += 96) s[i / 24][i % 24] = a[blockIdx.x * 576 + i];
    for (int k = 0; k < 24; ++k) {
        __syncthreads();
        float d = sqrtf(s[k][k]);
        __syncthreads();
        if (t == 0) s[k][k] = d;
        if (t < 24 && t > k) s[t][k] /= d;
        __syncthreads();
        for (int i = t; i < 576; i += 96) {
            int r = i / 24, c = i % 24;
            if (r >= c && c > k) s[r][c] -= s[r][k] * s[c][k];
        }
    }
    __syncthreads();
    for (int i = t; i < 576; i += 96) out[blockIdx.x * 576 + i] = i / 24 >= i % 24 ? s[i / 24][i % 24] : 0.0f;
}

// R of 32 x 8 by reflections, a matrix a warp, a row a lane, in registers alone.
KERNEL householder(const double* a, double* r)
{
    int lane = threadIdx.x % 32, matrix = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    double x[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = a[(matrix * 32 + lane) * 8 + j];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        double square = lane >= k ? x[k] * x[k] : 0.0;
        for (int d = 16; d; d /= 2) square += __shfl_xor_sync(~0u, square, d);
        double head = __shfl_sync(~0u, x[k], k), size = -copysign(sqrt(square), head);
        double v = lane > k ? x[k] : lane == k ? head - size : 0.0;
        double scale = 1.0 / (square - head * size);
#pragma unroll
        for (int j = k; j < 8; ++j) {
            double dot = v * x[j];
            for (int d = 16; d; d /= 2) dot += __shfl_xor_sync(~0u, dot, d);
            x[j] -= scale * dot * v;
        }
    }
    if (lane < 8)
#pragma unroll
        for (int j = 0; j < 8; ++j) r[matrix * 64 + lane * 8 + j] = j >= lane ? x[j] : 0.0;
}

// L X = B: a column of B a thread, L in shared memory.
KERNEL solve_lower(const float* l, const float* b, float* x, int columns)
{
    __shared__ float s[20][21];
    for (int i = threadIdx.x; i < 400; i += blockDim.x) s[i / 20][i % 20] = l[i];
    __syncthreads();
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    float y[20];
#pragma unroll
    for (int i = 0; i < 20; ++i) {
        float sum = b[i * columns + c];
#pragma unroll
        for (int k = 0; k < i; ++k) sum -= s[i][k] * y[k];
        y[i] = sum / s[i][i];
        x[i * columns + c] = y[i];
    }
}

// Inverse by Gauss and Jordan with pivots; rows are found by a permutation in local memory.
KERNEL inverse_pivoted(const double* a, double* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    double m[4][8];
    int row[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) { m[i][j] = a[t * 16 + i * 4 + j]; m[i][j + 4] = i == j; }
    for (int k = 0; k < 4; ++k) {
        int p = k;
        for (int i = k + 1; i < 4; ++i) if (fabs(m[row[i]][k]) > fabs(m[row[p]][k])) p = i;
        int r = row[p];
        row[p] = row[k];
        row[k] = r;
        double scale = 1.0 / m[r][k];
        for (int j = 0; j < 8; ++j) m[r][j] *= scale;
        for (int i = 0; i < 4; ++i)
            if (i != r) {
                double f = m[i][k];
                for (int j = 0; j < 8; ++j) m[i][j] -= f * m[r][j];
            }
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) out[t * 16 + i * 4 + j] = m[row[i]][j + 4];
}

// Eigenvalues of symmetric 3 x 3 matrices by rotations, in order.
KERNEL eigenvalues_3(const float* a, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    float m[3][3];
    for (int i = 0; i < 3; ++i) for (int j = 0; j < 3; ++j) m[i][j] = a[t * 9 + i * 3 + j];
    for (int sweep = 0; sweep < 6; ++sweep)
        for (int p = 0; p < 2; ++p)
            for (int q = p + 1; q < 3; ++q) {
                float off = m[p][q];
                if (fabsf(off) < 1e-12f) continue;
                float theta = (m[q][q] - m[p][p]) / (2.0f * off);
                float u = copysignf(1.0f, theta) / (fabsf(theta) + sqrtf(theta * theta + 1.0f));
                float c = 1.0f / sqrtf(u * u + 1.0f), s = u * c;
                for (int k = 0; k < 3; ++k) {
                    float x = m[k][p], y = m[k][q];
                    m[k][p] = c * x - s * y;
                    m[k][q] = s * x + c * y;
                }
                for (int k = 0; k < 3; ++k) {
                    float x = m[p][k], y = m[q][k];
                    m[p][k] = c * x - s * y;
                    m[q][k] = s * x + c * y;
                }
            }
    float x = m[0][0], y = m[1][1], z = m[2][2];
    float low = fminf(fminf(x, y), z), high = fmaxf(fmaxf(x, y), z);
    out[t * 3] = low; out[t * 3 + 1] = fmaxf(fminf(x, y), fminf(fmaxf(x, y), z)); out[t * 3 + 2] = high;
}

// Pairs of halves change places; chunks of a row lie at their column XOR the row.
KERNEL transpose_swizzled(const __half2* a, __half* out)
{
    __shared__ __half2 s[64][32];
    const __half* h = reinterpret_cast<const __half*>(s);
    int x = threadIdx.x, top = blockIdx.y * 64, left = blockIdx.x * 64, m = gridDim.y * 64, n = gridDim.x * 64;
    for (int y = threadIdx.y; y < 64; y += 8) s[y][x ^ (y & 31)] = a[((top + y) * n + left) / 2 + x];
    __syncthreads();
    for (int y = threadIdx.y; y < 64; y += 8)
        for (int i = x; i < 64; i += 32)
            out[(left + y) * m + top + i] = h[i * 64 + ((y / 2) ^ (i & 31)) * 2 + y % 2];
}

// Axes (p, q, r) become (r, p, q).
KERNEL permute_axes(const int* a, int* out, int p, int q, int r)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p * q * r) return;
    int z = i % r, y = i / r % q, x = i / (q * r);
    out[(z * p + x) * q + y] = a[i];
}

// More values live at once than the registers that four such blocks leave to a thread.
KERNEL __launch_bounds__(512, 4) spilled(const float* a, float* out)
{
    float x[40];
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
#pragma unroll
    for (int k = 0; k < 40; ++k) x[k] = a[k * n + i];
    float most = x[0];
#pragma unroll
    for (int k = 1; k < 40; ++k) most = fmaxf(most, x[k]);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 40; ++k) { x[k] = x[k] - most; sum += x[k] * x[k]; }
    float scale = rsqrtf(sum + 1.0f);
#pragma unroll
    for (int k = 0; k < 40; ++k) out[k * n + i] = x[k] * scale;
}

KERNEL kronecker(const short* a, const short* b, int* out, int m, int n, int p, int q)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m * p || column >= n * q) return;
    out[row * n * q + column] = a[row / p * n + column / q] * b[row % p * q + column % q];
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def lu_pivoted(a, out, order):
    _run("lu_pivoted", (len(a),), (16, 16), a, out, order)


def cholesky_tile(a, out):
    _run("cholesky_tile", (len(a),), (96,), a, out)


def householder(a, r):
    _run("householder", (2,), (64,), a, r)


def solve_lower(lower, b, x):
    _run("solve_lower", (2,), (64,), lower, b, x, cupy.int32(b.shape[1]))


def inverse_pivoted(a, out):
    _run("inverse_pivoted", (2,), (64,), a, out, cupy.int32(len(a)))


def eigenvalues_3(a, out):
    _run("eigenvalues_3", (2,), (64,), a, out, cupy.int32(len(a)))


def transpose_swizzled(a, out):
    _run("transpose_swizzled", (a.shape[1] // 64, a.shape[0] // 64), (32, 8), a, out)


def permute_axes(a, out):
    p, q, r = a.shape
    _run("permute_axes", (5,), (128,), a, out, cupy.int32(p), cupy.int32(q), cupy.int32(r))


def spilled(a, out):
    _run("spilled", (2,), (128,), a, out)


def kronecker(a, b, out):
    (m, n), (p, q) = a.shape, b.shape
    _run("kronecker", (2, 4), (32, 8), a, b, out, *(cupy.int32(x) for x in (m, n, p, q)))
