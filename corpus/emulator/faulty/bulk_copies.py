"""Bulk and tensor copies that nobody waits for, that lack a fence, and that ask for what hardware refuses."""

import cupy

from warplab.ptx import tensor_map

module = cupy.RawModule(
    code=r"""
struct alignas(64) Map { unsigned long long words[16]; };
typedef unsigned long long u64;
#define ADDRESS(p) (unsigned)__cvta_generic_to_shared(p)
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define EXPECT(b, n) \
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define WAIT_PHASE(b, parity) \
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }" \
                 :: "r"(ADDRESS(b)), "r"(parity) : "memory")
#define LOAD(to, from, bytes, b) \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" \
                 :: "r"(ADDRESS(to)), "l"(from), "r"(bytes), "r"(ADDRESS(b)) : "memory")
#define TILE(to, map, x, y, b) \
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes " \
                 "[%0], [%1, {%2, %3}], [%4];" \
                 :: "r"(ADDRESS(to)), "l"(map), "r"(x), "r"(y), "r"(ADDRESS(b)) : "memory")
#define STORE(to, from, bytes) \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" \
                 :: "l"(to), "r"(ADDRESS(from)), "r"(bytes) : "memory")
#define COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define WAIT_READ(n) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory")
#define FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

extern "C" __global__ void load_not_awaited(const float* a, float* out)
{
    __shared__ __align__(16) float tile[64];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        EXPECT(&full, 256);
        LOAD(tile, a, 256, &full);
    }
    __syncthreads();
    out[t] = tile[63 - t];  // <- finding: race
    WAIT_PHASE(&full, 0);
}

extern "C" __global__ void one_warp_waits(const float* a, float* out)
{
    __shared__ __align__(16) float tile[64];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        EXPECT(&full, 256);
        LOAD(tile, a, 256, &full);
    }
    __syncthreads();
    if (t < 32) WAIT_PHASE(&full, 0);
    out[t] = tile[63 - t];  // <- finding: race
}

extern "C" __global__ void too_few_bytes(const float* a, float* out)
{
    __shared__ __align__(16) float tile[64];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        EXPECT(&full, 64 * 8);
        LOAD(tile, a, 256, &full);
    }
    __syncthreads();
    WAIT_PHASE(&full, 0);  // <- finding: deadlock
    out[t] = tile[63 - t];
}

extern "C" __global__ void store_without_fence(const float* a, float* out)
{
    __shared__ __align__(16) float tile[64];
    int t = threadIdx.x;
    tile[t] = 2 * a[t];
    __syncthreads();
    if (t == 0) {
        STORE(out, tile, 256);  // <- finding: race
        COMMIT();
        WAIT_READ(0);
    }
}

extern "C" __global__ void source_used_again(const float* a, float* out)
{
    __shared__ __align__(16) float tile[64];
    int t = threadIdx.x;
    tile[t] = 2 * a[t];
    FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(out, tile, 256);
        COMMIT();
    }
    __syncthreads();
    tile[t] = 0;  // <- finding: race
    if (t == 0) WAIT_READ(0);
}

extern "C" __global__ void block_ends_first(const float* a, float* out)
{
    __shared__ __align__(16) float tile[64];
    int t = threadIdx.x;
    tile[t] = 2 * a[t];
    FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(out, tile, 256);  // <- finding: race
        COMMIT();
    }
}

extern "C" __global__ void odd_bytes(const float* a, float* out)
{
    __shared__ __align__(16) float tile[64];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        EXPECT(&full, 200);
        LOAD(tile, a, 200, &full);  // <- finding: misaligned address
    }
    __syncthreads();
    WAIT_PHASE(&full, 0);
    out[t] = tile[t % 2];  // <- finding: uninitialised read
}

extern "C" __global__ void odd_column(const __grid_constant__ Map map, float* out)
{
    __shared__ __align__(128) float tile[64];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        EXPECT(&full, 128);
        TILE(tile, &map, 3, 0, &full);  // <- finding: misaligned address
    }
    __syncthreads();
    WAIT_PHASE(&full, 0);
    out[t] = t;
}
"""
)


def _run(name, a, out):
    module.get_function(name)((1,), (64,), (a, out))


def load_not_awaited(a, out):
    _run("load_not_awaited", a, out)


def one_warp_waits(a, out):
    _run("one_warp_waits", a, out)


def too_few_bytes(a, out):
    _run("too_few_bytes", a, out)


def store_without_fence(a, out):
    _run("store_without_fence", a, out)


def source_used_again(a, out):
    _run("source_used_again", a, out)


def block_ends_first(a, out):
    _run("block_ends_first", a, out)


def odd_bytes(a, out):
    _run("odd_bytes", a, out)


def odd_column(a, out):
    described = tensor_map(a.reshape(2, 32), (2, 16), swizzle=64)
    module.get_function("odd_column")((1,), (64,), (described, out))
