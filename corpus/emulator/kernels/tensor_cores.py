"""Tensor-core products, matrix loads and stores, asynchronous copies by inline PTX: a warp each, then all together."""

import cupy
import numpy as np

MMA = ("f16_f32", "f16_f16", "bf16_f32", "tf32_f32", "s8_s32", "f16_f32_k8", "e4m3_f32", "e5m2_f32")

module = cupy.RawModule(
    code=r"""
// Fragments lie in `a`, `b` and `c` as the lanes hold them: word i of lane t at i * 32 + t.
#define WORDS(name, count) \
    unsigned name[count]; \
    for (int i = 0; i < count; ++i) name[i] = name##s[i * 32 + threadIdx.x];
#define OUT(count) for (int i = 0; i < count; ++i) out[i * 32 + threadIdx.x] = c[i];

#define MMA_422(name, shape, types) \
    extern "C" __global__ void name(const unsigned* as, const unsigned* bs, const unsigned* cs, unsigned* out) \
    { \
        WORDS(a, 4) WORDS(b, 2) WORDS(c, 4) \
        asm("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
        OUT(4) \
    }
#define MMA_422F(name, shape, types) \
    extern "C" __global__ void name(const unsigned* as, const unsigned* bs, const float* cs, float* out) \
    { \
        WORDS(a, 4) WORDS(b, 2) \
        float c[4]; \
        for (int i = 0; i < 4; ++i) c[i] = cs[i * 32 + threadIdx.x]; \
        asm("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
        OUT(4) \
    }
MMA_422F(f16_f32, "m16n8k16", "f32.f16.f16.f32")
MMA_422F(bf16_f32, "m16n8k16", "f32.bf16.bf16.f32")
MMA_422F(tf32_f32, "m16n8k8", "f32.tf32.tf32.f32")
MMA_422F(e4m3_f32, "m16n8k32", "f32.e4m3.e4m3.f32")
MMA_422F(e5m2_f32, "m16n8k32", "f32.e5m2.e5m2.f32")
MMA_422(s8_s32, "m16n8k32", "s32.s8.s8.s32")

extern "C" __global__ void f16_f16(const unsigned* as, const unsigned* bs, const unsigned* cs, unsigned* out)
{
    WORDS(a, 4) WORDS(b, 2) WORDS(c, 2)
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
        : "+r"(c[0]), "+r"(c[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    OUT(2)
}

extern "C" __global__ void f16_f32_k8(const unsigned* as, const unsigned* bs, const float* cs, float* out)
{
    WORDS(a, 2) WORDS(b, 1)
    float c[4];
    for (int i = 0; i < 4; ++i) c[i] = cs[i * 32 + threadIdx.x];
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    OUT(4)
}

#define LDMATRIX(name, form, count, ...) \
    extern "C" __global__ void name(const uint4* a, const int* rows, unsigned* out) \
    { \
        __shared__ __align__(128) uint4 tile[256]; \
        for (int i = threadIdx.x; i < 256; i += 32) tile[i] = a[i]; \
        __syncwarp(); \
        unsigned c[count], from = (unsigned)__cvta_generic_to_shared(tile + rows[threadIdx.x]); \
        asm volatile("ldmatrix.sync.aligned.m8n8." form ".shared.b16 " __VA_ARGS__ "r"(from) : "memory"); \
        OUT(count) \
    }
#define ONE "{%0}, [%1];" : "=r"(c[0]) :
#define TWO "{%0,%1}, [%2];" : "=r"(c[0]), "=r"(c[1]) :
#define FOUR "{%0,%1,%2,%3}, [%4];" : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3]) :
LDMATRIX(ldmatrix_1, "x1", 1, ONE)
LDMATRIX(ldmatrix_2, "x2", 2, TWO)
LDMATRIX(ldmatrix_4, "x4", 4, FOUR)
LDMATRIX(ldmatrix_1_trans, "x1.trans", 1, ONE)
LDMATRIX(ldmatrix_2_trans, "x2.trans", 2, TWO)
LDMATRIX(ldmatrix_4_trans, "x4.trans", 4, FOUR)

extern "C" __global__ void stmatrix_4(const unsigned* cs, const int* rows, uint4* out)
{
    __shared__ __align__(128) uint4 tile[256];
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    WORDS(c, 4)
    unsigned to = (unsigned)__cvta_generic_to_shared(tile + rows[threadIdx.x]);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 :: "r"(to), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]) : "memory");
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) out[i] = tile[i];
}

#define COPY(name, form, bytes, type) \
    extern "C" __global__ void name(const type* a, type* out, int kept) \
    { \
        __shared__ __align__(16) type tile[64]; \
        int t = threadIdx.x; \
        unsigned to = (unsigned)__cvta_generic_to_shared(tile + t); \
        unsigned taken = t % 4 ? bytes : kept; \
        asm volatile("cp.async." form ".shared.global [%0], [%1], " #bytes ", %2;" \
                     :: "r"(to), "l"(a + t), "r"(taken)); \
        asm volatile("cp.async.commit_group;"); \
        asm volatile("cp.async.wait_group 0;" ::: "memory"); \
        __syncthreads(); \
        out[t] = tile[63 - t]; \
    }
COPY(copy_4, "ca", 4, int)
COPY(copy_8, "ca", 8, int2)
COPY(copy_16, "cg", 16, int4)

extern "C" __global__ void pipeline(const float4* a, float4* out, int n)
{
    // Two stages: one is on its way while the other is summed.
    __shared__ __align__(16) float4 stages[2][32];
    int t = threadIdx.x;
    float4 total = make_float4(0, 0, 0, 0);
    for (int k = 0; k <= n; ++k) {
        if (k < n) {
            unsigned to = (unsigned)__cvta_generic_to_shared(&stages[k % 2][t]);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(a + k * 32 + t));
        }
        asm volatile("cp.async.commit_group;");
        if (k == 0) continue;
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        float4 v = stages[(k + 1) % 2][31 - t];
        total.x += v.x; total.y += v.y; total.z += v.z; total.w += v.w;
        __syncthreads();
    }
    out[t] = total;
}

// c = a b in half with float sums: 64 x 64 tiles by four warps, slices of 32 along k copied two ahead.
#define M 64
#define N 64
#define K 32
#define STAGES 3
typedef unsigned short half_bits;

__device__ void copy_row(half_bits* to, const half_bits* from, bool inside)
{
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(place), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

extern "C" __global__ void product(const half_bits* a, const half_bits* b, float* c, int m, int n, int k)
{
    // Eight elements more a row: rows of a matrix then start in different banks.
    __shared__ __align__(128) half_bits as[STAGES][M][K + 8];
    __shared__ __align__(128) half_bits bs[STAGES][K][N + 8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int top = blockIdx.y * M, left = blockIdx.x * N, row0 = warp / 2 * 32, column0 = warp % 2 * 32;
    int slices = (k + K - 1) / K;
    float sums[2][4][4] = {};
    auto fetch = [&](int slice) {
        if (slice < slices)
            for (int i = t; i < M * K / 8; i += 128) {
                int ar = i / (K / 8), ac = i % (K / 8) * 8, br = i / (N / 8), bc = i % (N / 8) * 8, depth = slice * K;
                bool a_inside = top + ar < m && depth + ac < k, b_inside = depth + br < k && left + bc < n;
                copy_row(&as[slice % STAGES][ar][ac], a_inside ? a + (top + ar) * k + depth + ac : a, a_inside);
                copy_row(&bs[slice % STAGES][br][bc], b_inside ? b + (depth + br) * n + left + bc : b, b_inside);
            }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    fetch(0);
    fetch(1);
    for (int slice = 0; slice < slices; ++slice) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        fetch(slice + 2);
        for (int depth = 0; depth < K; depth += 16) {
            unsigned x[2][4], y[4][2];
            for (int i = 0; i < 2; ++i) {
                half_bits* from = &as[slice % STAGES][row0 + i * 16 + lane % 16][depth + lane / 16 * 8];
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                             : "r"((unsigned)__cvta_generic_to_shared(from)) : "memory");
            }
            for (int j = 0; j < 4; ++j) {
                half_bits* from = &bs[slice % STAGES][depth + lane % 16][column0 + j * 8];
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                             : "=r"(y[j][0]), "=r"(y[j][1])
                             : "r"((unsigned)__cvta_generic_to_shared(from)) : "memory");
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j) {
                    float* s = sums[i][j];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                                 : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j][0]), "r"(y[j][1]));
                }
        }
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
            for (int e = 0; e < 4; ++e) {
                int row = top + row0 + i * 16 + lane / 4 + e / 2 * 8;
                int column = left + column0 + j * 8 + lane % 4 * 2 + e % 2;
                if (row < m && column < n) c[row * n + column] = sums[i][j][e];
            }
}
"""
)


def mma(a, b, c, out, which):
    """`which` is a place in MMA."""
    module.get_function(MMA[which])((1,), (32,), (a, b, c, out))


def load_matrices(a, rows, out, count, transposed):
    name = f"ldmatrix_{count}" + ("_trans" if transposed else "")
    module.get_function(name)((1,), (32,), (a, rows, out))


def store_matrices(c, rows, out):
    module.get_function("stmatrix_4")((1,), (32,), (c, rows, out))


def copy(a, out, width, kept):
    module.get_function(f"copy_{width}")((1,), (64,), (a, out, np.int32(kept)))


def pipeline(a, out):
    module.get_function("pipeline")((1,), (32,), (a, out, np.int32(a.shape[0])))


def product(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    grid = ((n + 63) // 64, (m + 63) // 64)
    module.get_function("product")(grid, (128,), (a, b, c, np.int32(m), np.int32(n), np.int32(k)))
