"""Clusters of blocks: shared memory of peers, their atomics and mbarriers, and asynchronous stores into it."""

import cupy

module = cupy.RawModule(
    code=r"""
#define ADDRESS(p) (unsigned)__cvta_generic_to_shared(p)
#define ARRIVE() asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define SYNC() ARRIVE(); WAIT()
__device__ int RANK() { unsigned r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ unsigned map(const void* p, int rank)
{
    unsigned r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(ADDRESS(p)), "r"(rank));
    return r;
}
template <class T> __device__ T* peer(T* p, int rank)
{
    unsigned long long r;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"(p), "r"(rank));
    return (T*)r;
}
__device__ void init(unsigned long long* b, int n)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void expect(unsigned long long* b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(ADDRESS(b)), "r"(bytes) : "memory");
}
__device__ void wait(unsigned long long* b, int parity)
{
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }"
                 :: "r"(ADDRESS(b)), "r"(parity) : "memory");
}

extern "C" __cluster_dims__(2, 2, 1) __global__ void place(int* out)
{
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned v[12];
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(v[0]));
    asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(v[1]));
    asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(v[2]));
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(v[3]));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(v[4]));
    asm("mov.u32 %0, %%clusterid.y;" : "=r"(v[5]));
    asm("mov.u32 %0, %%clusterid.z;" : "=r"(v[6]));
    asm("mov.u32 %0, %%nclusterid.x;" : "=r"(v[7]));
    asm("mov.u32 %0, %%nclusterid.y;" : "=r"(v[8]));
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v[9]));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v[10]));
    asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(v[11]));
    #pragma unroll
    for (int i = 0; i < 12; ++i)
        if (threadIdx.x == i) out[12 * block + i] = v[i];
}

extern "C" __cluster_dims__(4, 1, 1) __global__ void ring(const float* a, float* out)
{
    __shared__ float tile[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    tile[t] = a[i];
    SYNC();
    float right, left;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(right) : "r"(map(tile + 127 - t, (RANK() + 1) % 4)));
    left = peer(tile, (RANK() + 3) % 4)[t];
    ARRIVE();
    out[i] = right - left;
    WAIT();
}

extern "C" __cluster_dims__(8, 1, 1) __global__ void histogram(const int* a, int* out)
{
    __shared__ int bins[32];
    int t = threadIdx.x;
    if (t < 32) bins[t] = 0;
    SYNC();
    for (int i = 0; i < 4; ++i) {
        int value = a[(blockIdx.x * 4 + i) * 64 + t] & 255;
        atomicAdd(peer(bins, value / 32) + value % 32, 1);
    }
    SYNC();
    if (t < 32) out[blockIdx.x * 32 + t] = bins[t];
}

extern "C" __cluster_dims__(2, 2, 1) __global__ void transpose(const float4* a, float4* out)
{
    __shared__ float4 tile[64];
    int t = threadIdx.x, x = RANK() % 2, y = RANK() / 2;
    SYNC();
    *(peer(tile, 2 * x + y) + (t % 8 * 8 + t / 8)) = a[(blockIdx.y * 2 + blockIdx.x) * 64 + t];
    SYNC();
    out[(blockIdx.y * 2 + blockIdx.x) * 64 + t] = tile[t];
    SYNC();
}

extern "C" __cluster_dims__(4, 1, 1) __global__ void sum(const float* a, float* out)
{
    __shared__ __align__(16) float parts[4];
    __shared__ __align__(16) float warps[4];
    int t = threadIdx.x;
    float x = a[blockIdx.x * 128 + t];
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, step);
    if (t % 32 == 0) warps[t / 32] = x;
    SYNC();
    if (t == 0) *(peer(parts, 0) + RANK()) = warps[0] + warps[1] + warps[2] + warps[3];
    SYNC();
    if (t == 0 && RANK() == 0) out[blockIdx.x / 4] = parts[0] + parts[1] + parts[2] + parts[3];
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void letters(const int* a, int* out)
{
    __shared__ unsigned long long full, empty;
    __shared__ int box[64];
    int t = threadIdx.x, total = 0;
    if (t == 0) { init(&full, 64); init(&empty, 64); }
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    WAIT();
    for (int i = 0; i < 5; ++i) {
        if (RANK() == 0) {
            if (i > 0) wait(&empty, (i - 1) & 1);
            *(peer(box, 1) + t) = a[(blockIdx.x / 2 * 5 + i) * 64 + t];
            unsigned b = map(&full, 1);
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(b) : "memory");
        } else {
            wait(&full, i & 1);
            total = 3 * total + box[t ^ 33];
            unsigned b = map(&empty, 0);
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(b) : "memory");
        }
    }
    SYNC();
    if (RANK() == 1) out[blockIdx.x / 2 * 64 + t] = total;
}

extern "C" __cluster_dims__(2, 1, 1) __global__ void stores(const int4* a, int4* out)
{
    __shared__ unsigned long long full;
    __shared__ int4 box[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t, other = 1 - RANK();
    if (t == 0) { init(&full, 1); expect(&full, 1024); }
    SYNC();
    int4 v = a[i];
    unsigned to = map(box + (t ^ 5), other), b = map(&full, other);
    if (t % 2)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [%0], {%1,%2,%3,%4}, [%5];"
                     :: "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(b) : "memory");
    else {
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 [%0], {%1,%2}, [%3];"
                     :: "r"(to), "r"(v.x), "r"(v.y), "r"(b) : "memory");
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];"
                     :: "r"(to + 8), "r"(v.z), "r"(b) : "memory");
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];"
                     :: "r"(to + 12), "r"(v.w), "r"(b) : "memory");
    }
    wait(&full, 0);
    out[i] = box[t];
    SYNC();
}

extern "C" __cluster_dims__(4, 1, 1) __global__ void reductions(const unsigned* a, unsigned* out)
{
    __shared__ unsigned long long full;
    __shared__ unsigned long long wide;
    __shared__ unsigned sums[6];
    int t = threadIdx.x;
    if (t == 0) { init(&full, 1); expect(&full, RANK() ? 0 : 4 * 64 * 32); wide = 0; }
    if (t < 6) sums[t] = t == 1 || t == 3 ? 0xFFFFFFFF : 0;
    SYNC();
    unsigned v = a[blockIdx.x * 64 + t], b = map(&full, 0), s = map(sums, 0);
#define RED(op, type, place, x) \
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." op "." type \
                 " [%0], %1, [%2];" :: "r"(place), "r"(x), "r"(b) : "memory")
    RED("add", "u32", s, v);
    RED("min", "u32", s + 4, v);
    RED("max", "s32", s + 8, (int)v);
    RED("and", "b32", s + 12, v | 0x10);
    RED("or", "b32", s + 16, v & 0xFF);
    RED("inc", "u32", s + 20, 99);
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%0], %1, [%2];"
                 :: "r"(map(&wide, 0)), "l"((unsigned long long)v * v), "r"(b) : "memory");
    wait(&full, 0);
    if (RANK() == 0 && t < 6) out[blockIdx.x / 4 * 8 + t] = sums[t];
    if (RANK() == 0 && t == 6) *(unsigned long long*)(out + blockIdx.x / 4 * 8 + 6) = wide;
    SYNC();
}
"""
)


def place(out):
    module.get_function("place")((4, 6, 2), (32,), (out,))


def ring(a, out):
    module.get_function("ring")((a.size // 128,), (128,), (a, out))


def histogram(a, out):
    module.get_function("histogram")((a.size // 256,), (64,), (a, out))


def transpose(a, out):
    module.get_function("transpose")((2, 2), (64,), (a, out))


def sum(a, out):
    module.get_function("sum")((a.size // 128,), (128,), (a, out))


def letters(a, out):
    module.get_function("letters")((2 * (a.size // 320),), (64,), (a, out))


def stores(a, out):
    module.get_function("stores")((a.size // 256,), (64,), (a, out))


def reductions(a, out):
    module.get_function("reductions")((a.size // 64,), (64,), (a, out))
