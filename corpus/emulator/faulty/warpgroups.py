"""Products of a warpgroup without the waits, fences and barriers that they need."""

import cupy

module = cupy.RawModule(
    code=r"""
#define ADDRESS(p) (unsigned)__cvta_generic_to_shared(p)
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
#define PROXY() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
// d += a b, 64 x 8 x 16 without swizzle: a in the first 2048 bytes of the tile, b behind it.
#define MULTIPLY(d, tile) \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "l"(ADDRESS(tile) >> 4 | 64ull << 16 | 8ull << 32), \
                   "l"((ADDRESS(tile) >> 4) + 128 | 8ull << 16 | 8ull << 32))
#define FILL(tile) \
    __shared__ __align__(128) unsigned tile[640]; \
    for (int i = threadIdx.x; i < 640; i += blockDim.x) tile[i] = a[i]

extern "C" __global__ void never_awaited(const unsigned* a, float* out)
{
    FILL(tile);
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);
    COMMIT();
    out[threadIdx.x] = d[0];  // <- finding: race
}

extern "C" __global__ void not_committed(const unsigned* a, float* out)
{
    FILL(tile);
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);
    WAIT(0);  // waits for committed groups only
    out[threadIdx.x] = d[0];  // <- finding: race
    COMMIT();
}

extern "C" __global__ void older_group_awaited(const unsigned* a, float* out)
{
    FILL(tile);
    PROXY();
    __syncthreads();
    float d[4] = {}, e[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);
    COMMIT();
    MULTIPLY(e, tile);
    COMMIT();
    WAIT(1);
    float sum = d[0] + e[0];  // <- finding: race
    WAIT(0);
    out[threadIdx.x] = sum;
}

extern "C" __global__ void no_fence_at_all(const unsigned* a, float* out)
{
    FILL(tile);
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    MULTIPLY(d, tile);  // <- finding: race
    COMMIT();
    WAIT(0);
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void sums_scaled_without_fence(const unsigned* a, float* out)
{
    FILL(tile);
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    for (int k = 0; k < 3; ++k) {
        MULTIPLY(d, tile);  // <- finding: race
        COMMIT();
        WAIT(0);
        for (int i = 0; i < 4; ++i) d[i] *= 0.5f;
    }
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void overwritten_before_the_wait(const unsigned* a, float* out)
{
    FILL(tile);
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);  // <- finding: race
    COMMIT();
    __syncthreads();
    tile[threadIdx.x] = ~a[threadIdx.x];
    __syncthreads();
    WAIT(0);
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void handed_back_before_the_wait(const unsigned* a, float* out)
{
    FILL(tile);
    __shared__ unsigned long long free;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(ADDRESS(&free)) : "memory");
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);  // <- finding: race
    COMMIT();
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(ADDRESS(&free)) : "memory");
    if (threadIdx.x >= 32) {
        int done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(ADDRESS(&free)) : "memory");
        tile[threadIdx.x] = ~a[threadIdx.x];
    }
    WAIT(0);
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void no_barrier_before_the_product(const unsigned* a, float* out)
{
    FILL(tile);  // <- finding: race
    PROXY();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);  // <- finding: race
    COMMIT();
    WAIT(0);
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void no_proxy_fence(const unsigned* a, float* out)
{
    FILL(tile);
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);  // <- finding: race
    COMMIT();
    WAIT(0);
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void copies_not_awaited(const unsigned* a, float* out)
{
    __shared__ __align__(128) unsigned tile[640];
    for (int i = threadIdx.x; i < 640; i += 128)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(ADDRESS(tile + i)), "l"(a + i) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);  // <- finding: race
    COMMIT();
    WAIT(0);
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void half_a_tile_written(const unsigned* a, float* out)
{
    __shared__ __align__(128) unsigned tile[640];
    for (int i = threadIdx.x; i < 512; i += 128) tile[i] = a[i];
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);  // <- finding: uninitialised read
    COMMIT();
    WAIT(0);
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void three_warps_only(const unsigned* a, float* out)
{
    FILL(tile);
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    if (threadIdx.x / 32 != 1) {
        FENCE();
        MULTIPLY(d, tile);  // <- finding: divergent barrier
        COMMIT();
        WAIT(0);
    }
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void block_of_two_warps(const unsigned* a, float* out)
{
    FILL(tile);
    PROXY();
    __syncthreads();
    float d[4] = {1, 2, 3, 4};
    FENCE();
    MULTIPLY(d, tile);  // <- finding: divergent barrier
    COMMIT();
    WAIT(0);
    out[threadIdx.x] = d[0];
}
"""
)


def _launch(name, a, out, threads=128):
    module.get_function(name)((1,), (threads,), (a, out))


def never_awaited(a, out):
    _launch("never_awaited", a, out)


def not_committed(a, out):
    _launch("not_committed", a, out)


def older_group_awaited(a, out):
    _launch("older_group_awaited", a, out)


def no_fence_at_all(a, out):
    _launch("no_fence_at_all", a, out)


def sums_scaled_without_fence(a, out):
    _launch("sums_scaled_without_fence", a, out)


def overwritten_before_the_wait(a, out):
    _launch("overwritten_before_the_wait", a, out)


def handed_back_before_the_wait(a, out):
    _launch("handed_back_before_the_wait", a, out)


def no_barrier_before_the_product(a, out):
    _launch("no_barrier_before_the_product", a, out)


def no_proxy_fence(a, out):
    _launch("no_proxy_fence", a, out)


def copies_not_awaited(a, out):
    _launch("copies_not_awaited", a, out)


def half_a_tile_written(a, out):
    _launch("half_a_tile_written", a, out)


def three_warps_only(a, out):
    _launch("three_warps_only", a, out)


def block_of_two_warps(a, out):
    _launch("block_of_two_warps", a, out, 64)
