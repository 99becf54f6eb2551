"""The second set of kernels that no rule of counting was made from: sparse products, nearest points, streamed rows."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cuda_pipeline_primitives.h>

#define KERNEL extern "C" __global__ void

// A row of a sparse matrix to eight lanes.
KERNEL sparse_rows(const int* starts, const int* columns, const float* values, const float* x, float* y, int rows)
{
    int r = (blockIdx.x * blockDim.x + threadIdx.x) / 8, k = threadIdx.x % 8;
    float sum = 0.0f;
    if (r < rows)
        for (int i = starts[r] + k; i < starts[r + 1]; i += 8)
            sum = fmaf(__ldg(&values[i]), __ldg(&x[columns[i]]), sum);
    sum += __shfl_down_sync(~0u, sum, 4, 8);
    sum += __shfl_down_sync(~0u, sum, 2, 8);
    sum += __shfl_down_sync(~0u, sum, 1, 8);
    if (r < rows && k == 0) y[r] = sum;
}

// Slices of 32 rows, each as wide as its longest row; column -1 fills the others.
KERNEL sparse_slices(const int* starts, const int* columns, const double* values, const double* x, double* y)
{
    int slice = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    double sum = 0.0;
    for (int i = starts[slice] + lane; i < starts[slice + 1]; i += 32) {
        int c = columns[i];
        if (c >= 0) sum += values[i] * x[c];
    }
    y[slice * 32 + lane] = sum;
}

// Triples in the order of their rows, four a thread: what ends in a row is added with an atomic.
KERNEL sparse_triples(const int4* rows, const int4* columns, const int4* values, const int* x, int* y, int quads)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    int4 r = rows[i], c = columns[i], v = values[i];
    int sum = v.x * x[c.x];
    if (r.y != r.x) { atomicAdd(&y[r.x], sum); sum = 0; }
    sum += v.y * x[c.y];
    if (r.z != r.y) { atomicAdd(&y[r.y], sum); sum = 0; }
    sum += v.z * x[c.z];
    if (r.w != r.z) { atomicAdd(&y[r.z], sum); sum = 0; }
    sum += v.w * x[c.w];
    atomicAdd(&y[r.w], sum);
}

// The three nearest points of each query, in order, points by tiles through shared memory.
KERNEL nearest_three(const float* points, const float* queries, int* out, int n, int m)
{
    __shared__ float s[3][64];
    int i = blockIdx.x * 64 + threadIdx.x, where[3] = {-1, -1, -1};
    float q[3] = {0.0f, 0.0f, 0.0f}, least[3] = {1e30f, 1e30f, 1e30f};
    if (i < m)
        for (int k = 0; k < 3; ++k) q[k] = queries[i * 3 + k];
    for (int base = 0; base < n; base += 64) {
        __syncthreads();
        for (int k = threadIdx.x; k < 192 && base * 3 + k < n * 3; k += 64) s[k % 3][k / 3] = points[base * 3 + k];
        __syncthreads();
        int count = min(64, n - base);
        for (int j = 0; j < count; ++j) {
            float x = s[0][j] - q[0], y = s[1][j] - q[1], z = s[2][j] - q[2], d = x * x + y * y + z * z;
            if (d >= least[2]) continue;
            int k = 2;
            while (k > 0 && d < least[k - 1]) {
                least[k] = least[k - 1];
                where[k] = where[k - 1];
                --k;
            }
            least[k] = d;
            where[k] = base + j;
        }
    }
    if (i < m)
        for (int k = 0; k < 3; ++k) out[i * 3 + k] = where[k];
}

// A step of k-means: each point's nearest centre, then each centre's mean, a centre a block.
KERNEL assign_clusters(const float4* points, const float4* centres, int* cluster, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = points[i];
    float least = 3e38f;
    for (int c = 0; c < k; ++c) {
        float4 q = centres[c];
        float x = p.x - q.x, y = p.y - q.y, z = p.z - q.z, w = p.w - q.w, d = x * x + y * y + z * z + w * w;
        if (d < least) { least = d; cluster[i] = c; }
    }
}

KERNEL mean_of_cluster(const float4* points, const int* cluster, float4* centres, int n)
{
    __shared__ float4 sums[64];
    __shared__ int counts[64];
    int t = threadIdx.x, count = 0;
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = t; i < n; i += 64)
        if (cluster[i] == blockIdx.x) {
            float4 p = points[i];
            sum.x += p.x; sum.y += p.y; sum.z += p.z; sum.w += p.w;
            ++count;
        }
    sums[t] = sum;
    counts[t] = count;
    __syncthreads();
    for (int d = 32; d; d >>= 1) {
        if (t < d) {
            float4 p = sums[t + d];
            sums[t].x += p.x; sums[t].y += p.y; sums[t].z += p.z; sums[t].w += p.w;
            counts[t] += counts[t + d];
        }
        __syncthreads();
    }
    if (t == 0 && counts[0]) {
        float r = 1.0f / counts[0];
        centres[blockIdx.x] = make_float4(sums[0].x * r, sums[0].y * r, sums[0].z * r, sums[0].w * r);
    }
}

// Rows stream through three stages of shared memory while a vector stays in registers.
KERNEL streamed_rows(const float4* a, const float4* x, float* y, int rows, int width)
{
    __shared__ float4 stages[3][64];
    __shared__ float warps[2];
    int t = threadIdx.x, count = (rows - blockIdx.x + gridDim.x - 1) / gridDim.x;
    float4 v = x[t];
    auto fetch = [&](int k) {
        if (k < count) __pipeline_memcpy_async(&stages[k % 3][t], &a[(blockIdx.x + k * gridDim.x) * width + t], 16);
        __pipeline_commit();
    };
    fetch(0);
    fetch(1);
    for (int k = 0; k < count; ++k) {
        fetch(k + 2);
        __pipeline_wait_prior(2);
        float4 p = stages[k % 3][t];
        float sum = p.x * v.x + p.y * v.y + p.z * v.z + p.w * v.w;
        for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
        if (t % 32 == 0) warps[t / 32] = sum;
        __syncthreads();
        if (t == 0) y[blockIdx.x + k * gridDim.x] = warps[0] + warps[1];
        __syncthreads();
    }
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def sparse_rows(starts, columns, values, x, y):
    _run("sparse_rows", (3,), (128,), starts, columns, values, x, y, cupy.int32(y.size))


def sparse_slices(starts, columns, values, x, y):
    _run("sparse_slices", (2,), (64,), starts, columns, values, x, y)


def sparse_triples(rows, columns, values, x, y):
    _run("sparse_triples", (2,), (64,), rows, columns, values, x, y, cupy.int32(rows.size // 4))


def nearest_three(points, queries, out):
    _run("nearest_three", (2,), (64,), points, queries, out, cupy.int32(len(points)), cupy.int32(len(queries)))


def cluster_step(points, centres, cluster):
    n, k = cupy.int32(len(points)), len(centres)
    _run("assign_clusters", (3,), (64,), points, centres, cluster, n, cupy.int32(k))
    _run("mean_of_cluster", (k,), (64,), points, cluster, centres, n)


def streamed_rows(a, x, y):
    _run("streamed_rows", (3,), (64,), a, x, y, cupy.int32(len(a)), cupy.int32(a.shape[1] // 4))
