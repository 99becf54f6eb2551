"""The fifth set of kernels that no rule of counting was made from: small and sparse matrices, solvers, fits."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef long long i64;

// L D L' of symmetric matrices of N x N, a matrix a thread, lower triangles one after the other.
template <int N> __device__ void ldl(const double* a, double* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double l[N][N];
#pragma unroll
    for (int r = 0; r < N; ++r)
#pragma unroll
        for (int c = 0; c <= r; ++c) l[r][c] = a[(r * (r + 1) / 2 + c) * n + i];
#pragma unroll
    for (int c = 0; c < N; ++c) {
#pragma unroll
        for (int k = 0; k < c; ++k) l[c][c] -= l[c][k] * l[c][k] * l[k][k];
#pragma unroll
        for (int r = c + 1; r < N; ++r) {
#pragma unroll
            for (int k = 0; k < c; ++k) l[r][c] -= l[r][k] * l[c][k] * l[k][k];
            l[r][c] /= l[c][c];
        }
    }
#pragma unroll
    for (int r = 0; r < N; ++r)
#pragma unroll
        for (int c = 0; c <= r; ++c) out[(r * (r + 1) / 2 + c) * n + i] = l[r][c];
}

KERNEL ldl_5(const double* a, double* out, int n) { ldl<5>(a, out, n); }

// e to the power of matrices of 3 x 3: a series of an eighth, then three squares.
struct M3 { float v[9]; };

__device__ M3 times(const M3& a, const M3& b)
{
    M3 c;
#pragma unroll
    for (int i = 0; i < 9; ++i) {
        const float *row = a.v + i / 3 * 3, *column = b.v + i % 3;
        c.v[i] = row[0] * column[0] + row[1] * column[3] + row[2] * column[6];
    }
    return c;
}

KERNEL matrix_exponential(const M3* in, M3* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    M3 a = in[i], sum = {1, 0, 0, 0, 1, 0, 0, 0, 1}, term = sum;
    for (int k = 0; k < 9; ++k) a.v[k] *= 0.125f;
    for (int order = 1; order <= 8; ++order) {
        term = times(term, a);
        for (int k = 0; k < 9; ++k) { term.v[k] *= 1.0f / order; sum.v[k] += term.v[k]; }
    }
    for (int k = 0; k < 3; ++k) sum = times(sum, sum);
    out[i] = sum;
}

// A sparse matrix that is kept by diagonals, times a vector.
KERNEL diagonals_product(const double* diagonals, const int* offsets, const double* x, double* y, int n, int kept)
{
    extern __shared__ int offset[];
    if (threadIdx.x < kept) offset[threadIdx.x] = offsets[threadIdx.x];
    __syncthreads();
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    double sum = 0;
    for (int k = 0; k < kept; ++k) {
        int column = row + offset[k];
        if (column < 0 || column >= n) continue;
        sum += diagonals[k * n + row] * __ldg(&x[column]);
    }
    y[row] = sum;
}

// Steps of Gauss and Seidel in red and black over a tile with fixed edges.
KERNEL red_and_black(const float* in, const float* load, float* out, int steps, float relax)
{
    __shared__ float u[18][19];
    int x = threadIdx.x, y = threadIdx.y, t = y * 8 + x, tile = blockIdx.x * 324;
    for (int k = t; k < 324; k += 128) u[k / 18][k % 18] = in[tile + k];
    for (int step = 0; step < 2 * steps; ++step) {
        __syncthreads();
        int i = 2 * x + 1 + ((y + step) & 1), j = y + 1;
        float mean = 0.25f * (u[j][i - 1] + u[j][i + 1] + u[j - 1][i] + u[j + 1][i] - load[tile + j * 18 + i]);
        u[j][i] += relax * (mean - u[j][i]);
    }
    __syncthreads();
    for (int k = t; k < 324; k += 128) out[tile + k] = u[k / 18][k % 18];
}

// Determinants of whole matrices of 5 x 5 after Bareiss, whose quotients are whole.
KERNEL bareiss(const signed char* a, i64* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 m[5][5], before = 1;
    int sign = 1;
    for (int k = 0; k < 25; ++k) m[k / 5][k % 5] = a[k * n + i];
    for (int k = 0; k < 4; ++k) {
        if (m[k][k] == 0) {
            int swap = -1;
            for (int r = k + 1; r < 5; ++r)
                if (m[r][k] != 0) { swap = r; break; }
            if (swap < 0) { out[i] = 0; return; }
            for (int c = 0; c < 5; ++c) { i64 t = m[k][c]; m[k][c] = m[swap][c]; m[swap][c] = t; }
            sign = -sign;
        }
        for (int r = k + 1; r < 5; ++r)
            for (int c = k + 1; c < 5; ++c) m[r][c] = (m[r][c] * m[k][k] - m[r][k] * m[k][c]) / before;
        before = m[k][k];
    }
    out[i] = sign * m[4][4];
}

// The greatest sum of magnitudes of a column and of a row; greatest ones by atomics on floats' bits.
KERNEL matrix_norms(const float* a, unsigned* norms, int rows, int columns)
{
    int t = threadIdx.x;
    if (blockIdx.y == 0) {
        int c = blockIdx.x * blockDim.x + t;
        if (c >= columns) return;
        float sum = 0;
        for (int r = 0; r < rows; ++r) sum += fabsf(a[r * columns + c]);
        atomicMax(&norms[0], __float_as_uint(sum));
    } else {
        for (int r = blockIdx.x * (blockDim.x / 32) + t / 32; r < rows; r += gridDim.x * (blockDim.x / 32)) {
            float sum = 0;
            for (int c = t % 32; c < columns; c += 32) sum += fabsf(a[r * columns + c]);
            for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(ALL, sum, d);
            if (t % 32 == 0) atomicMax(&norms[1], __float_as_uint(sum));
        }
    }
}

// A matrix times itself transposed, only tiles on and below the diagonal; a tile's place from its number's root.
KERNEL lower_squares(const short* a, int* out, int n, int depth)
{
    __shared__ short left[8][33], right[8][33];
    int tile = blockIdx.x, row = (int)((sqrtf(8.0f * tile + 1.0f) - 1.0f) * 0.5f);
    while ((row + 1) * (row + 2) / 2 <= tile) ++row;
    while (row * (row + 1) / 2 > tile) --row;
    int column = tile - row * (row + 1) / 2, x = threadIdx.x, y = threadIdx.y, sum = 0;
    for (int first = 0; first < depth; first += 32) {
        for (int k = x; k < 32; k += 8) {
            bool in = first + k < depth;
            left[y][k] = in && row * 8 + y < n ? a[(row * 8 + y) * depth + first + k] : 0;
            right[y][k] = in && column * 8 + y < n ? a[(column * 8 + y) * depth + first + k] : 0;
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < 32; ++k) sum += left[y][k] * right[x][k];
        __syncthreads();
    }
    int i = row * 8 + y, j = column * 8 + x;
    if (i < n && j <= i) out[i * (i + 1) / 2 + j] = sum;
}

// Ranks of matrices of bits, a row a lane: one row of those with the bit is taken off all others.
KERNEL binary_ranks(const unsigned* rows, int* ranks, int n)
{
    int i = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (i >= n) return;
    unsigned row = rows[i * 32 + lane];
    bool used = false;
    int rank = 0;
    for (int bit = 0; bit < 32; ++bit) {
        bool has = row >> bit & 1;
        unsigned fit = __ballot_sync(ALL, has && !used);
        if (!fit) continue;
        int chosen = __ffs(fit) - 1;
        unsigned taken = __shfl_sync(ALL, row, chosen);
        if (lane == chosen) used = true;
        else if (has) row ^= taken;
        ++rank;
    }
    if (lane == 0) ranks[i] = rank;
}

// Polynomials through seven points after Newton: differences, then values at other places.
KERNEL through_points(const double* x, const double* y, const double* places, double* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double c[7], at[7];
    for (int k = 0; k < 7; ++k) { at[k] = x[k * n + i]; c[k] = y[k * n + i]; }
    for (int level = 1; level < 7; ++level)
        for (int k = 6; k >= level; --k) c[k] = (c[k] - c[k - 1]) / (at[k] - at[k - level]);
    double p = places[i], value = c[6];
    for (int k = 5; k >= 0; --k) value = value * (p - at[k]) + c[k];
    out[i] = value;
}

// Rows of pairs of bfloat16 times a vector, by tiles of eight threads.
KERNEL bfloat_rows(const __nv_bfloat162* a, const __nv_bfloat162* x, float* y, int rows, int pairs)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int row = blockIdx.x * (blockDim.x / 8) + tile.meta_group_rank();
    float sum = 0;
    if (row < rows)
        for (int k = tile.thread_rank(); k < pairs; k += tile.size()) {
            float2 p = __bfloat1622float2(a[row * pairs + k]), q = __bfloat1622float2(x[k]);
            sum += p.x * q.x + p.y * q.y;
        }
    for (int d = tile.size() / 2; d > 0; d /= 2) sum += tile.shfl_down(sum, d);
    if (row < rows && tile.thread_rank() == 0) y[row] = sum;
}

// A square transposed where it lies: blocks above the diagonal change places with those below it.
KERNEL transpose_here(double* a, int n)
{
    __shared__ double upper[8][9], lower[8][9];
    int x = threadIdx.x, y = threadIdx.y, r = blockIdx.y, c = blockIdx.x;
    if (c < r) return;
    int i = r * 8 + y, j = c * 8 + x, k = c * 8 + y, l = r * 8 + x;
    if (i < n && j < n) upper[y][x] = a[i * n + j];
    if (c != r && k < n && l < n) lower[y][x] = a[k * n + l];
    __syncthreads();
    if (k < n && l < n) a[k * n + l] = upper[x][y];
    if (c != r && i < n && j < n) a[i * n + j] = lower[x][y];
}

// Systems of three diagonals, a system a warp: each lane takes away both neighbours' parts, further off each time.
KERNEL solve_by_lanes(const float4* rows, float* x, int systems)
{
    int s = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (s >= systems) return;
    float4 r = rows[s * 32 + lane];
    if (lane == 0) r.x = 0.0f;
    if (lane == 31) r.z = 0.0f;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        float4 a, b;
        a.x = __shfl_up_sync(ALL, r.x, d); a.y = __shfl_up_sync(ALL, r.y, d);
        a.z = __shfl_up_sync(ALL, r.z, d); a.w = __shfl_up_sync(ALL, r.w, d);
        b.x = __shfl_down_sync(ALL, r.x, d); b.y = __shfl_down_sync(ALL, r.y, d);
        b.z = __shfl_down_sync(ALL, r.z, d); b.w = __shfl_down_sync(ALL, r.w, d);
        float p = lane >= d ? -r.x / a.y : 0.0f, q = lane + d < 32 ? -r.z / b.y : 0.0f;
        r = make_float4(p * a.x, r.y + p * a.z + q * b.x, q * b.z, r.w + p * a.w + q * b.w);
    }
    x[s * 32 + lane] = r.w / r.y;
}

// Halves of a matrix scaled by rows and columns, eight of them in a load of 16 bytes.
KERNEL scale_both(const uint4* a, const __half* rows, const uint4* columns, uint4* out, int wide)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= wide) return;
    uint4 v = a[i * wide + j], c = columns[j];
    __half2 r = __half2half2(rows[i]);
    __half2 *p = reinterpret_cast<__half2*>(&v), *q = reinterpret_cast<__half2*>(&c);
#pragma unroll
    for (int k = 0; k < 4; ++k) p[k] = __hmul2(__hmul2(p[k], r), q[k]);
    out[i * wide + j] = v;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def ldl_5(a, out):
    _run("ldl_5", (3,), (32,), a, out, *_ints(a.shape[1]))


def matrix_exponential(a, out):
    _run("matrix_exponential", (2,), (64,), a, out, *_ints(len(a)))


def diagonals_product(diagonals, offsets, x, y):
    kept = offsets.size
    _run("diagonals_product", (3,), (96,), diagonals, offsets, x, y, *_ints(x.size, kept), shared=4 * kept)


def red_and_black(a, load, out):
    _run("red_and_black", (len(a),), (8, 16), a, load, out, *_ints(5), cupy.float32(1.5))


def bareiss(a, out):
    _run("bareiss", (3,), (32,), a, out, *_ints(out.size))


def matrix_norms(a, norms):
    _run("matrix_norms", (3, 2), (64,), a, norms, *_ints(*a.shape))


def lower_squares(a, out):
    n, depth = a.shape
    tiles = (n + 7) // 8
    _run("lower_squares", (tiles * (tiles + 1) // 2,), (8, 8), a, out, *_ints(n, depth))


def binary_ranks(rows, ranks):
    _run("binary_ranks", (4,), (32, 3), rows, ranks, *_ints(ranks.size))


def through_points(x, y, places, out):
    _run("through_points", (3,), (32,), x, y, places, out, *_ints(places.size))


def bfloat_rows(a, x, y):
    _run("bfloat_rows", (3,), (128,), a, x, y, *_ints(*a.shape))


def transpose_here(a):
    n = len(a)
    _run("transpose_here", ((n + 7) // 8, (n + 7) // 8), (8, 8), a, *_ints(n))


def solve_by_lanes(rows, x):
    _run("solve_by_lanes", (4,), (32, 2), rows, x, *_ints(len(x)))


def scale_both(a, rows, columns, out):
    wide = a.shape[1] // 8
    _run("scale_both", (2, len(a)), (16,), a, rows, columns, out, *_ints(wide))
