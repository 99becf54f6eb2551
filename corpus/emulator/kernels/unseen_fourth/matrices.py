"""The fourth set of kernels that no rule of counting was made from: sparse and small matrices, systems, products."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

// Rows and elements of a sparse matrix are shared out evenly together: a thread's part of the path through both.
KERNEL merged_rows(const int* ends, const int* columns, const int* values, const int* x, int* y, int rows, int elements,
                   int each)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, begin = min(thread * each, rows + elements);
    int end = min(begin + each, rows + elements);
    int low = max(begin - elements, 0), high = min(begin, rows);
    while (low < high) {
        int mid = (low + high) / 2;
        if (ends[mid] <= begin - mid - 1) low = mid + 1;
        else high = mid;
    }
    int row = low, k = begin - low, sum = 0;
    for (int step = begin; step < end; ++step) {
        if (k < ends[row]) {
            sum += values[k] * x[columns[k]];
            ++k;
        } else {
            atomicAdd(&y[row], sum);
            sum = 0;
            ++row;
        }
    }
    if (sum != 0) atomicAdd(&y[row], sum);
}

// A sparse product's rows by a table of columns a thread, open addressing in shared memory; then in order of columns.
KERNEL sparse_product(const int* starts, const int* columns, const float* values, const int* other_starts,
                      const int* other_columns, const float* other_values, int* out_columns, float* out_values,
                      int* count, int rows)
{
    __shared__ int keys[32][33];
    __shared__ float sums[32][33];
    int row = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    if (row >= rows) return;
    for (int s = 0; s < 32; ++s) keys[t][s] = -1;
    for (int i = starts[row]; i < starts[row + 1]; ++i) {
        int middle = columns[i];
        float v = values[i];
        for (int j = other_starts[middle]; j < other_starts[middle + 1]; ++j) {
            int column = other_columns[j], slot = column * 7 & 31;
            while (keys[t][slot] != column && keys[t][slot] >= 0) slot = (slot + 1) & 31;
            if (keys[t][slot] < 0) { keys[t][slot] = column; sums[t][slot] = 0.0f; }
            sums[t][slot] = fmaf(v, other_values[j], sums[t][slot]);
        }
    }
    int used = 0;
    for (int s = 0; s < 32; ++s) {
        int key = keys[t][s];
        if (key < 0) continue;
        float sum = sums[t][s];
        int place = used++;
        for (; place > 0 && keys[t][place - 1] > key; --place) {
            keys[t][place] = keys[t][place - 1];
            sums[t][place] = sums[t][place - 1];
        }
        keys[t][place] = key;
        sums[t][place] = sum;
    }
    count[row] = used;
    for (int s = 0; s < 32; ++s) {
        out_columns[row * 32 + s] = s < used ? keys[t][s] : -1;
        out_values[row * 32 + s] = s < used ? sums[t][s] : 0.0f;
    }
}

// A product of dense matrices only where a sparse one has elements: a warp an element.
template <int WIDTH> __device__ float dot_of_warp(const float* a, const float* b, int lane)
{
    float sum = 0.0f;
#pragma unroll
    for (int k = lane * 2; k < WIDTH; k += 64) {
        float2 u = *reinterpret_cast<const float2*>(a + k), v = *reinterpret_cast<const float2*>(b + k);
        sum += u.x * v.x + u.y * v.y;
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(ALL, sum, d);
    return sum;
}

KERNEL sampled_product(const int2* places, const float* scale, const float* a, const float* b, float* out, int n)
{
    int e = blockIdx.x * blockDim.y + threadIdx.y;
    if (e >= n) return;
    int2 p = places[e];
    float sum = dot_of_warp<96>(a + p.x * 96, b + p.y * 96, threadIdx.x);
    if (threadIdx.x == 0) out[e] = sum * scale[e];
}

// A sparse lower triangle is solved level by level: rows of one level need only those before.
KERNEL solve_level(const int* order, const int* starts, const int* columns, const double* values,
                   const double* diagonal, const double* b, double* x, int begin, int end)
{
    int i = begin + blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= end) return;
    int row = order[i];
    double rest = b[row];
    for (int k = starts[row]; k < starts[row + 1]; ++k) rest -= values[k] * x[columns[k]];
    x[row] = rest / diagonal[row];
}

// A product of 16 x 16 numbers by Strassen's seven products of halves.
KERNEL strassen(const int* a, const int* b, int* c)
{
    __shared__ int l[7][8][9], r[7][8][9];
    int x = threadIdx.x, y = threadIdx.y;
    a += blockIdx.x * 256 + y * 16 + x; b += blockIdx.x * 256 + y * 16 + x; c += blockIdx.x * 256 + y * 16 + x;
    int a11 = a[0], a12 = a[8], a21 = a[128], a22 = a[136], b11 = b[0], b12 = b[8], b21 = b[128], b22 = b[136];
    l[0][y][x] = a11 + a22; r[0][y][x] = b11 + b22;
    l[1][y][x] = a21 + a22; r[1][y][x] = b11;
    l[2][y][x] = a11;       r[2][y][x] = b12 - b22;
    l[3][y][x] = a22;       r[3][y][x] = b21 - b11;
    l[4][y][x] = a11 + a12; r[4][y][x] = b22;
    l[5][y][x] = a21 - a11; r[5][y][x] = b11 + b12;
    l[6][y][x] = a12 - a22; r[6][y][x] = b21 + b22;
    __syncthreads();
    int m[7];
#pragma unroll
    for (int p = 0; p < 7; ++p) {
        m[p] = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) m[p] += l[p][y][k] * r[p][k][x];
    }
    c[0] = m[0] + m[3] - m[4] + m[6];
    c[8] = m[2] + m[4];
    c[128] = m[1] + m[3];
    c[136] = m[0] - m[1] + m[2] + m[5];
}

// Half a step of diffusion by alternating directions: solved along one axis, with differences along the other.
KERNEL alternate(const float* in, float* out, int lines, int n, int line_stride, int stride, float r)
{
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    float upper[24], right[24], last_upper = 0.0f, last = 0.0f;
    for (int k = 0; k < n; ++k) {
        int at = line * line_stride + k * stride;
        float before = line > 0 ? in[at - line_stride] : 0.0f, after = line < lines - 1 ? in[at + line_stride] : 0.0f;
        float known = in[at] + r * (before - 2.0f * in[at] + after);
        float pivot = 1.0f / (1.0f + 2.0f * r + r * last_upper);
        last_upper = upper[k] = -r * pivot;
        last = right[k] = (known + r * last) * pivot;
    }
    float x = 0.0f;
    for (int k = n - 1; k >= 0; --k) {
        x = right[k] - upper[k] * x;
        out[line * line_stride + k * stride] = x;
    }
}

// Three diagonals of 32 rows by parallel cyclic reduction, a system a warp, all in registers.
KERNEL shuffled_reduction(const float* lower, const float* main, const float* upper, const float* right, float* x,
                          int n)
{
    int system = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31, at = system * 32 + lane;
    if (system >= n) return;
    float a = lane > 0 ? lower[at] : 0.0f, b = main[at], c = lane < 31 ? upper[at] : 0.0f, d = right[at];
    for (int s = 1; s < 32; s *= 2) {
        float ua = __shfl_up_sync(ALL, a, s), ub = __shfl_up_sync(ALL, b, s), uc = __shfl_up_sync(ALL, c, s);
        float ud = __shfl_up_sync(ALL, d, s), da = __shfl_down_sync(ALL, a, s), db = __shfl_down_sync(ALL, b, s);
        float dc = __shfl_down_sync(ALL, c, s), dd = __shfl_down_sync(ALL, d, s);
        float p = lane >= s ? a / ub : 0.0f, q = lane + s < 32 ? c / db : 0.0f;
        b -= p * uc + q * da;
        d -= p * ud + q * dd;
        a = -p * ua;
        c = -q * dc;
    }
    x[at] = d / b;
}

// A product whose tiles are copied three stages ahead.
__device__ void copy_16(void* to, const void* from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory");
}

KERNEL __launch_bounds__(64, 4) staged_product(const float* a, const float* b, float* c, int n, int depth)
{
    __shared__ __align__(16) float as[3][16][8], bs[3][8][32];
    int t = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 32, steps = depth / 8;
    float4 sums[2] = {make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0)};
    auto load = [&](int step) {
        int stage = step % 3;
        if (step < steps) {
            if (t < 32) copy_16(&as[stage][t / 2][t % 2 * 4], a + (row + t / 2) * depth + step * 8 + t % 2 * 4);
            copy_16(&bs[stage][t / 8][t % 8 * 4], b + (step * 8 + t / 8) * n + column + t % 8 * 4);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    load(0);
    load(1);
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        load(step + 2);
        int stage = step % 3;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float4 v = *reinterpret_cast<const float4*>(&bs[stage][k][t % 8 * 4]);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float u = as[stage][t / 8 + 8 * h][k];
                sums[h].x = fmaf(u, v.x, sums[h].x);
                sums[h].y = fmaf(u, v.y, sums[h].y);
                sums[h].z = fmaf(u, v.z, sums[h].z);
                sums[h].w = fmaf(u, v.w, sums[h].w);
            }
        }
    }
    for (int h = 0; h < 2; ++h)
        *reinterpret_cast<float4*>(c + (row + t / 8 + 8 * h) * n + column + t % 8 * 4) = sums[h];
}

// out[i, j, l] = sum over p and q of a[p, i, q] * b[q, l, p, j]
KERNEL contract(const short* a, const short* b, int* out, int I, int J, int L, int P, int Q)
{
    int l = threadIdx.x, j = threadIdx.y, i = blockIdx.x;
    if (l >= L || j >= J) return;
    int sum = 0;
    for (int q = 0; q < Q; ++q)
        for (int p = 0; p < P; ++p) sum += a[(p * I + i) * Q + q] * b[((q * L + l) * P + p) * J + j];
    out[(i * J + j) * L + l] = sum;
}

struct Matrix { double m[9]; };

__device__ Matrix times(const Matrix& a, const Matrix& b)
{
    Matrix c;
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
        for (int j = 0; j < 3; ++j)
            c.m[3 * i + j] = a.m[3 * i] * b.m[j] + a.m[3 * i + 1] * b.m[3 + j] + a.m[3 * i + 2] * b.m[6 + j];
    return c;
}

// Exponentials of matrices: halved until they are small, Taylor's terms, and squared as often.
KERNEL exponentials(const Matrix* in, Matrix* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Matrix a = in[i], sum;
    double size = 0.0;
    for (int r = 0; r < 3; ++r) size = fmax(size, fabs(a.m[3 * r]) + fabs(a.m[3 * r + 1]) + fabs(a.m[3 * r + 2]));
    int halvings = 0;
    while (size > 0.5) { size *= 0.5; ++halvings; }
    double scale = ldexp(1.0, -halvings);
    for (int k = 0; k < 9; ++k) { a.m[k] *= scale; sum.m[k] = k % 4 == 0; }
    for (int term = 13; term > 0; --term) {
        Matrix p = times(a, sum);
        for (int k = 0; k < 9; ++k) sum.m[k] = p.m[k] / term + (k % 4 == 0);
    }
    for (; halvings > 0; --halvings) sum = times(sum, sum);
    out[i] = sum;
}

// Gram and Schmidt's orthogonal columns, one made at a time and taken from all later ones.
KERNEL orthogonal_columns(const float* in, float* q)
{
    __shared__ float part[4], column[128];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    float v[6];
    for (int k = 0; k < 6; ++k) v[k] = in[(blockIdx.x * 128 + t) * 6 + k];
#pragma unroll
    for (int k = 0; k < 6; ++k) {
#pragma unroll
        for (int j = k; j < 6; ++j) {
            float sum = j == k ? v[k] * v[k] : column[t] * v[j];
            for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(ALL, sum, d);
            __syncthreads();
            if (lane == 0) part[warp] = sum;
            __syncthreads();
            sum = part[0] + part[1] + part[2] + part[3];
            if (j == k) { v[k] *= rsqrtf(sum); column[t] = v[k]; }
            else v[j] -= sum * column[t];
        }
    }
    for (int k = 0; k < 6; ++k) q[(blockIdx.x * 128 + t) * 6 + k] = v[k];
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def merged_rows(ends, columns, values, x, y):
    _run("merged_rows", (3,), (64,), ends, columns, values, x, y, *_ints(y.size, values.size, 5))


def sparse_product(starts, columns, values, other_starts, other_columns, other_values, out_columns, out_values, count):
    left, right = (starts, columns, values), (other_starts, other_columns, other_values)
    _run("sparse_product", (3,), (32,), *left, *right, out_columns, out_values, count, *_ints(count.size))


def sampled_product(places, scale, a, b, out):
    _run("sampled_product", (10,), (32, 4), places, scale, a, b, out, *_ints(out.size))


def solve_levels(order, starts, columns, values, diagonal, b, x):
    for begin, end in ((0, 30), (30, 70), (70, 80), (80, 110)):
        _run("solve_level", (2,), (32,), order, starts, columns, values, diagonal, b, x, *_ints(begin, end))


def strassen(a, b, c):
    _run("strassen", (len(c),), (8, 8), a, b, c)


def alternate(a, middle, out):
    h, w = a.shape
    rate = cupy.float32(0.4)
    _run("alternate", (2,), (16,), a, middle, *_ints(h, w, w, 1), rate)
    _run("alternate", (2,), (16,), middle, out, *_ints(w, h, 1, w), rate)


def shuffled_reduction(lower, main, upper, right, x):
    _run("shuffled_reduction", (3,), (96,), lower, main, upper, right, x, *_ints(len(x)))


def staged_product(a, b, c):
    m, n = c.shape
    _run("staged_product", (n // 32, m // 16), (64,), a, b, c, *_ints(n, a.shape[1]))


def contract(a, b, out):
    (p, i, q), (_, j, ell) = a.shape, out.shape
    _run("contract", (i,), (16, 8), a, b, out, *_ints(i, j, ell, p, q))


def exponentials(a, out):
    _run("exponentials", (3,), (32,), a, out, *_ints(len(a)))


def orthogonal_columns(a, q):
    _run("orthogonal_columns", (len(a),), (128,), a, q)
