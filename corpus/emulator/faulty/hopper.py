"""What goes wrong with Hopper's asynchronous units: products, clusters and bulk copies used too early or for ever."""

import cupy

module = cupy.RawModule(
    code=r"""
#define ADDRESS(p) (unsigned)__cvta_generic_to_shared(p)
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
#define TILE(p) ((ADDRESS(p) & 0x3FFFF) >> 4 | 8ull << 16 | 16ull << 32)
#define MULTIPLY(d, a, b) \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(TILE(a)), "l"(TILE(b)) : "memory")
#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define PEER(to, p, rank) asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(ADDRESS(p)), "r"(rank))
#define READ(d, at) asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(d) : "r"(at) : "memory")
#define INIT(b, n) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define ARRIVE(b) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(ADDRESS(b)) : "memory")
#define EXPECT(b, n) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" \
                                  :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define AWAIT(b, parity) \
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }" \
                 :: "r"(ADDRESS(b)), "r"(parity) : "memory")
#define LOAD(to, from, bytes, b) \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" \
                 :: "r"(ADDRESS(to)), "l"(from), "r"(bytes), "r"(ADDRESS(b)) : "memory")
#define STORE(to, from, bytes) \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" \
                 :: "l"(to), "r"(ADDRESS(from)), "r"(bytes) : "memory")
#define GROUP() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define STORED() asm volatile("cp.async.bulk.wait_group 0;" ::: "memory")
#define ASYNC_FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define OPERANDS() \
    __shared__ __align__(128) unsigned short as[1024], bs[128]; \
    int t = threadIdx.x; \
    float d[4] = {0, 0, 0, 0}; \
    for (int i = t; i < 1024; i += blockDim.x) as[i] = i; \
    for (int i = t; i < 128; i += blockDim.x) bs[i] = i; \
    ASYNC_FENCE(); \
    __syncthreads()
#define BARRIER() \
    __shared__ __align__(128) float tile[128]; \
    __shared__ unsigned long long full; \
    int t = threadIdx.x; \
    if (t == 0) INIT(&full, 1); \
    ASYNC_FENCE(); \
    __syncthreads()

extern "C" __global__ void sum_used_early(const float* a, float* out)
{
    OPERANDS();
    FENCE();
    MULTIPLY(d, as, bs);
    COMMIT();
    out[t] = d[0] + d[3];  // <- finding: race
    WAIT(0);
}

extern "C" __global__ void never_committed(const float* a, float* out)
{
    OPERANDS();
    FENCE();
    MULTIPLY(d, as, bs);
    WAIT(0);
    out[t] = d[0] + d[3];  // <- finding: race
    COMMIT();
    WAIT(0);
}

extern "C" __global__ void sum_changed_unfenced(const float* a, float* out)
{
    OPERANDS();
    FENCE();
    for (int i = 0; i < 4; ++i) d[i] = a[t] + i;
    MULTIPLY(d, as, bs);  // <- finding: race
    COMMIT();
    WAIT(0);
    out[t] = d[0] + d[3];
}

extern "C" __global__ void operand_refilled(const float* a, float* out)
{
    OPERANDS();
    FENCE();
    MULTIPLY(d, as, bs);  // <- finding: race
    COMMIT();
    as[t] = (unsigned short)a[t];  // <- finding: race
    WAIT(0);
    out[t] = d[0] + d[3];
}

extern "C" __global__ void three_warps(const float* a, float* out)
{
    OPERANDS();
    if (t < 96) {
        FENCE();
        MULTIPLY(d, as, bs);  // <- finding: divergent barrier
        COMMIT();
        WAIT(0);
    }
    out[t] = d[0] + d[3];
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void peer_not_started(const float* a, float* out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    unsigned at;
    float v;
    tile[t] = a[blockIdx.x * 64 + t];  // <- finding: race
    __syncthreads();
    PEER(at, tile + t, blockIdx.x % 2 ^ 1);
    READ(v, at);  // <- finding: race
    out[blockIdx.x * 64 + t] = v;
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void peer_ended(const float* a, float* out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    unsigned at;
    float v;
    tile[t] = a[blockIdx.x * 64 + t];
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
    PEER(at, tile + t, blockIdx.x % 2 ^ 1);
    READ(v, at);  // <- finding: race
    out[blockIdx.x * 64 + t] = v;
    // nothing keeps the block here until the other one has read
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void arrived_only(const float* a, float* out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    unsigned at;
    float v;
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
    tile[t] = a[blockIdx.x * 64 + t];  // <- finding: race
    __syncthreads();
    CLUSTER_ARRIVE();
    PEER(at, tile + t, blockIdx.x % 2 ^ 1);
    READ(v, at);  // <- finding: race
    CLUSTER_WAIT();
    out[blockIdx.x * 64 + t] = v;
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void beyond_the_peer(const float* a, float* out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    unsigned at;
    float v;
    tile[t] = a[blockIdx.x * 64 + t];
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
    PEER(at, tile + t, blockIdx.x % 2 ^ 1);
    READ(v, at + 4);  // <- finding: out of bounds
    out[blockIdx.x * 64 + t] = v;
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
}

extern "C" __global__ void load_not_awaited(const float* a, float* out)
{
    BARRIER();
    if (t == 0) {
        EXPECT(&full, 512);
        LOAD(tile, a, 512, &full);
    }
    __syncthreads();
    out[t] = tile[t];  // <- finding: race
    AWAIT(&full, 0);
}

extern "C" __global__ void wrong_parity(const float* a, float* out)
{
    BARRIER();
    if (t == 0) {
        EXPECT(&full, 512);
        LOAD(tile, a, 512, &full);  // <- finding: race
    }
    AWAIT(&full, 1);  // the phase before the first one has ended
    out[t] = tile[t];  // <- finding: race
    AWAIT(&full, 0);
}

extern "C" __global__ void bytes_not_expected(const float* a, float* out)
{
    BARRIER();
    if (t == 0) {
        ARRIVE(&full);
        LOAD(tile, a, 512, &full);  // <- finding: race
    }
    AWAIT(&full, 0);
    out[t] = tile[t];  // <- finding: race
}

extern "C" __global__ void too_many_expected(const float* a, float* out)
{
    BARRIER();
    if (t == 0) {
        EXPECT(&full, 1024);
        LOAD(tile, a, 512, &full);
    }
    AWAIT(&full, 0);  // <- finding: deadlock
    out[t] = tile[t];
}

extern "C" __global__ void stage_refilled(const float* a, float* out)
{
    BARRIER();
    float total = 0;
    for (int k = 0; k < 2; ++k) {
        if (t == 0) {
            EXPECT(&full, 512);
            LOAD(tile, a, 512, &full);  // <- finding: race
        }
        AWAIT(&full, k);
        total += tile[127 - t];  // <- finding: race
        // the barrier before the next load is missing
    }
    out[t] = total;
}

extern "C" __global__ void source_overwritten(const float* a, float* out)
{
    BARRIER();
    tile[t] = a[t];
    ASYNC_FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(out, tile, 512);
        GROUP();
        tile[0] = 7;  // <- finding: race
        STORED();
    }
}

extern "C" __global__ void ended_before_the_copy(const float* a, float* out)
{
    BARRIER();
    tile[t] = a[t];
    ASYNC_FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(out, tile, 512);  // <- finding: race
        GROUP();
    }
}
""",
    options=("-std=c++17",),
)


def sum_used_early(a, out):
    module.get_function("sum_used_early")((1,), (128,), (a, out))


def never_committed(a, out):
    module.get_function("never_committed")((1,), (128,), (a, out))


def sum_changed_unfenced(a, out):
    module.get_function("sum_changed_unfenced")((1,), (128,), (a, out))


def operand_refilled(a, out):
    module.get_function("operand_refilled")((1,), (128,), (a, out))


def three_warps(a, out):
    module.get_function("three_warps")((1,), (128,), (a, out))


def peer_not_started(a, out):
    module.get_function("peer_not_started")((2,), (64,), (a, out))


def peer_ended(a, out):
    module.get_function("peer_ended")((2,), (64,), (a, out))


def arrived_only(a, out):
    module.get_function("arrived_only")((2,), (64,), (a, out))


def beyond_the_peer(a, out):
    module.get_function("beyond_the_peer")((2,), (64,), (a, out))


def load_not_awaited(a, out):
    module.get_function("load_not_awaited")((1,), (128,), (a, out))


def wrong_parity(a, out):
    module.get_function("wrong_parity")((1,), (128,), (a, out))


def bytes_not_expected(a, out):
    module.get_function("bytes_not_expected")((1,), (128,), (a, out))


def too_many_expected(a, out):
    module.get_function("too_many_expected")((1,), (128,), (a, out))


def stage_refilled(a, out):
    module.get_function("stage_refilled")((1,), (128,), (a, out))


def source_overwritten(a, out):
    module.get_function("source_overwritten")((1,), (128,), (a, out))


def ended_before_the_copy(a, out):
    module.get_function("ended_before_the_copy")((1,), (128,), (a, out))
