"""Hopper's asynchronous units at work: matrix products by wgmma from tiles that the tensor memory accelerator brings.

C[m, n] is the sum over k of A[m, k] B[n, k]: both operands have K innermost, in tiles of 128 bytes of K with 128-byte
swizzling. A block makes a tile of 64 by 64.
"""

import cupy

from warplab.ptx import tensor_map

module = cupy.RawModule(
    code=r"""
struct alignas(64) Map { unsigned long long words[16]; };
typedef unsigned long long u64;
#define STAGES 3

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(u64* b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(count) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void expect(u64* b, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(b)), "r"(bytes) : "memory");
}
__device__ void arrive(u64* b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(b)) : "memory");
}
__device__ void wait(u64* b, unsigned parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(shared_address(b)), "r"(parity) : "memory");
}
__device__ void load(const Map* map, void* to, u64* b, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(b)) : "memory");
}
__device__ void load_to_all(const Map* map, void* to, u64* b, int x, int y, short blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(b)), "h"(blocks) : "memory");
}
__device__ void store(const Map* map, const void* from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(map), "r"(x), "r"(y), "r"(shared_address(from)) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ void stored() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Rows of 128 bytes in groups of eight, 128-byte swizzle.
__device__ u64 descriptor(const void* tile)
{
    return (shared_address(tile) & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
#define WGMMA_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
#define D8(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
                 "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define LIST "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
             "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define MULTIPLY(name, form, tail) \
    __device__ void name(float (&d)[32], u64 a, u64 b, int add) \
    { \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n" \
                     "wgmma.mma_async.sync.aligned." form " " LIST ", %32, %33, p, 1, 1" tail "; }" \
                     : D8(d, 0), D8(d, 8), D8(d, 16), D8(d, 24) : "l"(a), "l"(b), "r"(add)); \
    }
MULTIPLY(multiply_half, "m64n64k16.f32.f16.f16", ", 0, 0")
MULTIPLY(multiply_eight, "m64n64k32.f32.e4m3.e4m3", "")

// A step of 128 bytes of K: four products of 32 bytes each.
#define STEP(multiply, d, a, b, first) \
    for (int k = 0; k < 4; ++k) multiply(d, descriptor(a) + 2 * k, descriptor(b) + 2 * k, !(first) || k > 0)

__device__ void write(float* c, const float (&d)[32], int row, int column, int n)
{
    int t = threadIdx.x % 128, r = row + t / 32 * 16 + t % 32 / 4, q = column + t % 4 * 2;
    for (int j = 0; j < 8; ++j)
        for (int h = 0; h < 2; ++h)
            for (int e = 0; e < 2; ++e) c[(r + 8 * h) * n + q + 8 * j + e] = d[4 * j + 2 * h + e];
}

extern "C" __global__ void one_stage(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n,
                                     int k)
{
    __shared__ __align__(1024) char as[8192], bs[8192];
    __shared__ u64 full;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float d[32];
    if (threadIdx.x == 0) { init(&full, 1); fence_init(); }
    __syncthreads();
    for (int step = 0; step < k / 64; ++step) {
        if (threadIdx.x == 0) {
            expect(&full, 16384);
            load(&a, as, &full, step * 64, row);
            load(&b, bs, &full, step * 64, column);
        }
        wait(&full, step & 1);
        WGMMA_FENCE();
        STEP(multiply_half, d, as, bs, step == 0);
        WGMMA_COMMIT();
        WGMMA_WAIT(0);
        __syncthreads();
    }
    write(c, d, row, column, n);
}

// Warpgroup 0 loads, warpgroup 1 multiplies; they hand stages over by mbarriers and registers by setmaxnreg.
extern "C" __global__ void __launch_bounds__(256)
specialised(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k)
{
    extern __shared__ __align__(1024) char stages[];
    __shared__ u64 full[STAGES], empty[STAGES];
    int row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 64;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) { init(full + s, 1); init(empty + s, 128); }
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int step = 0; step < steps; ++step) {
                int s = step % STAGES;
                if (step >= STAGES) wait(empty + s, step / STAGES - 1 & 1);
                expect(full + s, 16384);
                load(&a, stages + s * 16384, full + s, step * 64, row);
                load(&b, stages + s * 16384 + 8192, full + s, step * 64, column);
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[32];
        for (int step = 0; step < steps; ++step) {
            int s = step % STAGES;
            wait(full + s, step / STAGES & 1);
            WGMMA_FENCE();
            STEP(multiply_half, d, stages + s * 16384, stages + s * 16384 + 8192, step == 0);
            WGMMA_COMMIT();
            if (step) {
                WGMMA_WAIT(1);  // the product before this one has read its stage
                arrive(empty + (step - 1) % STAGES);
            }
        }
        WGMMA_WAIT(0);
        write(c, d, row, column, n);
    }
}

// Two blocks one below the other share the tile of B: each loads half of it for both.
extern "C" __global__ void __cluster_dims__(1, 2, 1)
multicast(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k)
{
    __shared__ __align__(1024) char as[8192], bs[8192];
    __shared__ u64 full;
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float d[32];
    if (threadIdx.x == 0) { init(&full, 1); fence_init(); }
    for (int step = 0; step < k / 64; ++step) {
        if (threadIdx.x == 0) expect(&full, 16384);
        // Both expect their bytes and have read their tiles before anybody writes into them.
        asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
        if (threadIdx.x == 0) {
            load(&a, as, &full, step * 64, row);
            load_to_all(&b, bs + rank * 4096, &full, step * 64, column + rank * 32, 3);
        }
        wait(&full, step & 1);
        WGMMA_FENCE();
        STEP(multiply_half, d, as, bs, step == 0);
        WGMMA_COMMIT();
        WGMMA_WAIT(0);
    }
    write(c, d, row, column, n);
    asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
}

// FP8: the tensor core's short accumulator is added to float registers after every 128 of K, times the tiles' scales.
extern "C" __global__ void two_levels(const __grid_constant__ Map a, const __grid_constant__ Map b, const float* scales,
                                      float* c, int n, int k)
{
    __shared__ __align__(1024) char as[2][8192], bs[2][8192];
    __shared__ u64 full[2];
    int row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 128;
    float d[32], total[32] = {};
    if (threadIdx.x == 0) { init(full, 1); init(full + 1, 1); fence_init(); }
    __syncthreads();
    auto fetch = [&](int step) {
        expect(full + step % 2, 16384);
        load(&a, as[step % 2], full + step % 2, step * 128, row);
        load(&b, bs[step % 2], full + step % 2, step * 128, column);
    };
    if (threadIdx.x == 0) fetch(0);
    for (int step = 0; step < steps; ++step) {
        if (threadIdx.x == 0 && step + 1 < steps) fetch(step + 1);
        wait(full + step % 2, step / 2 & 1);
        WGMMA_FENCE();
        STEP(multiply_eight, d, as[step % 2], bs[step % 2], true);
        WGMMA_COMMIT();
        WGMMA_WAIT(0);
        float scale = scales[step];
        for (int i = 0; i < 32; ++i) total[i] += d[i] * scale;
        __syncthreads();
    }
    write(c, total, row, column, n);
}

// The result leaves through shared memory and a tensor copy.
extern "C" __global__ void stored_tile(const __grid_constant__ Map a, const __grid_constant__ Map b,
                                       const __grid_constant__ Map c)
{
    __shared__ __align__(1024) char as[8192], bs[8192];
    __shared__ __align__(1024) float tile[2][64][32];
    __shared__ u64 full;
    float d[32];
    int t = threadIdx.x;
    if (t == 0) {
        init(&full, 1);
        fence_init();
        expect(&full, 16384);
        load(&a, as, &full, 0, blockIdx.y * 64);
        load(&b, bs, &full, 0, blockIdx.x * 64);
    }
    __syncthreads();
    wait(&full, 0);
    WGMMA_FENCE();
    STEP(multiply_half, d, as, bs, true);
    WGMMA_COMMIT();
    WGMMA_WAIT(0);
    int r = t / 32 * 16 + t % 32 / 4;
    for (int j = 0; j < 8; ++j)
        for (int h = 0; h < 2; ++h) {
            int row = r + 8 * h, column = t % 4 * 2 + 8 * j;
            // 128-byte swizzle: the 16-byte unit of a row goes to its number xor the row's.
            int unit = column % 32 / 4 ^ row % 8;
            float2 pair = make_float2(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]);
            *(float2*)&tile[column / 32][row][unit * 4 + column % 4] = pair;
        }
    fence_async();
    __syncthreads();
    if (t == 0) {
        store(&c, tile[0], blockIdx.x * 64, blockIdx.y * 64);
        store(&c, tile[1], blockIdx.x * 64 + 32, blockIdx.y * 64);
        stored();
    }
}

extern "C" __global__ void transposed(const __grid_constant__ Map from, const __grid_constant__ Map to)
{
    __shared__ __align__(1024) float in[32][32], out[32][32];
    __shared__ u64 full;
    int x = threadIdx.x % 32, y = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
        expect(&full, 4096);
        load(&from, in, &full, blockIdx.x * 32, blockIdx.y * 32);
    }
    __syncthreads();
    wait(&full, 0);
    for (int row = y; row < 32; row += 4)
        out[x][(row / 4 ^ x % 8) * 4 + row % 4] = in[row][(x / 4 ^ row % 8) * 4 + x % 4];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        store(&to, out, blockIdx.y * 32, blockIdx.x * 32);
        stored();
    }
}

extern "C" __global__ void softmax(const float* a, float* out, int n)
{
    __shared__ __align__(128) float line[512];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) {
        init(&full, 1);
        fence_init();
        expect(&full, 4 * n);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(shared_address(line)), "l"(a + blockIdx.x * n), "r"(4 * n), "r"(shared_address(&full))
                     : "memory");
    }
    __syncthreads();
    wait(&full, 0);
    float most = -3.4e38f, sum = 0;
    for (int k = t; k < n; k += 32) most = fmaxf(most, line[k]);
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    for (int k = t; k < n; k += 32) sum += line[k] = expf(line[k] - most);
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    for (int k = t; k < n; k += 32) line[k] /= sum;
    fence_async();
    __syncwarp();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     :: "l"(out + blockIdx.x * n), "r"(shared_address(line)), "r"(4 * n) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        stored();
    }
}
""",
    options=("-std=c++17",),
)


def _product(name, a, b, c, threads=128, shared=0):
    m, n = c.shape
    kernel = module.get_function(name)
    if shared:
        kernel.max_dynamic_shared_size_bytes = shared
    arguments = tensor_map(a, (64, 64)), tensor_map(b, (64, 64)), c, cupy.int32(n), cupy.int32(a.shape[1])
    kernel((n // 64, m // 64), (threads,), arguments, shared_mem=shared)


def one_stage(a, b, c):
    _product("one_stage", a, b, c)


def specialised(a, b, c):
    _product("specialised", a, b, c, 256, 3 * 16384)


def multicast(a, b, c):
    m, n = c.shape
    arguments = tensor_map(a, (64, 64)), tensor_map(b, (32, 64)), c, cupy.int32(n), cupy.int32(a.shape[1])
    module.get_function("multicast")((n // 64, m // 64), (128,), arguments)


def two_levels(a, b, scales, c):
    m, n = c.shape
    maps = tensor_map(a, (64, 128)), tensor_map(b, (64, 128))
    arguments = (*maps, scales, c, cupy.int32(n), cupy.int32(a.shape[1]))
    module.get_function("two_levels")((n // 64, m // 64), (128,), arguments)


def stored_tile(a, b, c):
    m, n = c.shape
    arguments = tensor_map(a, (64, 64)), tensor_map(b, (64, 64)), tensor_map(c, (64, 32))
    module.get_function("stored_tile")((n // 64, m // 64), (128,), arguments)


def transposed(a, out):
    m, n = a.shape
    arguments = tensor_map(a, (32, 32)), tensor_map(out, (32, 32))
    module.get_function("transposed")(((n + 31) // 32, (m + 31) // 32), (128,), arguments)


def softmax(a, out):
    m, n = a.shape
    module.get_function("softmax")((m,), (32,), (a, out, cupy.int32(n)))
