"""Products by the matrix fragments of CUDA C++ (nvcuda::wmma): a warp for each tile of the result."""

import cupy
import numpy as np

module = cupy.RawModule(
    code=r"""
#include <mma.h>
using namespace nvcuda;

// c = a b, a by rows and b by columns.
template <int M, int N, int K, typename T, typename S>
__device__ void tile(const T* a, const T* b, S* c, int n, int k)
{
    wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, M, N, K, S> sums;
    wmma::fill_fragment(sums, S(0));
    int row = blockIdx.y * M, column = blockIdx.x * N;
    for (int depth = 0; depth < k; depth += K) {
        wmma::load_matrix_sync(x, a + row * k + depth, k);
        wmma::load_matrix_sync(y, b + column * k + depth, k);
        wmma::mma_sync(sums, x, y, sums);
    }
    wmma::store_matrix_sync(c + row * n + column, sums, n, wmma::mem_row_major);
}

#define KERNEL(name, M, N, K, T, S) \
    extern "C" __global__ void name(const T* a, const T* b, S* c, int n, int k) { tile<M, N, K>(a, b, c, n, k); }
KERNEL(square, 16, 16, 16, half, float)
KERNEL(flat, 8, 32, 16, half, half)
KERNEL(tall, 32, 8, 16, half, float)
KERNEL(bytes, 16, 16, 16, signed char, int)
KERNEL(doubles, 8, 8, 4, double, double)

// Operands of 4 bits and of one, packed in words; k is the number of elements.
using namespace nvcuda::wmma::experimental;

template <int K, typename T, typename Product>
__device__ void packed(const unsigned* a, const unsigned* b, int* c, int n, int k, Product product)
{
    wmma::fragment<wmma::matrix_a, 8, 8, K, T, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 8, 8, K, T, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 8, 8, K, int> sums;
    wmma::fill_fragment(sums, 0);
    int row = blockIdx.y * 8, column = blockIdx.x * 8, pitch = k * 4 / K;
    for (int step = 0; step < k / K; ++step) {
        wmma::load_matrix_sync(x, a + row * pitch + step * 4, k);
        wmma::load_matrix_sync(y, b + column * pitch + step * 4, k);
        product(sums, x, y);
    }
    wmma::store_matrix_sync(c + row * n + column, sums, n, wmma::mem_row_major);
}

#define PACKED(name, K, T, multiply) \
    extern "C" __global__ void name(const unsigned* a, const unsigned* b, int* c, int n, int k) \
    { \
        packed<K, precision::T>(a, b, c, n, k, [](auto& sums, auto& x, auto& y) { multiply; }); \
    }
PACKED(nibbles, 32, s4, wmma::mma_sync(sums, x, y, sums))
PACKED(unsigned_nibbles, 32, u4, wmma::mma_sync(sums, x, y, sums))
PACKED(bits_and, 128, b1, wmma::bmma_sync(sums, x, y, sums, bmmaBitOpAND))
PACKED(bits_xor, 128, b1, wmma::bmma_sync(sums, x, y, sums, bmmaBitOpXOR))

// Tiles of a and b go through shared memory; a lies by columns, b by rows.
extern "C" __global__ void staged(const half* a, const half* b, float* c, int n, int k)
{
    __shared__ __align__(32) half as[16][24], bs[16][24];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    wmma::fill_fragment(sums, 0.0f);
    int row = blockIdx.y * 16, column = blockIdx.x * 16, m = gridDim.y * 16;
    for (int depth = 0; depth < k; depth += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            as[i / 16][i % 16] = a[(depth + i / 16) * m + row + i % 16];
            bs[i / 16][i % 16] = b[(depth + i / 16) * n + column + i % 16];
        }
        __syncwarp();
        wmma::load_matrix_sync(x, &as[0][0], 24);
        wmma::load_matrix_sync(y, &bs[0][0], 24);
        wmma::mma_sync(sums, x, y, sums);
        __syncwarp();
    }
    for (int i = 0; i < sums.num_elements; ++i) sums.x[i] *= 0.5f;
    wmma::store_matrix_sync(c + row * n + column, sums, n, wmma::mem_row_major);
}
"""
)
TILES = {"square": (16, 16), "flat": (8, 32), "tall": (32, 8), "bytes": (16, 16), "doubles": (8, 8)}
NAMES = tuple(TILES)
PACKED = {"nibbles": 8, "unsigned_nibbles": 8, "bits_and": 32, "bits_xor": 32}  # elements of a word
PACKED_NAMES = tuple(PACKED)


def product(a, b, c, which):
    """`which` is a place in NAMES; a is m x k, b is n x k."""
    (m, k), n = a.shape, b.shape[0]
    height, width = TILES[NAMES[which]]
    module.get_function(NAMES[which])((n // width, m // height), (32,), (a, b, c, np.int32(n), np.int32(k)))


def packed(a, b, c, which):
    """`which` is a place in PACKED_NAMES; a is m x k, b is n x k, in words."""
    name, (m, words), n = PACKED_NAMES[which], a.shape, b.shape[0]
    k = np.int32(words * PACKED[name])
    module.get_function(name)((n // 8, m // 8), (32,), (a, b, c, np.int32(n), k))


def staged(a, b, c):
    """a is k x m, b is k x n."""
    (k, m), n = a.shape, b.shape[1]
    module.get_function("staged")((n // 16, m // 16), (32,), (a, b, c, np.int32(n), np.int32(k)))
