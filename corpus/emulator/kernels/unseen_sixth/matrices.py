"""The sixth set of kernels that no rule of counting was made from: matrices, long numbers, groups of lanes, halves."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cooperative_groups.h>
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

typedef unsigned char byte;
typedef unsigned long long u64;

// Keccak's permutation of 1600 bits, as SHA-3 has it, of one block of 136 bytes.
__constant__ u64 round_words[24] = {
    0x0000000000000001ull, 0x0000000000008082ull, 0x800000000000808aull, 0x8000000080008000ull,
    0x000000000000808bull, 0x0000000080000001ull, 0x8000000080008081ull, 0x8000000000008009ull,
    0x000000000000008aull, 0x0000000000000088ull, 0x0000000080008009ull, 0x000000008000000aull,
    0x000000008000808bull, 0x800000000000008bull, 0x8000000000008089ull, 0x8000000000008003ull,
    0x8000000000008002ull, 0x8000000000000080ull, 0x000000000000800aull, 0x800000008000000aull,
    0x8000000080008081ull, 0x8000000000008080ull, 0x0000000080000001ull, 0x8000000080008008ull};
__constant__ byte lane_order[24] = {
    10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1};
__constant__ byte lane_turns[24] = {
    1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44};

__device__ __forceinline__ u64 turned(u64 x, int n) { return x << n | x >> (64 - n); }

KERNEL sha_3(const u64* blocks, u64* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 s[25], c[5];
    for (int k = 0; k < 25; ++k) s[k] = k < 17 ? blocks[k * n + i] : 0;
#pragma unroll 1
    for (int round = 0; round < 24; ++round) {
#pragma unroll
        for (int x = 0; x < 5; ++x) c[x] = s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20];
#pragma unroll
        for (int x = 0; x < 5; ++x) {
            u64 d = c[(x + 4) % 5] ^ turned(c[(x + 1) % 5], 1);
#pragma unroll
            for (int y = 0; y < 25; y += 5) s[y + x] ^= d;
        }
        u64 carried = s[1];
        for (int k = 0; k < 24; ++k) {
            int at = lane_order[k];
            u64 next = s[at];
            s[at] = turned(carried, lane_turns[k]);
            carried = next;
        }
#pragma unroll
        for (int y = 0; y < 25; y += 5) {
#pragma unroll
            for (int x = 0; x < 5; ++x) c[x] = s[y + x];
#pragma unroll
            for (int x = 0; x < 5; ++x) s[y + x] = c[x] ^ (~c[(x + 1) % 5] & c[(x + 2) % 5]);
        }
        s[0] ^= round_words[round];
    }
    for (int k = 0; k < 4; ++k) out[k * n + i] = s[k];
}

// Powers modulo odd numbers of 63 bits, by products that need no division.
__device__ u64 reduced(u64 a, u64 b, u64 m, u64 inverse)
{
    u64 low = a * b, high = __umul64hi(a, b), q = low * inverse, over = __umul64hi(q, m);
    return high < over ? high - over + m : high - over;
}

KERNEL montgomery(const u64* bases, const unsigned* powers, const u64* moduli, u64* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 m = moduli[i], inverse = m;
    for (int k = 0; k < 5; ++k) inverse *= 2 - m * inverse;
    u64 one = 1, a = bases[i] % m;
    for (int k = 0; k < 64; ++k) {
        one = one >= m - one ? one - (m - one) : one + one;
        a = a >= m - a ? a - (m - a) : a + a;
    }
    u64 r = one;
    for (unsigned e = powers[i]; e; e >>= 1) {
        if (e & 1) r = reduced(r, a, m, inverse);
        a = reduced(a, a, m, inverse);
    }
    out[i] = reduced(r, 1, m, inverse);
}

// Matrices of 6 x 6 to Hessenberg's form by elimination with the largest element.
KERNEL hessenberg(const double* in, double* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a[6][6];
    for (int r = 0; r < 6; ++r)
        for (int c = 0; c < 6; ++c) a[r][c] = in[(r * 6 + c) * n + i];
    for (int m = 1; m < 5; ++m) {
        int pivot = m;
        double most = 0;
        for (int r = m; r < 6; ++r)
            if (fabs(a[r][m - 1]) > fabs(most)) { most = a[r][m - 1]; pivot = r; }
        if (most == 0) continue;
        if (pivot != m) {
            for (int c = m - 1; c < 6; ++c) { double t = a[pivot][c]; a[pivot][c] = a[m][c]; a[m][c] = t; }
            for (int r = 0; r < 6; ++r) { double t = a[r][pivot]; a[r][pivot] = a[r][m]; a[r][m] = t; }
        }
        for (int r = m + 1; r < 6; ++r) {
            double f = a[r][m - 1];
            if (f == 0) continue;
            f /= most;
            a[r][m - 1] = 0;
            for (int c = m; c < 6; ++c) a[r][c] -= f * a[m][c];
            for (int k = 0; k < 6; ++k) a[k][m] += f * a[k][r];
        }
    }
    for (int r = 0; r < 6; ++r)
        for (int c = 0; c < 6; ++c) out[(r * 6 + c) * n + i] = a[r][c];
}

// Symmetric matrices of five diagonals solved by factors that stay in a window of registers.
KERNEL five_diagonals(const double* diagonal, const double* near_, const double* far, const double* right, double* out,
                      int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double d[24], l[24], m[24], y[24];
    double d1 = 1, d2 = 1, l1 = 0, y1 = 0, y2 = 0;
    for (int k = 0; k < size; ++k) {
        double b = k > 1 ? far[(k - 2) * n + i] / d2 : 0;
        double a = k > 0 ? (near_[(k - 1) * n + i] - (k > 1 ? b * d2 * l1 : 0)) / d1 : 0;
        double own = diagonal[k * n + i] - a * a * d1 - b * b * d2;
        double value = right[k * n + i] - a * y1 - b * y2;
        d[k] = own; l[k] = a; m[k] = b; y[k] = value;
        d2 = d1; d1 = own; l1 = a; y2 = y1; y1 = value;
    }
    double x1 = 0, x2 = 0;
    for (int k = size - 1; k >= 0; --k) {
        double x = y[k] / d[k];
        if (k + 1 < size) x -= l[k + 1] * x1;
        if (k + 2 < size) x -= m[k + 2] * x2;
        out[k * n + i] = x;
        x2 = x1;
        x1 = x;
    }
}

// Rows of halves times a vector, eight halves a load, sums in floats by warps.
KERNEL half_matvec(const uint4* rows, const uint4* vector, float* out, int eights, int n)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0;
    for (int k = lane; k < eights; k += 32) {
        uint4 a = rows[row * eights + k], b = __ldg(&vector[k]);
        const __half2 *x = reinterpret_cast<const __half2*>(&a), *y = reinterpret_cast<const __half2*>(&b);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float2 u = __half22float2(x[j]), v = __half22float2(y[j]);
            sum = fmaf(u.x, v.x, sum);
            sum = fmaf(u.y, v.y, sum);
        }
    }
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(ALL, sum, d);
    if (lane == 0) out[row] = sum;
}

// Eight lanes a row: where the row's largest number is, and how many come close to it.
KERNEL eight_lanes(const short* rows, short2* out, int size, int n)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    if (row >= n) return;
    int best = -32769, at = 0;
    for (int k = tile.thread_rank(); k < size; k += 8) {
        int value = rows[row * size + k];
        if (value > best) { best = value; at = k; }
    }
    for (int d = tile.size() / 2; d; d /= 2) {
        int other = tile.shfl_down(best, d), there = tile.shfl_down(at, d);
        if (other > best || (other == best && there < at)) { best = other; at = there; }
    }
    best = tile.shfl(best, 0);
    int close = 0;
    for (int base = 0; base < size; base += 8) {
        int k = base + tile.thread_rank();
        close += __popc(tile.ballot(k < size && rows[row * size + k] >= best - 100));
        if (close > 20) break;
    }
    if (tile.thread_rank() == 0) out[row] = make_short2(at, close);
}

// Items of few kinds put in lists of their kind: one atomic addition for all lanes of a kind.
KERNEL list_by_kind(const byte* kinds, int* counts, int* sums, int n)
{
    int lane = threadIdx.x & 31;
    for (int base = blockIdx.x * blockDim.x; base < n; base += gridDim.x * blockDim.x) {
        int i = base + threadIdx.x;
        int kind = i < n ? kinds[i] : 255;
        unsigned alike = __match_any_sync(ALL, kind);
        int leader = __ffs(alike) - 1;
        int total = __reduce_add_sync(alike, i);
        if (kind == 255) continue;
        if (lane == leader) {
            atomicAdd(&counts[kind], __popc(alike));
            atomicAdd(&sums[kind], total);
        }
    }
}

// Products of polynomials modulo a prime and x^n + 1, a coefficient a thread.
KERNEL ring_products(const int* a, const int* b, int* out, int size, int prime)
{
    extern __shared__ int own[];
    const int *x = a + blockIdx.x * size, *y = b + blockIdx.x * size;
    for (int k = threadIdx.x; k < size; k += blockDim.x) {
        own[k] = x[k];
        own[size + k] = y[k];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < size; k += blockDim.x) {
        long long sum = 0;
        for (int j = 0; j <= k; ++j) sum += (long long)own[j] * own[size + k - j];
        for (int j = k + 1; j < size; ++j) sum -= (long long)own[j] * own[2 * size + k - j];
        int r = sum % prime;
        out[blockIdx.x * size + k] = r < 0 ? r + prime : r;
    }
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)((grid,), (block,), arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def sha_3(blocks, out):
    _run("sha_3", 3, 32, blocks, out, *_ints(blocks.shape[1]))


def montgomery(bases, powers, moduli, out):
    _run("montgomery", 3, 48, bases, powers, moduli, out, *_ints(out.size))


def hessenberg(matrices, out):
    _run("hessenberg", 3, 32, matrices, out, *_ints(matrices.shape[2]))


def five_diagonals(diagonal, near, far, right, out):
    size, n = out.shape
    _run("five_diagonals", 2, 48, diagonal, near, far, right, out, *_ints(size, n))


def half_matvec(rows, vector, out):
    _run("half_matvec", 9, 96, rows, vector, out, *_ints(vector.size // 8, out.size))


def eight_lanes(rows, out):
    n, size = rows.shape
    _run("eight_lanes", 6, 96, rows, out, *_ints(size, n))


def list_by_kind(kinds, counts, sums):
    _run("list_by_kind", 2, 128, kinds, counts, sums, *_ints(kinds.size))


def ring_products(a, b, out):
    size = a.shape[1]
    _run("ring_products", len(a), 64, a, b, out, *_ints(size, 7681), shared=8 * size)
