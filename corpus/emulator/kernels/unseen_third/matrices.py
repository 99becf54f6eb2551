"""The third set of kernels that no rule of counting was made from: products, small factorisations, sparse, solvers."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <climits>
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

// A tile of the product of a transposed matrix with another one; each thread has two rows of its tile.
template <int M, int N, int K, typename T>
__device__ void transposed_tile(const T* a, const T* b, T* c, int m, int n, int k)
{
    __shared__ T left[K][M], right[K][N];
    int x = threadIdx.x, y = threadIdx.y, t = y * N + x, top = blockIdx.y * M, start = blockIdx.x * N;
    T upper = 0, lower = 0;
    for (int base = 0; base < k; base += K) {
        for (int i = t; i < K * M; i += N * M / 2) {
            int row = base + i / M, column = top + i % M;
            left[i / M][i % M] = row < k && column < m ? a[row * m + column] : T(0);
        }
        for (int i = t; i < K * N; i += N * M / 2) {
            int row = base + i / N, column = start + i % N;
            right[i / N][i % N] = row < k && column < n ? b[row * n + column] : T(0);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < K; ++i) {
            upper += left[i][2 * y] * right[i][x];
            lower += left[i][2 * y + 1] * right[i][x];
        }
        __syncthreads();
    }
    int row = top + 2 * y, column = start + x;
    if (column < n && row < m) c[row * n + column] = upper;
    if (column < n && row + 1 < m) c[(row + 1) * n + column] = lower;
}

KERNEL product_transposed(const float* a, const float* b, float* c, int m, int n, int k)
{
    transposed_tile<24, 16, 12>(a, b, c, m, n, k);
}

KERNEL product_transposed_doubles(const double* a, const double* b, double* c, int m, int n, int k)
{
    transposed_tile<8, 32, 8>(a, b, c, m, n, k);
}

// The product of tiles in two buffers: the next tile is on its way while this one is used; four by four a thread.
KERNEL product_two_buffers(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float left[2][8][33], right[2][8][32];
    int t = threadIdx.x, tx = t % 8, ty = t / 8, top = blockIdx.y * 32, start = blockIdx.x * 32;
    float sums[4][4] = {}, next_left[4], next_right[4];
    int tiles = (k + 7) / 8;
    for (int tile = -1; tile < tiles; ++tile) {
        if (tile + 1 < tiles)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int at = t + 64 * i, row = top + at / 8, depth = (tile + 1) * 8 + at % 8;
                next_left[i] = row < m && depth < k ? a[row * k + depth] : 0.0f;
                depth = (tile + 1) * 8 + at / 32;
                int column = start + at % 32;
                next_right[i] = depth < k && column < n ? b[depth * n + column] : 0.0f;
            }
        if (tile >= 0)
#pragma unroll
            for (int d = 0; d < 8; ++d)
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        sums[i][j] += left[tile & 1][d][ty + 8 * i] * right[tile & 1][d][tx + 8 * j];
        if (tile + 1 < tiles)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int at = t + 64 * i;
                left[tile + 1 & 1][at % 8][at / 8] = next_left[i];
                right[tile + 1 & 1][at / 32][at % 32] = next_right[i];
            }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int row = top + ty + 8 * i, column = start + tx + 8 * j;
            if (row < m && column < n) c[row * n + column] = sums[i][j];
        }
}

// Parts of the inner dimension to different blocks; a second launch adds what they found.
KERNEL product_of_part(const float* a, const float* b, float* parts, int m, int n, int k, int part)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= m) return;
    float sum = 0.0f;
    int end = min(k, (int)(blockIdx.z + 1) * part);
    for (int i = blockIdx.z * part; i < end; ++i) sum += a[y * k + i] * b[i * n + x];
    parts[(blockIdx.z * m + y) * n + x] = sum;
}

KERNEL add_parts(const float* parts, const float* bias, float* c, int m, int n, int count)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m * n; i += gridDim.x * blockDim.x) {
        float sum = bias[i % n];
        for (int p = 0; p < count; ++p) sum += parts[p * m * n + i];
        c[i] = fmaxf(sum, 0.0f);
    }
}

// Only the tiles on and above the diagonal of a symmetric product; the others are written as mirrors.
KERNEL gram(const float* a, float* c, int n, int k)
{
    __shared__ float left[8][9], right[8][9];
    int row = 0, at = blockIdx.x, tiles = (n + 7) / 8;
    while (at >= tiles - row) { at -= tiles - row; ++row; }
    int column = row + at, x = threadIdx.x, y = threadIdx.y;
    float sum = 0.0f;
    for (int base = 0; base < k; base += 8) {
        left[y][x] = base + x < k && row * 8 + y < n ? a[(row * 8 + y) * k + base + x] : 0.0f;
        right[y][x] = base + x < k && column * 8 + y < n ? a[(column * 8 + y) * k + base + x] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum = fmaf(left[y][i], right[x][i], sum);
        __syncthreads();
    }
    int i = row * 8 + y, j = column * 8 + x;
    if (i < n && j < n) {
        c[i * n + j] = sum;
        if (row != column) c[j * n + i] = sum;
    }
}

// The shortest way by one more step: sums take the place of products, minima that of sums.
KERNEL shortest_product(const int* a, const int* b, int* c, int n)
{
    __shared__ int left[16][16], right[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, best = INT_MAX / 2;
    for (int base = 0; base < n; base += 16) {
        int i = base + threadIdx.x, j = base + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = y < n && i < n ? a[y * n + i] : INT_MAX / 2;
        right[threadIdx.y][threadIdx.x] = j < n && x < n ? b[j * n + x] : INT_MAX / 2;
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < 16; ++k) best = min(best, left[threadIdx.y][k] + right[k][threadIdx.x]);
        __syncthreads();
    }
    if (x < n && y < n) c[y * n + x] = best;
}

struct Matrix4 { float4 row[4]; };

__device__ float4 times(const float4& v, const Matrix4& m)
{
    float4 r;
    r.x = v.x * m.row[0].x + v.y * m.row[1].x + v.z * m.row[2].x + v.w * m.row[3].x;
    r.y = v.x * m.row[0].y + v.y * m.row[1].y + v.z * m.row[2].y + v.w * m.row[3].y;
    r.z = v.x * m.row[0].z + v.y * m.row[1].z + v.z * m.row[2].z + v.w * m.row[3].z;
    r.w = v.x * m.row[0].w + v.y * m.row[1].w + v.z * m.row[2].w + v.w * m.row[3].w;
    return r;
}

// Products of chains of four by four matrices, such as joints of an arm; chains have different lengths.
KERNEL chains(const Matrix4* matrices, const int* starts, Matrix4* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Matrix4 product = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
    for (int k = starts[i]; k < starts[i + 1]; ++k) {
        Matrix4 next = matrices[k];
#pragma unroll
        for (int r = 0; r < 4; ++r) product.row[r] = times(product.row[r], next);
    }
    out[i] = product;
}

// Upper triangles of five by four matrices by Givens' rotations; their diagonals are not negative.
KERNEL givens(const float* a, float* r, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m[5][4];
#pragma unroll
    for (int j = 0; j < 20; ++j) m[j / 4][j % 4] = a[j * n + i];
#pragma unroll
    for (int column = 0; column < 4; ++column)
#pragma unroll
        for (int row = 4; row > column; --row) {
            float x = m[row - 1][column], y = m[row][column], size = sqrtf(x * x + y * y);
            if (size == 0.0f) continue;
            float c = x / size, s = y / size;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                float p = m[row - 1][k], q = m[row][k];
                m[row - 1][k] = c * p + s * q;
                m[row][k] = c * q - s * p;
            }
        }
#pragma unroll
    for (int row = 0; row < 4; ++row)
#pragma unroll
        for (int k = 0; k < 4; ++k) r[(row * 4 + k) * n + i] = k < row ? 0.0f : m[row][k];
}

// Eigenvalues of symmetric four by four matrices by Jacobi's rotations, sorted.
KERNEL jacobi_eigenvalues(const double* a, double* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double m[4][4];
    for (int j = 0; j < 16; ++j) m[j / 4][j % 4] = a[i * 16 + j];
    for (int sweep = 0; sweep < 8; ++sweep) {
        double off = 0.0;
        for (int p = 0; p < 3; ++p)
            for (int q = p + 1; q < 4; ++q) off += m[p][q] * m[p][q];
        if (off < 1e-26) break;
        for (int p = 0; p < 3; ++p)
            for (int q = p + 1; q < 4; ++q) {
                if (m[p][q] == 0.0) continue;
                double theta = (m[q][q] - m[p][p]) / (2.0 * m[p][q]);
                double t = copysign(1.0, theta) / (fabs(theta) + sqrt(theta * theta + 1.0));
                double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
                for (int k = 0; k < 4; ++k) {
                    double x = m[k][p], y = m[k][q];
                    m[k][p] = c * x - s * y;
                    m[k][q] = s * x + c * y;
                }
                for (int k = 0; k < 4; ++k) {
                    double x = m[p][k], y = m[q][k];
                    m[p][k] = c * x - s * y;
                    m[q][k] = s * x + c * y;
                }
            }
    }
    double values[4] = {m[0][0], m[1][1], m[2][2], m[3][3]};
    for (int p = 1; p < 4; ++p) {
        double x = values[p];
        int at = p;
        while (at > 0 && values[at - 1] > x) { values[at] = values[at - 1]; --at; }
        values[at] = x;
    }
    for (int k = 0; k < 4; ++k) out[i * 4 + k] = values[k];
}

// A matrix that is stored by diagonals times a vector.
KERNEL diagonals(const float* values, const int* offsets, int count, const float* x, float* y, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0.0f;
    for (int d = 0; d < count; ++d) {
        int column = row + offsets[d];
        if (column >= 0 && column < n) sum += values[d * n + row] * x[column];
    }
    y[row] = sum;
}

// Blocks of three by three; nine lanes a block of the matrix, three block rows a warp.
KERNEL block_rows(const float* blocks, const int* starts, const int* columns, const float* x, float* y, int rows)
{
    __shared__ float products[4][27];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = (blockIdx.x * 4 + warp) * 3 + lane / 9, cell = lane % 9;
    float sum = 0.0f;
    if (lane < 27 && row < rows)
        for (int k = starts[row]; k < starts[row + 1]; ++k) sum += blocks[k * 9 + cell] * x[columns[k] * 3 + cell % 3];
    if (lane < 27) products[warp][lane] = sum;
    __syncwarp();
    if (lane < 9 && (row = (blockIdx.x * 4 + warp) * 3 + lane / 3) < rows) {
        const float* p = &products[warp][lane * 3];
        y[row * 3 + lane % 3] = p[0] + p[1] + p[2];
    }
}

__device__ double block_dot(double x, double* s)
{
    int t = threadIdx.x;
    s[t] = x;
    __syncthreads();
    for (int d = blockDim.x / 2; d; d >>= 1) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    double sum = s[0];
    __syncthreads();
    return sum;
}

// Conjugate gradients for a matrix of three diagonals, until the rest is small.
KERNEL conjugate(const double* diagonal, const double* right, double* out, int* rounds, int n, double enough)
{
    __shared__ double direction[130], s[128];
    int t = threadIdx.x;
    double x = 0.0, r = t < n ? right[t] : 0.0, own = t < n ? diagonal[t] : 0.0;
    if (t == 0) direction[0] = 0.0;
    if (t == 127) direction[129] = 0.0;
    direction[t + 1] = r;
    double size = block_dot(r * r, s);
    int k = 0;
    while (size > enough && k < 60) {
        double image = t < n ? own * direction[t + 1] - direction[t] - direction[t + 2] : 0.0;
        double step = size / block_dot(image * direction[t + 1], s);
        x += step * direction[t + 1];
        r -= step * image;
        double smaller = block_dot(r * r, s);
        direction[t + 1] = r + smaller / size * direction[t + 1];
        __syncthreads();
        size = smaller;
        ++k;
    }
    if (t < n) out[t] = x;
    if (t == 0) *rounds = k;
}

// A step over the cells of one colour of a chess board.
KERNEL one_colour(double* u, const double* f, int w, int h, int colour)
{
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1, x = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1;
    x += (x + y + colour) & 1;
    if (x >= w - 1 || y >= h - 1) return;
    int i = y * w + x;
    u[i] += 1.5 * (0.25 * (u[i - 1] + u[i + 1] + u[i - w] + u[i + w] - f[i]) - u[i]);
}

// A matrix of halves times a vector, eight elements a load, sums of pairs in halves and of eights in floats.
KERNEL half_rows(const uint4* a, const uint4* x, float* y, int rows, int eights)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < eights; i += 16) {
        uint4 p = a[row * eights + i], q = x[i];
        const __half2 *u = (const __half2*)&p, *v = (const __half2*)&q;
        __half2 pairs = __hmul2(u[0], v[0]);
        pairs = __hfma2(u[1], v[1], pairs);
        pairs = __hfma2(u[2], v[2], pairs);
        pairs = __hfma2(u[3], v[3], pairs);
        sum += __low2float(pairs) + __high2float(pairs);
    }
    for (int d = 8; d; d /= 2) sum += __shfl_xor_sync(ALL, sum, d, 16);
    if (threadIdx.x == 0) y[row] = sum;
}

struct Sums { double x, y, xx, xy; };

// The line through points of each group that fits best.
KERNEL fit_lines(const float2* points, float2* out, int n)
{
    __shared__ Sums s[64];
    int t = threadIdx.x;
    Sums mine = {0, 0, 0, 0};
    for (int i = t; i < n; i += 64) {
        float2 p = points[blockIdx.x * n + i];
        mine.x += p.x;
        mine.y += p.y;
        mine.xx += (double)p.x * p.x;
        mine.xy += (double)p.x * p.y;
    }
    s[t] = mine;
    __syncthreads();
    for (int d = 32; d; d /= 2) {
        if (t < d) {
            Sums other = s[t + d];
            mine.x += other.x; mine.y += other.y; mine.xx += other.xx; mine.xy += other.xy;
            s[t] = mine;
        }
        __syncthreads();
    }
    if (t == 0) {
        double slope = (n * mine.xy - mine.x * mine.y) / (n * mine.xx - mine.x * mine.x);
        out[blockIdx.x] = make_float2((float)slope, (float)((mine.y - slope * mine.x) / n));
    }
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def _sizes(*numbers):
    return tuple(cupy.int32(n) for n in numbers)


def product_transposed(a, b, c):
    (k, m), n = a.shape, b.shape[1]
    _run("product_transposed", ((n + 15) // 16, (m + 23) // 24), (16, 12), a, b, c, *_sizes(m, n, k))


def product_transposed_doubles(a, b, c):
    (k, m), n = a.shape, b.shape[1]
    _run("product_transposed_doubles", ((n + 31) // 32, (m + 7) // 8), (32, 4), a, b, c, *_sizes(m, n, k))


def product_two_buffers(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    _run("product_two_buffers", ((n + 31) // 32, (m + 31) // 32), (64,), a, b, c, *_sizes(m, n, k))


def split_product(a, b, bias, c):
    (m, k), n = a.shape, b.shape[1]
    parts = cupy.empty((3, m, n), cupy.float32)
    _run("product_of_part", ((n + 31) // 32, (m + 3) // 4, 3), (32, 4), a, b, parts, *_sizes(m, n, k, (k + 2) // 3))
    _run("add_parts", (3,), (64,), parts, bias, c, *_sizes(m, n, 3))


def gram(a, c):
    n, k = a.shape
    tiles = (n + 7) // 8
    _run("gram", (tiles * (tiles + 1) // 2,), (8, 8), a, c, *_sizes(n, k))


def shortest_product(a, b, c):
    tiles = (len(a) + 15) // 16
    _run("shortest_product", (tiles, tiles), (16, 16), a, b, c, *_sizes(len(a)))


def chains(matrices, starts, out):
    _run("chains", (2,), (64,), matrices, starts, out, *_sizes(len(out)))


def givens(a, r):
    _run("givens", (2,), (64,), a, r, *_sizes(a.shape[2]))


def jacobi_eigenvalues(a, out):
    _run("jacobi_eigenvalues", (2,), (32,), a, out, *_sizes(len(a)))


def diagonals(values, offsets, x, y):
    _run("diagonals", (2,), (128,), values, offsets, cupy.int32(offsets.size), x, y, *_sizes(x.size))


def block_rows(blocks, starts, columns, x, y):
    rows = starts.size - 1
    _run("block_rows", ((rows + 11) // 12,), (128,), blocks, starts, columns, x, y, *_sizes(rows))


def conjugate(diagonal, right, out, rounds):
    _run("conjugate", (1,), (128,), diagonal, right, out, rounds, *_sizes(right.size), cupy.float64(1e-18))


def two_colours(u, f):
    h, w = u.shape
    for colour in (0, 1, 0, 1):
        _run("one_colour", ((w + 31) // 32, (h + 7) // 8), (16, 8), u, f, *_sizes(w, h, colour))


def half_rows(a, x, y):
    rows, n = a.shape
    _run("half_rows", ((rows + 3) // 4,), (16, 4), a, x, y, *_sizes(rows, n // 8))


def fit_lines(points, out):
    _run("fit_lines", (len(points),), (64,), points, out, *_sizes(points.shape[1]))
