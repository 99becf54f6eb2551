// The tensor cores: products of tiles that stay in registers (mma.sync) or in shared memory (wgmma), over and over.
// WGMMA(type), written by benchmarks/micro/tensor.py, is one wgmma instruction of shape m64n256 with 128 accumulators.
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ u32 hash(u32 x) {
    x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; x ^= x >> 16;
    return x;
}

// Sixteen rows, eight columns, 32 bytes of K: one mma.sync instruction of each type. (fp8 is not among them: Hopper has
// no such instruction, and ptxas writes conversions to float16, HMMA and FADD for it.)
#define MMA(NAME, SHAPE_AND_TYPES, NUMBER, REGISTER)                                                            \
    struct NAME {                                                                                               \
        typedef NUMBER T;                                                                                       \
        static __device__ void step(T (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {                          \
            asm volatile("mma.sync.aligned." SHAPE_AND_TYPES                                                    \
                         " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                               \
                         : "+" REGISTER(d[0]), "+" REGISTER(d[1]), "+" REGISTER(d[2]), "+" REGISTER(d[3])       \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                   \
        }                                                                                                       \
    }
MMA(MmaF16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f");
MMA(MmaBF16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f");
MMA(MmaTF32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f");
MMA(MmaS8, "m16n8k32.row.col.s32.s8.s8.s32", int, "r");

// Four independent sums a warp. `keep` and `set` make numbers of the type out of random bits; 0 and 0 make zeros.
template <class Op>
__global__ void mma_sync(u32 keep, u32 set, int steps, u64* ticks, u32* sink) {
    u32 a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = (hash(threadIdx.x * 7 + i) & keep) | set;
    for (int i = 0; i < 2; ++i) b[i] = (hash(threadIdx.x * 11 + i) & keep) | set;
    typename Op::T d[4][4] = {};
    __syncthreads();
    u64 begin = clock64();
    #pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int n = 0; n < 32; ++n) Op::step(d[n % 4], a, b);
    }
    u64 end = clock64();
    if (threadIdx.x == 0) { ticks[2 * blockIdx.x] = begin; ticks[2 * blockIdx.x + 1] = end; }
    typename Op::T sum = 0;
    for (int t = 0; t < 4; ++t) for (int i = 0; i < 4; ++i) sum += d[t][i];
    if (sum == typename Op::T(123456789)) *sink = u32(sum);
}

// The float64 shape that Hopper added: 16 x 8 with 16 of K, 8 and 4 and 4 numbers a lane.
extern "C" __global__ void mma_f64(u32 keep, u32 set, int steps, u64* ticks, u32* sink) {
    double a[8], b[4], d[2][4] = {};
    for (int i = 0; i < 8; ++i) a[i] = double((hash(threadIdx.x * 7 + i) & keep) | set) * 1e-9;
    for (int i = 0; i < 4; ++i) b[i] = double((hash(threadIdx.x * 11 + i) & keep) | set) * 1e-9;
    __syncthreads();
    u64 begin = clock64();
    #pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int n = 0; n < 32; ++n) {
            double* t = d[n % 2];
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
                         "{%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
                         : "+d"(t[0]), "+d"(t[1]), "+d"(t[2]), "+d"(t[3])
                         : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
                           "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
        }
    }
    u64 end = clock64();
    if (threadIdx.x == 0) { ticks[2 * blockIdx.x] = begin; ticks[2 * blockIdx.x + 1] = end; }
    double sum = d[0][0] + d[0][1] + d[0][2] + d[0][3] + d[1][0] + d[1][1] + d[1][2] + d[1][3];
    if (sum == 12345.678) *sink = u32(sum);
}

// Three warpgroups on the same two tiles in shared memory, 64 and 256 rows of 128 bytes of K, four instructions each.
#define WGMMA_KERNEL(TYPE, NUMBER)                                                                              \
    extern "C" __global__ void __launch_bounds__(384) wgmma_##TYPE(u32 keep, u32 set, int steps, u64* ticks, u32* sink) { \
        __shared__ alignas(1024) u32 tile[(64 + 256) * 32];                                                     \
        for (u32 i = threadIdx.x; i < (64 + 256) * 32; i += 384) tile[i] = (hash(i + blockIdx.x * 65537u) & keep) | set; \
        asm volatile("fence.proxy.async.shared::cta;");                                                         \
        __syncthreads();                                                                                        \
        u32 address = u32(__cvta_generic_to_shared(tile));                                                      \
        /* 128-byte swizzle, 1024 bytes between groups of eight rows (PTX ISA, wgmma matrix descriptor) */      \
        u64 a = u64((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);                    \
        u64 b = u64(((address + 64 * 128) & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);       \
        NUMBER d[128];                                                                                          \
        _Pragma("unroll") for (int i = 0; i < 128; ++i) d[i] = 0;                                               \
        u64 begin = clock64();                                                                                  \
        _Pragma("unroll 1") for (int s = 0; s < steps; ++s) {                                                   \
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                             \
            _Pragma("unroll") for (int k = 0; k < 4; ++k) WGMMA_##TYPE(d, a + 2 * k, b + 2 * k);                \
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");                                      \
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");                                      \
        }                                                                                                       \
        u64 end = clock64();                                                                                    \
        if (threadIdx.x == 0) { ticks[2 * blockIdx.x] = begin; ticks[2 * blockIdx.x + 1] = end; }               \
        NUMBER sum = 0;                                                                                         \
        _Pragma("unroll") for (int i = 0; i < 128; ++i) sum += d[i];                                            \
        if (sum == NUMBER(123456789)) *sink = u32(sum);                                                         \
    }
WGMMA_KERNEL(f16, float)
WGMMA_KERNEL(bf16, float)
WGMMA_KERNEL(tf32, float)
WGMMA_KERNEL(e4m3, float)
WGMMA_KERNEL(s8, int)
