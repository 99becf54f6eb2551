"""out[j, i] = a[i, j] in the ways that the course compares."""

import cupy
import numpy as np
from numba import cuda, float32, float64

TILE = 32
ROWS = 8
PADDED = 33
PADDED_HALF = 34


def _blocks(a):
    m, n = a.shape
    return (n + TILE - 1) // TILE, (m + TILE - 1) // TILE


@cuda.jit
def naive_kernel(a, out):
    j, i = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[j, i] = a[i, j]


def naive(a, out):
    m, n = a.shape
    naive_kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, out)


@cuda.jit
def unpadded_kernel(a, out):
    tile = cuda.shared.array((TILE, TILE), float32)
    m, n = a.shape
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row0, col0 = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    for r in range(y, TILE, ROWS):
        if row0 + r < m and col0 + x < n:
            tile[r, x] = a[row0 + r, col0 + x]
    cuda.syncthreads()
    for r in range(y, TILE, ROWS):
        if col0 + r < n and row0 + x < m:
            out[col0 + r, row0 + x] = tile[x, r]


def unpadded(a, out):
    unpadded_kernel[_blocks(a), (TILE, ROWS)](a, out)


@cuda.jit
def padded_double_kernel(a, out):
    tile = cuda.shared.array((TILE, PADDED), float64)
    m, n = a.shape
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row0, col0 = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    for r in range(y, TILE, ROWS):
        if row0 + r < m and col0 + x < n:
            tile[r, x] = a[row0 + r, col0 + x]
    cuda.syncthreads()
    for r in range(y, TILE, ROWS):
        if col0 + r < n and row0 + x < m:
            out[col0 + r, row0 + x] = tile[x, r]


def padded_double(a, out):
    padded_double_kernel[_blocks(a), (TILE, ROWS)](a, out)


@cuda.jit
def padded_half_kernel(a, out):
    tile = cuda.shared.array((TILE, PADDED_HALF), np.float16)
    m, n = a.shape
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row0, col0 = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    for r in range(y, TILE, ROWS):
        if row0 + r < m and col0 + x < n:
            tile[r, x] = a[row0 + r, col0 + x]
    cuda.syncthreads()
    for r in range(y, TILE, ROWS):
        if col0 + r < n and row0 + x < m:
            out[col0 + r, row0 + x] = tile[x, r]


def padded_half(a, out):
    padded_half_kernel[_blocks(a), (TILE, ROWS)](a, out)


module = cupy.RawModule(
    code=r"""
constexpr int TILE = 32, ROWS = 8;

__device__ void transpose(const float* a, float* out, int m, int n, float* tile, int pitch)
{
    int x = threadIdx.x, row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
    for (int r = threadIdx.y; r < TILE; r += ROWS)
        if (row0 + r < m && col0 + x < n) tile[r * pitch + x] = a[(row0 + r) * n + col0 + x];
    __syncthreads();
    for (int r = threadIdx.y; r < TILE; r += ROWS)
        if (col0 + r < n && row0 + x < m) out[(col0 + r) * m + row0 + x] = tile[x * pitch + r];
}

extern "C" __global__ void padded(const float* a, float* out, int m, int n)
{
    __shared__ float tile[TILE * (TILE + 1)];
    transpose(a, out, m, n, tile, TILE + 1);
}

extern "C" __global__ void dynamic(const float* a, float* out, int m, int n, int pitch)
{
    extern __shared__ float tile[];
    transpose(a, out, m, n, tile, pitch);
}

extern "C" __global__ void swizzled(const float* a, float* out, int n)
{
    __shared__ float tile[TILE][TILE];
    int x = threadIdx.x, row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
    for (int r = threadIdx.y; r < TILE; r += ROWS) tile[r][x ^ r] = a[(row0 + r) * n + col0 + x];
    __syncthreads();
    for (int r = threadIdx.y; r < TILE; r += ROWS) out[(col0 + r) * n + row0 + x] = tile[x][r ^ x];
}

extern "C" __global__ void quads(const float4* a, float4* out, int n)
{
    // 4 x 4 elements a thread, 32 x 32 a warp; the block's slot index is XORed so that 16-byte stores do not collide
    __shared__ float4 tile[32 * 8];
    int row = threadIdx.x / 8, column = threadIdx.x % 8;
    for (int r = row; r < 32; r += 4)
        tile[r * 8 + (column ^ (r / 4))] = a[(blockIdx.y * 32 + r) * (n / 4) + blockIdx.x * 8 + column];
    __syncthreads();
    const float* words = (const float*)tile;
    for (int r = row; r < 32; r += 4) {
        float v[4];
        for (int k = 0; k < 4; ++k) {
            int from = column * 4 + k;
            v[k] = words[(from * 8 + ((r / 4) ^ (from / 4))) * 4 + r % 4];
        }
        out[(blockIdx.x * 32 + r) * (n / 4) + blockIdx.y * 8 + column] = make_float4(v[0], v[1], v[2], v[3]);
    }
}
"""
)


def padded(a, out):
    m, n = a.shape
    module.get_function("padded")(_blocks(a), (TILE, ROWS), (a, out, np.int32(m), np.int32(n)))


def dynamic(a, out, pitch):
    m, n = a.shape
    arguments = (a, out, np.int32(m), np.int32(n), np.int32(pitch))
    module.get_function("dynamic")(_blocks(a), (TILE, ROWS), arguments, shared_mem=4 * TILE * pitch)


def swizzled(a, out):
    module.get_function("swizzled")(_blocks(a), (TILE, ROWS), (a, out, np.int32(a.shape[1])))


def quads(a, out):
    module.get_function("quads")(_blocks(a), (32,), (a, out, np.int32(a.shape[1])))
