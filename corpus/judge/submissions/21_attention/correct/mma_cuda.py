# expect: all: passed: products of single warps, in CUDA C++
import math

import cupy
import numpy as np

SOURCE = r"""
#include <cuda_fp16.h>
typedef unsigned u32;
constexpr int QUERIES = 128, KEYS = 64, PIECES = WIDTH / 8;

__device__ u32 place(int row, int piece) { return row * WIDTH * 2 + ((piece ^ (row & 7)) << 4); }
__device__ void fill(u32 tile, const half* from, int row0, int rows, int n)
{
    for (int p = threadIdx.x; p < rows * PIECES; p += blockDim.x) {
        int row = p / PIECES, piece = p % PIECES;
        uint4 words = make_uint4(0, 0, 0, 0);
        if (row0 + row < n) words = *(const uint4*)(from + (long long)(row0 + row) * WIDTH + 8 * piece);
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                     :: "r"(tile + place(row, piece)), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                     : "memory");
    }
}
__device__ void fragment(u32 (&r)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ void turned(u32 (&r)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ void multiply(float* d, const u32* a, u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ void add_values(float* o, const u32* a, u32 b0, u32 b1)
{
    multiply(o, a, b0, b1);
}
__device__ u32 pack(float a, float b)
{
    half2 both = __floats2half2_rn(a, b);
    return *(u32*)&both;
}

extern "C" __global__ void __launch_bounds__(256)
kernel(const half* q, const half* k, const half* v, half* out, int n, int causal, float scale)
{
    __shared__ uint4 memory[KEYS * WIDTH * 4 / 16];
    u32 tile_k = (u32)__cvta_generic_to_shared(memory), tile_v = tile_k + KEYS * WIDTH * 2;
    int row0 = blockIdx.x * QUERIES, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long first = (long long)blockIdx.y * n * WIDTH;
    q += first, k += first, v += first, out += first;
    fill(tile_k, q, row0, QUERIES, n);
    __syncthreads();
    u32 queries[WIDTH / 16][4];
#pragma unroll
    for (int i = 0; i < WIDTH / 16; ++i) fragment(queries[i], tile_k + place(16 * warp + lane % 16, 2 * i + lane / 16));

    float o[WIDTH / 8][4] = {}, largest[2] = {-1e30f, -1e30f}, total[2] = {0, 0};
    int row = row0 + 16 * warp + lane / 4, end = n;
    if (causal) end = min(n, row0 + QUERIES);
    for (int start = 0; start < end; start += KEYS) {
        __syncthreads();
        fill(tile_k, k, start, KEYS, n);
        fill(tile_v, v, start, KEYS, n);
        __syncthreads();
        float s[KEYS / 8][4] = {};
#pragma unroll
        for (int i = 0; i < WIDTH / 16; ++i)
#pragma unroll
            for (int j = 0; j < KEYS / 16; ++j) {
                u32 b[4];
                fragment(b, tile_k + place(16 * j + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
                multiply(s[2 * j], queries[i], b[0], b[1]);
                multiply(s[2 * j + 1], queries[i], b[2], b[3]);
            }
        float shrink[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            int visible = n;
            if (causal) visible = min(n, row + 8 * r + 1);
            float m = largest[r];
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    if (start + 8 * j + lane % 4 * 2 + e >= visible) s[j][2 * r + e] = -1e30f;
                    m = fmaxf(m, s[j][2 * r + e]);
                }
            m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
            m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
            shrink[r] = exp2f((largest[r] - m) * scale);
            largest[r] = m;
            total[r] *= shrink[r];
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    s[j][2 * r + e] = exp2f((s[j][2 * r + e] - m) * scale);
                    total[r] += s[j][2 * r + e];
                }
        }
#pragma unroll
        for (int i = 0; i < WIDTH / 8; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) o[i][e] *= shrink[e / 2];
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
            u32 a[4] = {pack(s[2 * j][0], s[2 * j][1]), pack(s[2 * j][2], s[2 * j][3]),
                        pack(s[2 * j + 1][0], s[2 * j + 1][1]), pack(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
            for (int i = 0; i < WIDTH / 16; ++i) {
                u32 b[4];
                turned(b, tile_v + place(16 * j + lane % 16, 2 * i + lane / 16));
                add_values(o[2 * i], a, b[0], b[1]);
                add_values(o[2 * i + 1], a, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float l = total[r];
        l += __shfl_xor_sync(~0u, l, 1);
        l += __shfl_xor_sync(~0u, l, 2);
        half* to = out + (long long)(row + 8 * r) * WIDTH + lane % 4 * 2;
        if (row + 8 * r < n)
#pragma unroll
            for (int i = 0; i < WIDTH / 8; ++i) *(u32*)(to + 8 * i) = pack(o[i][2 * r] / l, o[i][2 * r + 1] / l);
    }
}
"""
kernels = {d: cupy.RawModule(code=SOURCE, options=(f"-DWIDTH={d}",)).get_function("kernel") for d in (64, 128)}


def attention(q, k, v, causal, out):
    heads, n, d = q.shape
    scale = np.float32(math.log2(math.e) / math.sqrt(d))
    kernels[d](((n + 127) // 128, heads), (256,), (q, k, v, out, np.int32(n), np.int32(causal), scale))
