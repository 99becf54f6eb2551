"""Small kernels that the rules of counting by machine code were not made from: matrices, solvers, particles."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void

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


def spmv_csr(starts, columns, values, x, y):
    _run("spmv_csr", (2,), (64,), starts, columns, values, x, y, cupy.int32(y.size))


def spmv_ell(columns, values, x, y):
    _run("spmv_ell", (2,), (64,), columns, values, x, y, cupy.int32(y.size))


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


def n_body(bodies, out):
    _run("n_body", (2,), (64,), bodies, out, cupy.int32(len(bodies)))


def matmul_micro(a, b, c):
    n = len(a)
    _run("matmul_micro", (n // 32, n // 32), (8, 8), a, b, c, cupy.int32(n))


def structs_to_arrays(a, x, mass, kind):
    _run("structs_to_arrays", (2,), (64,), a, x, mass, kind)


def structs_shared(a, out):
    _run("structs_shared", (1,), (64,), a, out)


def transpose_8(a, out):
    _run("transpose_8", (1,), (8, 32), a, out)


def k_nearest(points, queries, out):
    _run("k_nearest", (2,), (64,), points, queries, out, cupy.int32(len(points)))


def k_means(points, centres, sums, counts):
    _run("k_means", (2,), (128,), points, centres, sums, counts)


def jacobi(a, b, x):
    _run("jacobi", (1,), (32,), a, b, x, cupy.int32(5))


def power_iteration(a, out):
    _run("power_iteration", (1,), (32,), a, out)


def many_registers(a, out):
    _run("many_registers", (1,), (64,), a, out)
