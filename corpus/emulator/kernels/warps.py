"""What the lanes of a warp tell each other: shuffles, votes, matches, reductions in one instruction, masks."""

import cupy
import numpy as np
from numba import cuda

module = cupy.RawModule(
    code=r"""
#define PUT(expression) out[row++ * n + i] = (expression)

extern "C" __global__ void shuffles(const int* a, const double* b, int* out, double* wide)
{
    int i = threadIdx.x, n = blockDim.x, row = 0, v = a[i];
    PUT(__shfl_sync(~0u, v, 5));
    PUT(__shfl_sync(~0u, v, a[i] & 31));
    PUT(__shfl_sync(~0u, v, i + 3, 8));
    PUT(__shfl_up_sync(~0u, v, 3));
    PUT(__shfl_up_sync(~0u, v, 2, 4));
    PUT(__shfl_down_sync(~0u, v, 1));
    PUT(__shfl_down_sync(~0u, v, 5, 16));
    PUT(__shfl_xor_sync(~0u, v, 9));
    PUT(__shfl_xor_sync(~0u, v, 16, 8));
    PUT(__shfl_sync(~0u, v, -1));
    wide[i] = __shfl_down_sync(~0u, b[i], 4);
    wide[i + n] = __shfl_xor_sync(~0u, b[i], 31);
    int r = -1;
    if (i & 1) r = __shfl_sync(0xaaaaaaaau, v, 7);
    PUT(r);
    unsigned inside;
    asm volatile("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, 6, 31, 0xffffffff; selp.u32 %1, 1, 0, p; }"
                 : "=r"(r), "=r"(inside) : "r"(v));
    PUT(r);
    PUT(inside);
}

extern "C" __global__ void votes(const int* a, unsigned* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0, v = a[i];
    PUT(__ballot_sync(~0u, v > 0));
    PUT(__any_sync(~0u, v == 3));
    PUT(__all_sync(~0u, v < 100));
    PUT(__uni_sync(~0u, v > 1000));
    PUT(__match_any_sync(~0u, v & 3));
    int same;
    PUT(__match_all_sync(~0u, i / 64, &same));
    PUT(same);
    PUT(__match_all_sync(~0u, v, &same));
    PUT(same);
    PUT(__match_any_sync(~0u, (long long)(v & 1) << 40));
    PUT(__reduce_add_sync(~0u, (unsigned)v));
    PUT(__reduce_min_sync(~0u, v));
    PUT(__reduce_max_sync(~0u, (unsigned)v));
    PUT(__reduce_and_sync(~0u, (unsigned)v));
    PUT(__reduce_or_sync(~0u, (unsigned)v & 0xff));
    PUT(__reduce_xor_sync(~0u, (unsigned)v));
    unsigned some = 0;
    if (v & 1) some = __ballot_sync(__activemask(), v & 2);
    PUT(some);
    some = 0;
    if (i % 32 < 12) some = __reduce_add_sync(0xfffu, (unsigned)i) + __ballot_sync(0xfffu, i & 4);
    PUT(some);
    PUT(__activemask());
}

extern "C" __global__ void registers(unsigned* out)
{
    int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), row = 0;
    int n = blockDim.x * blockDim.y * blockDim.z;
    out += (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) * n * 7;
    unsigned r;
#define READ(name) asm("mov.u32 %0, %" name ";" : "=r"(r)); PUT(r)
    READ("%laneid");
    READ("%lanemask_eq");
    READ("%lanemask_lt");
    READ("%lanemask_le");
    READ("%lanemask_gt");
    READ("%lanemask_ge");
    PUT(threadIdx.z * 10000 + blockIdx.y * 100 + gridDim.z * 10 + blockDim.y);
}

extern "C" __global__ void barriers(const int* a, int* out)
{
    int i = threadIdx.x, n = blockDim.x, row = 0;
    PUT(__syncthreads_count(a[i] & 1));
    PUT(__syncthreads_and(a[i] < 1000));
    PUT(__syncthreads_or(a[i] == 77));
}

extern "C" __global__ void named_barriers(const int* a, int* out)
{
    // Two warps produce, two consume: arrive on one side, wait on the other.
    __shared__ int line[64];
    int i = threadIdx.x;
    if (i < 64) {
        line[i] = a[i] * 3;
        __threadfence_block();
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[i - 64] = line[127 - i];
    }
}

extern "C" __global__ void aggregated(const int* a, int* count, int* out)
{
    int i = threadIdx.x, lane = i & 31, keep = a[i] > 0;
    unsigned kept = __ballot_sync(~0u, keep);
    int first = 0;
    if (lane == 0) first = atomicAdd(count, __popc(kept));
    first = __shfl_sync(~0u, first, 0);
    if (keep) out[first + __popc(kept & ((1u << lane) - 1))] = a[i];
}
"""
)


def shuffles(a, b, out, wide):
    module.get_function("shuffles")((1,), (a.size,), (a, b, out, wide))


def votes(a, out):
    module.get_function("votes")((1,), (a.size,), (a, out))


def registers(out):
    module.get_function("registers")((2, 2, 2), (8, 3, 4), (out,))


def barriers(a, out):
    module.get_function("barriers")((1,), (a.size,), (a, out))


def named_barriers(a, out):
    module.get_function("named_barriers")((1,), (128,), (a, out))


def aggregated(a, count, out):
    """One warp, so that the order of what is kept is certain."""
    module.get_function("aggregated")((1,), (32,), (a, count, out))


@cuda.jit
def numba_kernel(a, out):
    i = cuda.grid(1)
    v = a[i]
    out[0, i] = cuda.ballot_sync(0xFFFFFFFF, v > 0)
    out[1, i] = cuda.any_sync(0xFFFFFFFF, v == 7)
    out[2, i] = cuda.all_sync(0xFFFFFFFF, v < 3)
    out[3, i] = cuda.shfl_sync(0xFFFFFFFF, v, 31 - cuda.laneid)
    out[4, i] = cuda.match_any_sync(0xFFFFFFFF, v & 7)
    out[5, i] = cuda.lanemask_lt()
    out[6, i] = cuda.activemask()
    cuda.syncwarp()
    out[7, i] = cuda.syncthreads_count(v & 1)


def numba(a, out):
    numba_kernel[1, a.size](a, out)


_TABLE = np.arange(64, dtype=np.float32) ** 2


@cuda.jit
def constant_kernel(a, out):
    table = cuda.const.array_like(_TABLE)
    i = cuda.grid(1)
    out[i] = table[a[i] & 63] + table[5]


def constant(a, out):
    constant_kernel[1, a.size](a, out)


@cuda.jit
def dynamic_shared_kernel(a, out):
    whole = cuda.shared.array(0, np.float32)
    first, second = whole[: cuda.blockDim.x], whole[cuda.blockDim.x :]
    t = cuda.threadIdx.x
    first[t] = a[t]
    second[t] = a[t] * np.float32(2)
    cuda.syncthreads()
    last = cuda.blockDim.x - 1
    out[t] = first[last - t] + second[t ^ 1]


def dynamic_shared(a, out):
    dynamic_shared_kernel[1, a.size, 0, 8 * a.size](a, out)


static_memory = cupy.RawModule(
    code=r"""
__constant__ int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__constant__ float weights[3] = {0.25f, 0.5f, 0.25f};
__device__ int counter = 40;
__device__ short offsets[4] = {-3, 9, 27, 1000};

extern "C" __global__ void initialised(const int* a, float* out)
{
    int i = threadIdx.x;
    float r = primes[a[i] & 7] * weights[a[i] % 3] + offsets[i & 3];
    if (i == 0) atomicAdd(&counter, 2);
    __syncthreads();
    out[i] = r + *(volatile int*)&counter;
}

extern "C" __global__ void large_dynamic(const int4* a, int4* out, int n)
{
    extern __shared__ __align__(16) char bytes[];
    int4* words = (int4*)bytes;
    for (int i = threadIdx.x; i < n; i += blockDim.x) words[i] = a[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = words[n - 1 - i];
}

extern "C" __global__ void add_offset(const float* a, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += a[i];
}
"""
)


def initialised(a, out):
    static_memory.get_function("initialised")((1,), (a.size,), (a, out))


def large_dynamic(a, out):
    """More than the 48 KiB that a launch has without asking."""
    kernel = static_memory.get_function("large_dynamic")
    kernel.max_dynamic_shared_size_bytes = a.nbytes
    kernel((1,), (256,), (a, out, np.int32(a.nbytes // 16)), shared_mem=a.nbytes)


def views(a, out):
    """Arguments that point into the middle of arrays; scratch that starts as zeros."""
    kernel = static_memory.get_function("add_offset")
    n = a.size // 2
    total = cupy.zeros(n, cupy.float32)
    kernel((2,), (64,), (a[n:], total, np.int32(n)))
    kernel((2,), (64,), (a[1:], total, np.int32(n)))
    kernel((2,), (64,), (total, out, np.int32(n)))
