"""Matrix products and what is made of them: naive, tiled, in half, double, bfloat16 and 8-bit integers; sparse too."""

import cupy
import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def naive_kernel(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


def naive(a, b, c):
    """Lanes run down a column of c: uncoalesced on purpose."""
    m, n = c.shape
    naive_kernel[((m + 15) // 16, (n + 15) // 16), (16, 16)](a, b, c)


@cuda.jit
def tiled_kernel(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * TILE + y, cuda.blockIdx.x * TILE + x
    depth = a.shape[1]
    total = float32(0)
    for k0 in range(0, depth, TILE):
        tile_a[y, x] = a[i, k0 + x] if i < a.shape[0] and k0 + x < depth else float32(0)
        tile_b[y, x] = b[k0 + y, j] if k0 + y < depth and j < b.shape[1] else float32(0)
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = total


def tiled(a, b, c):
    m, n = c.shape
    tiled_kernel[((n + TILE - 1) // TILE, (m + TILE - 1) // TILE), (TILE, TILE)](a, b, c)


@cuda.jit
def half_in_kernel(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += float32(a[i, k]) * float32(b[k, j])
        c[i, j] = total


def half_in(a, b, c):
    """Half operands, float accumulation."""
    m, n = c.shape
    half_in_kernel[((n + 15) // 16, (m + 7) // 8), (16, 8)](a, b, c)


module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void register_tile(const float* a, const float* b, float* c, int n)
{
    // 32 x 32 of c a block of 64 threads, 4 x 4 a thread, 8 of k at a time; n a multiple of 32
    __shared__ __align__(16) float as[8][32], bs[8][32];
    int t = threadIdx.x, row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    int ty = t / 8 * 4, tx = t % 8 * 4;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 8) {
        float4 va = *(const float4*)(a + (row0 + t / 2) * n + k0 + t % 2 * 4);
        as[t % 2 * 4 + 0][t / 2] = va.x;
        as[t % 2 * 4 + 1][t / 2] = va.y;
        as[t % 2 * 4 + 2][t / 2] = va.z;
        as[t % 2 * 4 + 3][t / 2] = va.w;
        *(float4*)&bs[t / 8][t % 8 * 4] = *(const float4*)(b + (k0 + t / 8) * n + col0 + t % 8 * 4);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float4 x = *(const float4*)&as[k][ty], y = *(const float4*)&bs[k][tx];
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[i][j] += xs[i] * ys[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        *(float4*)(c + (row0 + ty + i) * n + col0 + tx) =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

extern "C" __global__ void half_product(const __half2* a, const __half2* b, __half2* c, int n)
{
    // c = a b with two columns a thread, accumulated in half precision
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y, pairs = n / 2;
    if (j >= pairs) return;
    __half2 total = __float2half2_rn(0.f);
    for (int k = 0; k < pairs; ++k) {
        __half2 v = a[i * pairs + k];
        total = __hfma2(__low2half2(v), b[2 * k * pairs + j], total);
        total = __hfma2(__high2half2(v), b[(2 * k + 1) * pairs + j], total);
    }
    c[i * pairs + j] = total;
}

extern "C" __global__ void bfloat_product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n)
{
    int j = threadIdx.x, i = blockIdx.x;
    float total = 0;
    for (int k = 0; k < n; ++k) total += __bfloat162float(a[i * n + k]) * __bfloat162float(b[k * n + j]);
    c[i * n + j] = total;
}

extern "C" __global__ void double_product(const double* a, const double* b, double* c, int n)
{
    int j = threadIdx.x, i = blockIdx.x;
    double total = 0;
    for (int k = 0; k < n; ++k) total += a[i * n + k] * b[k * n + j];
    c[i * n + j] = total;
}

extern "C" __global__ void byte_product(const int* a, const int* b, int* c, int n)
{
    // rows of a times rows of b, four 8-bit products an instruction
    int j = threadIdx.x, i = blockIdx.x, words = n / 4, total = 0;
    for (int k = 0; k < words; ++k) total = __dp4a(a[i * words + k], b[j * words + k], total);
    c[i * blockDim.x + j] = total;
}

extern "C" __global__ void matrix_vector(const float* a, const float* x, float* y, int m, int n)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    float total = 0;
    for (int k = lane; k < n; k += 32) total += a[row * n + k] * x[k];
    for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffff, total, step);
    if (lane == 0) y[row] = total;
}

extern "C" __global__ void sparse_scalar(const int* starts, const int* columns, const float* values, const float* x,
                                         float* y, int m)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    float total = 0;
    for (int k = starts[row]; k < starts[row + 1]; ++k) total += values[k] * x[columns[k]];
    y[row] = total;
}

extern "C" __global__ void sparse_vector(const int* starts, const int* columns, const float* values, const float* x,
                                         float* y, int m)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
    float total = 0;
    if (row < m)
        for (int k = starts[row] + lane; k < starts[row + 1]; k += 8) total += values[k] * x[columns[k]];
    for (int step = 4; step > 0; step /= 2) total += __shfl_down_sync(0xffffffff, total, step, 8);
    if (row < m && lane == 0) y[row] = total;
}
"""
)


def register_tile(a, b, c):
    n = a.shape[0]
    module.get_function("register_tile")((n // 32, n // 32), (64,), (a, b, c, np.int32(n)))


def half_product(a, b, c):
    n = a.shape[0]
    module.get_function("half_product")((1, n), (n // 2,), (a, b, c, np.int32(n)))


def bfloat_product(a, b, c):
    n = a.shape[0]
    module.get_function("bfloat_product")((n,), (n,), (a, b, c, np.int32(n)))


def double_product(a, b, c):
    n = a.shape[0]
    module.get_function("double_product")((n,), (n,), (a, b, c, np.int32(n)))


def byte_product(a, b, c):
    m, n = c.shape
    module.get_function("byte_product")((m,), (n,), (a, b, c, np.int32(a.shape[1])))


def matrix_vector(a, x, y):
    m, n = a.shape
    module.get_function("matrix_vector")(((m + 1) // 2,), (64,), (a, x, y, np.int32(m), np.int32(n)))


def sparse_scalar(starts, columns, values, x, y):
    arguments = (starts, columns, values, x, y, np.int32(y.size))
    module.get_function("sparse_scalar")(((y.size + 63) // 64,), (64,), arguments)


def sparse_vector(starts, columns, values, x, y):
    arguments = (starts, columns, values, x, y, np.int32(y.size))
    module.get_function("sparse_vector")(((y.size + 7) // 8,), (64,), arguments)
