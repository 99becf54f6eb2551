"""CUDA's own headers: cooperative groups, CUB's block algorithms, libcu++'s barriers, pipelines and atomics."""

import cupy

groups = cupy.RawModule(
    code=r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tile_reduce(const int* a, int* out)
{
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int total = cg::reduce(tile, a[i], cg::plus<int>());
    int most = cg::reduce(tile, a[i], cg::greater<int>());
    int running = cg::inclusive_scan(tile, a[i]);
    if (tile.thread_rank() == 0) {
        out[2 * (i / 8)] = total;
        out[2 * (i / 8) + 1] = most;
    }
    out[64 + i] = running + tile.meta_group_rank();
}

extern "C" __global__ void filter(const int* a, int* count, int* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = a[i];
    if (value > 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        int start = 0;
        if (active.thread_rank() == 0)
            start = atomicAdd(count, (int)active.size());
        out[active.shfl(start, 0) + active.thread_rank()] = value;
    }
}

extern "C" __global__ void labels(const int* a, int* out)
{
    cg::coalesced_group warp = cg::coalesced_threads();
    cg::coalesced_group same = cg::labeled_partition(warp, a[threadIdx.x]);
    out[threadIdx.x] = same.size() * 100 + same.thread_rank();
}

extern "C" __global__ void staged(const float* a, float* out)
{
    __shared__ __align__(16) float tile[128];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, tile, a + blockIdx.x * 128, sizeof(tile));
    cg::wait(block);
    out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}

extern "C" __global__ void tile_votes(const int* a, unsigned* out)
{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int v = a[threadIdx.x];
    unsigned ballot = tile.ballot(v & 1), same = tile.match_any(v & 3);
    bool any = tile.any(v > 90), all = tile.all(v < 50);
    int other = tile.shfl_xor(v, 5);
    out[threadIdx.x] = ballot * 3u + same + any * 7u + all * 11u + (unsigned)other * 65536u;
}
""",
    options=("-std=c++17",),
)

cub = cupy.RawModule(
    code=r"""
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

extern "C" __global__ void block_reduce(const int* a, int* out)
{
    using Reduce = cub::BlockReduce<int, 128>;
    using Raking = cub::BlockReduce<int, 128, cub::BLOCK_REDUCE_RAKING>;
    __shared__ typename Reduce::TempStorage first;
    __shared__ typename Raking::TempStorage second;
    int i = blockIdx.x * 128 + threadIdx.x;
    int total = Reduce(first).Sum(a[i]);
    int least = Raking(second).Reduce(a[i], [](int x, int y) { return x < y ? x : y; });
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = total;
        out[2 * blockIdx.x + 1] = least;
    }
}

extern "C" __global__ void block_scan(const int* a, int* out)
{
    using Load = cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Scan = cub::BlockScan<int, 64>;
    using Store = cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
        typename Store::TempStorage store;
    } memory;
    int items[4], total;
    Load(memory.load).Load(a + blockIdx.x * 256, items);
    __syncthreads();
    Scan(memory.scan).ExclusiveSum(items, items, total);
    __syncthreads();
    Store(memory.store).Store(out + blockIdx.x * 256, items);
}

extern "C" __global__ void radix_sort(const int* keys, const int* values, int* sorted, int* order)
{
    using Sort = cub::BlockRadixSort<int, 64, 4, int>;
    __shared__ typename Sort::TempStorage memory;
    int k[4], v[4];
    for (int j = 0; j < 4; ++j) {
        k[j] = keys[threadIdx.x * 4 + j];
        v[j] = values[threadIdx.x * 4 + j];
    }
    Sort(memory).Sort(k, v);
    for (int j = 0; j < 4; ++j) {
        sorted[threadIdx.x * 4 + j] = k[j];
        order[threadIdx.x * 4 + j] = v[j];
    }
}

extern "C" __global__ void block_histogram(const unsigned char* a, int* out)
{
    using Histogram = cub::BlockHistogram<unsigned char, 64, 4, 256>;
    __shared__ typename Histogram::TempStorage memory;
    __shared__ int counts[256];
    unsigned char items[4];
    for (int j = 0; j < 4; ++j) items[j] = a[threadIdx.x * 4 + j];
    Histogram(memory).Histogram(items, counts);
    __syncthreads();
    for (int j = threadIdx.x; j < 256; j += 64) out[j] = counts[j];
}

extern "C" __global__ void run_heads(const int* a, int* out)
{
    using Heads = cub::BlockDiscontinuity<int, 64>;
    using Scan = cub::BlockScan<int, 64>;
    __shared__ typename Heads::TempStorage heads;
    __shared__ typename Scan::TempStorage scan;
    int items[2] = {a[2 * threadIdx.x], a[2 * threadIdx.x + 1]}, flags[2];
    Heads(heads).FlagHeads(flags, items, [](int x, int y) { return x != y; });
    Scan(scan).InclusiveSum(flags, flags);
    out[2 * threadIdx.x] = flags[0];
    out[2 * threadIdx.x + 1] = flags[1];
}

extern "C" __global__ void warp_algorithms(const float* a, const int* b, float* sums, int* scans)
{
    using Reduce = cub::WarpReduce<float>;
    using Scan = cub::WarpScan<int>;
    __shared__ typename Reduce::TempStorage r[2];
    __shared__ typename Scan::TempStorage s[2];
    int t = threadIdx.x, w = t / 32;
    float total = Reduce(r[w]).Sum(a[t]);
    if (t % 32 == 0) sums[w] = total;
    int running;
    Scan(s[w]).InclusiveSum(b[t], running);
    scans[t] = running;
}
""",
    options=("-std=c++17",),
)

library = cupy.RawModule(
    code=r"""
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/optional>
#include <cuda/std/tuple>

extern "C" __global__ void barrier_phases(const int* a, int* out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    __shared__ int tile[64];
    if (threadIdx.x == 0) init(&ready, 64);
    __syncthreads();
    int total = 0;
    for (int k = 0; k < 3; ++k) {
        tile[threadIdx.x] = a[k * 64 + threadIdx.x];
        auto token = ready.arrive();
        ready.wait(cuda::std::move(token));
        total = total * 3 + tile[(threadIdx.x + 17) % 64];
        ready.arrive_and_wait();
    }
    out[threadIdx.x] = total;
}

extern "C" __global__ void pipelined(const float* a, float* out, int stages)
{
    __shared__ __align__(16) float tiles[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto group = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    float total = 0;
    for (int fetch = 0, use = 0; use < stages; ++use) {
        for (; fetch < stages && fetch < use + 2; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(&tiles[fetch % 2][group], &a[fetch * 64 + group], sizeof(float), pipe);
            pipe.producer_commit();
        }
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        if (use == stages - 1) cuda::pipeline_consumer_wait_prior<0>(pipe);
        __syncthreads();
        total += tiles[use % 2][63 - group];
        __syncthreads();
        pipe.consumer_release();
    }
    out[group] = total;
}

extern "C" __global__ void atomic_refs(const int* a, int* out, unsigned long long* wide)
{
    __shared__ int local;
    cuda::atomic_ref<int, cuda::thread_scope_block> count(local);
    if (threadIdx.x == 0) local = 0;
    __syncthreads();
    count.fetch_add(a[blockIdx.x * 64 + threadIdx.x], cuda::std::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> total(out[0]);
        total.fetch_add(count.load());
        cuda::atomic_ref<int, cuda::thread_scope_device> most(out[1]);
        most.fetch_max(count.load());
        cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> product(*wide);
        unsigned long long old = product.load();
        while (!product.compare_exchange_weak(old, old * 3 + 1)) {}
    }
}

template <class T, int N>
__device__ T horner(const cuda::std::array<T, N>& c, T x)
{
    T y = T(0);
    for (auto k = c.rbegin(); k != c.rend(); ++k) y = y * x + *k;
    return y;
}

__device__ cuda::std::optional<int> first_set(unsigned word)
{
    if (word == 0) return {};
    return cuda::std::countr_zero(word);
}

extern "C" __global__ void standard(const float* a, const unsigned* words, float* out, int* places)
{
    int t = threadIdx.x;
    cuda::std::complex<float> z(a[2 * t], a[2 * t + 1]);
    cuda::std::array<cuda::std::complex<float>, 3> c{{{1, 0}, {0, 2}, {-1, 1}}};
    auto w = horner<cuda::std::complex<float>, 3>(c, z);
    auto [re, im] = cuda::std::make_tuple(w.real(), w.imag());
    out[2 * t] = re;
    out[2 * t + 1] = im;
    places[t] = first_set(words[t]).value_or(-7) + 100 * cuda::std::popcount(words[t]);
}
""",
    options=("-std=c++17",),
)


def tile_reduce(a, out):
    groups.get_function("tile_reduce")((2,), (128,), (a, out))


def filter_positive(a, count, out):
    groups.get_function("filter")((4,), (64,), (a, count, out))


def labels(a, out):
    groups.get_function("labels")((1,), (32,), (a, out))


def staged(a, out):
    groups.get_function("staged")((2,), (128,), (a, out))


def tile_votes(a, out):
    groups.get_function("tile_votes")((1,), (64,), (a, out))


def block_reduce(a, out):
    cub.get_function("block_reduce")((3,), (128,), (a, out))


def block_scan(a, out):
    cub.get_function("block_scan")((2,), (64,), (a, out))


def radix_sort(keys, values, sorted_keys, order):
    cub.get_function("radix_sort")((1,), (64,), (keys, values, sorted_keys, order))


def block_histogram(a, out):
    cub.get_function("block_histogram")((1,), (64,), (a, out))


def run_heads(a, out):
    cub.get_function("run_heads")((1,), (64,), (a, out))


def warp_algorithms(a, b, sums, scans):
    cub.get_function("warp_algorithms")((1,), (64,), (a, b, sums, scans))


def barrier_phases(a, out):
    library.get_function("barrier_phases")((1,), (64,), (a, out))


def pipelined(a, out):
    library.get_function("pipelined")((1,), (64,), (a, out, cupy.int32(len(a))))


def atomic_refs(a, out, wide):
    library.get_function("atomic_refs")((3,), (64,), (a, out, wide))


def standard(a, words, out, places):
    library.get_function("standard")((1,), (64,), (a, words, out, places))
