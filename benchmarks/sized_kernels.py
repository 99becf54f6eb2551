"""Kernels large enough to time, each bound by one thing: what the models are held against."""

import cupy
import numpy as np

module = cupy.RawModule(
    code=r"""
typedef unsigned u32;
typedef unsigned long long u64;
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void copy(const float* a, float* out, int n)
{
    int i = INDEX;
    if (i < n) out[i] = a[i];
}
extern "C" __global__ void copy_wide(const float4* a, float4* out, int n)
{
    int i = INDEX;
    if (i < n) out[i] = a[i];
}
extern "C" __global__ void fill(float4* out, int n)
{
    int i = INDEX;
    if (i < n) out[i] = make_float4(1, 2, 3, 4);
}
extern "C" __global__ void read_strided(const float* a, float* out, int n, int stride)
{
    int i = INDEX;
    if (i < n) out[i] = a[(size_t)i * stride];
}
extern "C" __global__ void write_strided(const float* a, float* out, int n, int stride)
{
    int i = INDEX;
    if (i < n) out[(size_t)i * stride] = a[i];
}
extern "C" __global__ void gather(const float* a, const int* index, float* out, int n)
{
    int i = INDEX;
    if (i < n) out[i] = a[index[i]];
}
extern "C" __global__ void reread_own(const float4* a, float* out, int span, int times)
{
    // Each block reads its own `span` elements again and again.
    const float4* mine = a + (size_t)blockIdx.x * span;
    float sum = 0;
    for (int t = 0; t < times; ++t)
        for (int i = threadIdx.x; i < span; i += blockDim.x) { float4 v = mine[i]; sum += v.x + v.y + v.z + v.w; }
    out[INDEX] = sum;
}
extern "C" __global__ void reread_all(const float4* a, float* out, int n, int times)
{
    // All blocks together read everything again and again.
    float sum = 0;
    for (int t = 0; t < times; ++t)
        for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) { float4 v = a[i]; sum += v.x + v.y + v.z + v.w; }
    out[INDEX] = sum;
}
extern "C" __global__ void row_sums(const float* a, float* out, int rows, int columns)
{
    // A thread a row: the lanes of a warp are a row apart.
    int r = INDEX;
    if (r >= rows) return;
    float sum = 0;
    for (int c = 0; c < columns; ++c) sum += a[(size_t)r * columns + c];
    out[r] = sum;
}
extern "C" __global__ void stencil(const float* a, float* out, int rows, int columns)
{
    int c = INDEX, r = blockIdx.y;
    if (r < 1 || c < 1 || r >= rows - 1 || c >= columns - 1) return;
    const float* p = a + r * columns + c;
    out[r * columns + c] = 0.2f * (p[0] + p[-1] + p[1] + p[-columns] + p[columns]);
}
extern "C" __global__ void transpose(const float* a, float* out, int rows, int columns)
{
    int c = INDEX, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < rows && c < columns) out[c * rows + r] = a[r * columns + c];
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int n)
{
    int j = INDEX, i = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
    c[i * n + j] = sum;
}
extern "C" __global__ void product_tiled(const float* a, const float* b, float* c, int n)
{
    __shared__ float as[32][32], bs[32][32];
    int x = threadIdx.x, y = threadIdx.y, j = blockIdx.x * 32 + x, i = blockIdx.y * 32 + y;
    float sum = 0;
    for (int k = 0; k < n; k += 32) {
        as[y][x] = a[i * n + k + x];
        bs[y][x] = b[(k + y) * n + j];
        __syncthreads();
        for (int d = 0; d < 32; ++d) sum += as[y][d] * bs[d][x];
        __syncthreads();
    }
    c[i * n + j] = sum;
}
extern "C" __global__ void histogram(const u32* a, u32* counts, int n, u32 bins)
{
    int i = INDEX;
    if (i < n) atomicAdd(counts + a[i] % bins, 1u);
}
extern "C" __global__ void reduce(const float* a, float* out, int n)
{
    __shared__ float part[256];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) sum += a[i];
    part[t] = sum;
    __syncthreads();
    for (int s = 128; s > 0; s /= 2) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

#define LOOP(name, type, body, start) \
    extern "C" __global__ void name(type* x, int n) \
    { \
        type a = x[INDEX], b = a + (type)start, c = b + a, d = c + b; \
        for (int i = 0; i < n; ++i) { body } \
        x[INDEX] = a + b + c + d; \
    }
LOOP(multiply_adds, float, a = a * 0.5f + 1; b = b * 0.5f + 1; c = c * 0.5f + 1; d = d * 0.5f + 1;, 1)
LOOP(double_multiply_adds, double, a = a * 0.5 + 1; b = b * 0.5 + 1; c = c * 0.5 + 1; d = d * 0.5 + 1;, 1)
LOOP(integer_mixes, u32, a ^= a << 3; b ^= b >> 5; c = (c | a) - b; d = d * 3 + a;, 7)
LOOP(special_functions, float,
     a = __sinf(a); b = __expf(b); c = rsqrtf(c); d = __logf(d);, 2)

extern "C" __global__ void chain(const int* next, int* out, int steps)
{
    int at = INDEX;
    for (int i = 0; i < steps; ++i) at = next[at];
    out[INDEX] = at;
}
extern "C" __global__ void bank_conflicts(float* x, int n, int stride)
{
    __shared__ float tile[1024];
    int t = threadIdx.x;
    for (int i = t; i < 1024; i += blockDim.x) tile[i] = i;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += ((volatile float*)tile)[(t % 32 * stride + i) & 1023];
    x[INDEX] = sum;
}
extern "C" __global__ void divergent(float* x, int n)
{
    float a = x[INDEX];
    for (int i = 0; i < n; ++i) {
        if (threadIdx.x & 1) a = a * 1.5f + 1;
        else a = __sinf(a) - 2;
    }
    x[INDEX] = a;
}
extern "C" __global__ void tensor(const u32* a, float* out, int n)
{
    int t = threadIdx.x % 32;
    u32 x0 = a[t], x1 = a[t + 32], x2 = a[t + 64], x3 = a[t + 96], y0 = a[t + 128], y1 = a[t + 160];
    float s[4][4] = {};
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < 4; ++j)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                         "{%0,%1,%2,%3};" : "+f"(s[j][0]), "+f"(s[j][1]), "+f"(s[j][2]), "+f"(s[j][3])
                         : "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(y0), "r"(y1));
    float total = 0;
    for (int j = 0; j < 4; ++j) for (int e = 0; e < 4; ++e) total += s[j][e];
    out[INDEX] = total;
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def copy(a, out):
    _run("copy", (-(-a.size // 256),), (256,), a, out, np.int32(a.size))


def copy_wide(a, out):
    _run("copy_wide", (-(-a.size // 1024),), (256,), a, out, np.int32(a.size // 4))


def fill(out):
    _run("fill", (-(-out.size // 1024),), (256,), out, np.int32(out.size // 4))


def read_strided(a, out, stride):
    _run("read_strided", (-(-out.size // 256),), (256,), a, out, np.int32(out.size), np.int32(stride))


def write_strided(a, out, stride):
    _run("write_strided", (-(-a.size // 256),), (256,), a, out, np.int32(a.size), np.int32(stride))


def gather(a, index, out):
    _run("gather", (-(-out.size // 256),), (256,), a, index, out, np.int32(out.size))


def reread_own(a, out, span, times):
    """`span` floats a block."""
    _run("reread_own", (out.size // 256,), (256,), a, out, np.int32(span // 4), np.int32(times))


def reread_all(a, out, times):
    _run("reread_all", (out.size // 256,), (256,), a, out, np.int32(a.size // 4), np.int32(times))


def row_sums(a, out):
    rows, columns = a.shape
    _run("row_sums", (-(-rows // 128),), (128,), a, out, np.int32(rows), np.int32(columns))


def stencil(a, out):
    rows, columns = a.shape
    _run("stencil", (-(-columns // 256), rows), (256,), a, out, np.int32(rows), np.int32(columns))


def transpose(a, out):
    rows, columns = a.shape
    _run("transpose", (-(-columns // 32), -(-rows // 8)), (32, 8), a, out, np.int32(rows), np.int32(columns))


def product(a, b, c):
    n = a.shape[0]
    _run("product", (n // 32, n // 8), (32, 8), a, b, c, np.int32(n))


def product_tiled(a, b, c):
    n = a.shape[0]
    _run("product_tiled", (n // 32, n // 32), (32, 32), a, b, c, np.int32(n))


def histogram(a, counts):
    bins = np.uint32(counts.size)
    _run("histogram", (-(-a.size // 256),), (256,), a, counts, np.int32(a.size), bins)


def reduce(a, out):
    _run("reduce", (out.size,), (256,), a, out, np.int32(a.size))


def _loop(name):
    def run(x, n):
        _run(name, (x.size // 256,), (256,), x, np.int32(n))

    return run


multiply_adds = _loop("multiply_adds")
double_multiply_adds = _loop("double_multiply_adds")
integer_mixes = _loop("integer_mixes")
special_functions = _loop("special_functions")
divergent = _loop("divergent")


def chain(following, out, steps):
    _run("chain", (-(-out.size // 128),), (min(out.size, 128),), following, out, np.int32(steps))


def bank_conflicts(x, n, stride):
    _run("bank_conflicts", (x.size // 256,), (256,), x, np.int32(n), np.int32(stride))


def tensor(a, out, n):
    _run("tensor", (out.size // 128,), (128,), a, out, np.int32(n))
