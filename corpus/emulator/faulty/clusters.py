"""Clusters whose blocks do not wait for each other where they have to; two blocks of two warps."""

import cupy

module = cupy.RawModule(
    code=r"""
#define ADDRESS(p) (unsigned)__cvta_generic_to_shared(p)
#define ARRIVE() asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define SYNC() ARRIVE(); WAIT()
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define EXPECT(b, n) \
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define WAIT_PHASE(b, parity) \
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }" \
                 :: "r"(ADDRESS(b)), "r"(parity) : "memory")
#define SEND(to, value, b) \
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" \
                 :: "r"(to), "f"(value), "r"(b) : "memory")
#define RANK(r) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r))
#define MAP(to, p, rank) \
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(ADDRESS(p)), "r"(rank))
#define LOAD(x, from) asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory")
#define STORE(to, x) asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(to), "f"(x) : "memory")
#define START \
    __shared__ float tile[64]; \
    unsigned there, rank; \
    float x; \
    int t = threadIdx.x, i = blockIdx.x * 64 + t; \
    RANK(rank); \
    MAP(there, tile + 63 - t, 1 - rank);

extern "C" __cluster_dims__(2, 1, 1) __global__ void block_barrier_only(const float* a, float* out)
{
    START
    SYNC();
    tile[t] = a[i];  // <- finding: race
    __syncthreads();
    LOAD(x, there);  // <- finding: race
    SYNC();
    out[i] = x;
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void read_after_arrival(const float* a, float* out)
{
    START
    tile[t] = a[i];  // <- finding: race
    ARRIVE();
    LOAD(x, there);  // <- finding: race
    WAIT();
    out[i] = x;
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void relaxed_arrival(const float* a, float* out)
{
    START
    tile[t] = a[i];
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    WAIT();
    LOAD(x, there);  // <- finding: race
    SYNC();
    out[i] = x;
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void ends_too_early(const float* a, float* out)
{
    START
    tile[t] = a[i];
    SYNC();
    LOAD(x, there);  // <- finding: race
    out[i] = x;
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void starts_too_late(const float* a, float* out)
{
    START
    STORE(there, a[i]);  // <- finding: race
    SYNC();
    out[i] = tile[t];
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void overwritten(const float* a, float* out)
{
    START
    tile[t] = a[i];
    SYNC();
    STORE(there, 2 * a[i]);  // <- finding: race
    out[i] = tile[t];  // <- finding: race
    SYNC();
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void past_the_peers_tile(const float* a, float* out)
{
    START
    tile[t] = a[i];
    SYNC();
    LOAD(x, there + 4);  // <- finding: out of bounds
    SYNC();
    out[i] = x;
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void peer_never_wrote(const float* a, float* out)
{
    START
    if (rank == 0) tile[t] = a[i];
    SYNC();
    LOAD(x, there);  // <- finding: uninitialised read
    SYNC();
    out[i] = x;
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void arrives_twice(const float* a, float* out)
{
    ARRIVE();
    ARRIVE();  // <- finding: divergent barrier
    WAIT();
    out[blockIdx.x * 64 + threadIdx.x] = a[threadIdx.x];
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void one_block_waits(const float* a, float* out)
{
    __shared__ unsigned long long b;
    unsigned rank;
    RANK(rank);
    if (threadIdx.x == 0) INIT(&b, 1);
    __syncthreads();
    if (rank == 1) WAIT_PHASE(&b, 0);  // <- finding: deadlock
    ARRIVE();
    WAIT();  // <- finding: deadlock
    out[blockIdx.x * 64 + threadIdx.x] = a[threadIdx.x];
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void store_not_awaited(const float* a, float* out)
{
    START
    __shared__ unsigned long long b;
    unsigned mbarrier;
    MAP(mbarrier, &b, 1 - rank);
    if (t == 0) { INIT(&b, 1); EXPECT(&b, 256); }
    tile[t] = 0;
    SYNC();
    SEND(there, a[i], mbarrier);
    SYNC();
    out[i] = tile[t];  // <- finding: race
    WAIT_PHASE(&b, 0);
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void too_many_bytes_expected(const float* a, float* out)
{
    START
    __shared__ unsigned long long b;
    unsigned mbarrier;
    MAP(mbarrier, &b, 1 - rank);
    if (t == 0) { INIT(&b, 1); EXPECT(&b, 512); }
    SYNC();
    SEND(there, a[i], mbarrier);
    WAIT_PHASE(&b, 0);  // <- finding: deadlock
    out[i] = tile[t];
    SYNC();
}
"""
)


def _launch(name, a, out):
    module.get_function(name)((2,), (64,), (a, out))


def block_barrier_only(a, out):
    _launch("block_barrier_only", a, out)


def read_after_arrival(a, out):
    _launch("read_after_arrival", a, out)


def relaxed_arrival(a, out):
    _launch("relaxed_arrival", a, out)


def ends_too_early(a, out):
    _launch("ends_too_early", a, out)


def starts_too_late(a, out):
    _launch("starts_too_late", a, out)


def overwritten(a, out):
    _launch("overwritten", a, out)


def past_the_peers_tile(a, out):
    _launch("past_the_peers_tile", a, out)


def peer_never_wrote(a, out):
    _launch("peer_never_wrote", a, out)


def arrives_twice(a, out):
    _launch("arrives_twice", a, out)


def one_block_waits(a, out):
    _launch("one_block_waits", a, out)


def store_not_awaited(a, out):
    _launch("store_not_awaited", a, out)


def too_many_bytes_expected(a, out):
    _launch("too_many_bytes_expected", a, out)
