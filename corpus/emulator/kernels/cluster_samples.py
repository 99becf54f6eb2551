"""Clusters as programs have them that use cooperative groups: sums, histograms, halos and mailboxes."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sum(const float* a, float* out)
{
    __shared__ float partial;
    cg::cluster_group cluster = cg::this_cluster();
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float total = cg::reduce(warp, a[blockIdx.x * 32 + threadIdx.x], cg::plus<float>());
    if (threadIdx.x == 0) partial = total;
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        float sum = 0;
        for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) sum += *cluster.map_shared_rank(&partial, rank);
        out[blockIdx.x / 4] = sum;
    }
    cluster.sync();
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_histogram(const int* a, int* out, int n, int bins)
{
    __shared__ int counts[64];  // half of the bins
    cg::cluster_group cluster = cg::this_cluster();
    counts[threadIdx.x] = 0;
    cluster.sync();
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) {
        int bin = a[i];
        atomicAdd(cluster.map_shared_rank(counts, bin / 64) + bin % 64, 1);
    }
    cluster.sync();
    int bin = cluster.block_rank() * 64 + threadIdx.x;
    if (bin < bins) atomicAdd(out + bin, counts[threadIdx.x]);
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(const int* a, int* out)
{
    __shared__ int slots[2][32];
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x, value = a[blockIdx.x * 32 + t], total = value;
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    cluster.sync();  // the next block has started
    for (int step = 0; step < 3; ++step) {
        cluster.map_shared_rank(&slots[step % 2][0], next)[t] = value;
        cluster.sync();
        value = slots[step % 2][t];
        total += value * (step + 2);
    }
    out[blockIdx.x * 32 + t] = total;
    cluster.sync();
}

extern "C" __global__ void __cluster_dims__(2, 2, 1) halo(const float* a, float* out, int n)
{
    // Each block of a 2 by 2 cluster holds a tile of 8 by 8 and reads its neighbours' edges from them.
    __shared__ float tile[8][8];
    cg::cluster_group cluster = cg::this_cluster();
    int x = threadIdx.x, y = threadIdx.y, bx = blockIdx.x % 2, by = blockIdx.y % 2;
    int column = blockIdx.x * 8 + x, row = blockIdx.y * 8 + y;
    tile[y][x] = a[row * n + column];
    cluster.sync();
    auto at = [&](int yy, int xx) -> float {
        int cx = bx + (xx < 0 ? -1 : xx > 7 ? 1 : 0), cy = by + (yy < 0 ? -1 : yy > 7 ? 1 : 0);
        if (cx < 0 || cx > 1 || cy < 0 || cy > 1) return 0.0f;
        return cluster.map_shared_rank(&tile[0][0], cy * 2 + cx)[(yy & 7) * 8 + (xx & 7)];
    };
    out[row * n + column] = 4 * tile[y][x] - at(y - 1, x) - at(y + 1, x) - at(y, x - 1) - at(y, x + 1);
    cluster.sync();
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) pushed(const int* a, int* out)
{
    // Each thread pushes a word into the other block; that block's mbarrier counts the arrivals.
    __shared__ int inbox[32];
    __shared__ unsigned long long full;
    unsigned rank, t = threadIdx.x, bar = (unsigned)__cvta_generic_to_shared(&full);
    unsigned box = (unsigned)__cvta_generic_to_shared(inbox + t), far_bar, far_box;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" :: "r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far_bar) : "r"(bar), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far_box) : "r"(box), "r"(rank ^ 1));
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(far_box), "r"(a[blockIdx.x * 32 + t] * 2) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(far_bar) : "memory");
    int ready = 0;
    while (!ready)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; "
                     "selp.s32 %0, 1, 0, p; }" : "=r"(ready) : "r"(bar) : "memory");
    out[blockIdx.x * 32 + t] = inbox[31 - t];
    asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
}
""",
    options=("-std=c++17",),
)


def cluster_sum(a, out):
    module.get_function("cluster_sum")((a.size // 32,), (32,), (a, out))


def cluster_histogram(a, out):
    sizes = cupy.int32(a.size), cupy.int32(out.size)
    module.get_function("cluster_histogram")((4,), (64,), (a, out, *sizes))


def ring(a, out):
    module.get_function("ring")((a.size // 32,), (32,), (a, out))


def halo(a, out):
    n = len(a)
    module.get_function("halo")((n // 8, n // 8), (8, 8), (a, out, cupy.int32(n)))


def pushed(a, out):
    module.get_function("pushed")((a.size // 32,), (32,), (a, out))
