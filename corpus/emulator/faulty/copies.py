"""Asynchronous copies and matrix instructions used too early, too late or by too few threads; one warp or two."""

import cupy

module = cupy.RawModule(
    code=r"""
#define ADDRESS(p) (unsigned)__cvta_generic_to_shared(p)
#define COPY(to, from) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(ADDRESS(to)), "l"(from) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define ARRIVE(b) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(ADDRESS(b)) : "memory")
#define WAIT_PHASE(b, parity) \
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }" \
                 :: "r"(ADDRESS(b)), "r"(parity) : "memory")

#define MMA(d, x) \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " \
                 "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x))
#define LDMATRIX(d, p) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(d) : "r"(ADDRESS(p)) : "memory")

extern "C" __global__ void never_awaited(const float* a, float* out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(tile + t, a + t);
    COMMIT();
    __syncthreads();
    out[t] = tile[63 - t];  // <- finding: race
}

extern "C" __global__ void older_group_awaited(const float* a, float* out)
{
    __shared__ float stages[2][64];
    int t = threadIdx.x;
    COPY(stages[0] + t, a + t);
    COMMIT();
    COPY(stages[1] + t, a + t);
    COMMIT();
    WAIT(1);
    __syncthreads();
    out[t] = stages[0][63 - t] + stages[1][63 - t];  // <- finding: race
}

extern "C" __global__ void awaited_by_one_warp(const float* a, float* out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(tile + t, a + t);
    COMMIT();
    if (t < 32) WAIT(0);  // each thread waits for its own copies only
    __syncthreads();
    out[t] = tile[63 - t];  // <- finding: race
}

extern "C" __global__ void awaited_after_the_barrier(const float* a, float* out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(tile + t, a + t);  // <- finding: race
    COMMIT();
    __syncthreads();
    WAIT(0);
    out[t] = tile[63 - t];  // <- finding: race
}

extern "C" __global__ void refilled_while_read(const float* a, float* out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    float total = 0;
    for (int k = 0; k < 3; ++k) {
        COPY(tile + t, a + t);  // <- finding: race
        COMMIT();
        WAIT(0);
        __syncthreads();
        total += tile[63 - t];  // <- finding: race
        // the barrier that keeps the next copy from overwriting what others still read is missing
    }
    out[t] = total;
}

extern "C" __global__ void barrier_never_made(const float* a, float* out)
{
    __shared__ unsigned long long done;
    ARRIVE(&done);  // <- finding: uninitialised read
    out[threadIdx.x] = a[threadIdx.x];
}

extern "C" __global__ void arrival_missing(const float* a, float* out)
{
    __shared__ unsigned long long done;
    int t = threadIdx.x;
    if (t == 0) INIT(&done, 64);
    __syncthreads();
    if (t < 63) ARRIVE(&done);
    WAIT_PHASE(&done, 0);  // <- finding: deadlock
    out[t] = a[t];
}

extern "C" __global__ void wrong_phase(const float* a, float* out)
{
    __shared__ unsigned long long done;
    int t = threadIdx.x;
    if (t == 0) INIT(&done, 64);
    __syncthreads();
    for (int k = 0; k < 2; ++k) {
        ARRIVE(&done);
        WAIT_PHASE(&done, k ^ 1);  // <- finding: deadlock
    }
    out[t] = a[t];
}

extern "C" __global__ void product_in_a_branch(const float* a, float* out)
{
    int t = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    unsigned x = __float_as_uint(a[t]);
    if (t % 32 != 5)
        MMA(d, x);  // <- finding: divergent barrier
    out[t] = d[0];
}

extern "C" __global__ void rows_of_eight_bytes(const float* a, float* out)
{
    __shared__ __align__(16) float tile[64];
    int t = threadIdx.x;
    tile[t] = a[t];
    __syncthreads();
    unsigned d;
    LDMATRIX(d, tile + t % 8 * 2);  // <- finding: misaligned address
    out[t] = d;
}
"""
)


def _launch(name, a, out):
    module.get_function(name)((1,), (64,), (a, out))


def never_awaited(a, out):
    _launch("never_awaited", a, out)


def older_group_awaited(a, out):
    _launch("older_group_awaited", a, out)


def awaited_by_one_warp(a, out):
    _launch("awaited_by_one_warp", a, out)


def awaited_after_the_barrier(a, out):
    _launch("awaited_after_the_barrier", a, out)


def refilled_while_read(a, out):
    _launch("refilled_while_read", a, out)


def barrier_never_made(a, out):
    _launch("barrier_never_made", a, out)


def arrival_missing(a, out):
    _launch("arrival_missing", a, out)


def wrong_phase(a, out):
    _launch("wrong_phase", a, out)


def product_in_a_branch(a, out):
    _launch("product_in_a_branch", a, out)


def rows_of_eight_bytes(a, out):
    _launch("rows_of_eight_bytes", a, out)
