"""Shared memory that two threads use at once, one of them writing.

A race has two sides, and which of them comes second depends on the order of warps: both lines are marked.
"""

import cupy
import numpy as np
from numba import cuda, float32

THREADS = 128
PADDED = THREADS + 1


@cuda.jit
def missing_barrier_kernel(a, out):
    tile = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    tile[t] = a[t]  # <- finding: race
    out[t] = tile[THREADS - 1 - t]  # <- finding: race


def missing_barrier(a, out):
    missing_barrier_kernel[1, THREADS](a, out)


@cuda.jit
def barrier_too_early_kernel(a, out):
    tile = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    tile[t] = float32(0)
    cuda.syncthreads()
    tile[t] = a[t]  # <- finding: race
    out[t] = tile[t ^ 64]  # <- finding: race


def barrier_too_early(a, out):
    barrier_too_early_kernel[1, THREADS](a, out)


@cuda.jit
def tile_reused_kernel(a, out):
    tile = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(a.shape[0]):
        tile[t] = a[k, t]  # <- finding: race
        cuda.syncthreads()
        total += tile[THREADS - 1 - t]  # <- finding: race
        # the barrier that keeps the next round from overwriting what others still read is missing
    out[t] = total


def tile_reused(a, out):
    tile_reused_kernel[1, THREADS](a, out)


@cuda.jit
def reduction_kernel(a, out):
    part = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    part[t] = a[t]
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]  # <- finding: race
        step //= 2
    if t == 0:
        out[0] = part[0]


def reduction_without_barriers(a, out):
    reduction_kernel[1, THREADS](a, out)


@cuda.jit
def shift_in_place_kernel(a, out):
    tile = cuda.shared.array(PADDED, float32)
    t = cuda.threadIdx.x
    tile[t] = a[t]
    if t == 0:
        tile[THREADS] = float32(0)
    cuda.syncthreads()
    tile[t] = tile[t + 1]  # <- finding: race
    cuda.syncthreads()
    out[t] = tile[t]


def shift_in_place(a, out):
    shift_in_place_kernel[1, THREADS](a, out)


module = cupy.RawModule(
    code=r"""
extern "C" __global__ void same_slot(const float* a, float* out)
{
    __shared__ float tile[32];
    int t = threadIdx.x;
    tile[t % 32] = a[t];  // <- finding: race
    __syncthreads();
    out[t] = tile[t % 32];
}

extern "C" __global__ void plain_histogram(const int* a, int* out)
{
    __shared__ int bins[16];
    int t = threadIdx.x;
    if (t < 16) bins[t] = 0;
    __syncthreads();
    bins[a[t] & 15]++;  // <- finding: race
    __syncthreads();
    if (t < 16) out[t] = bins[t];
}

extern "C" __global__ void last_warp_assumption(const float* a, float* out)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    part[t] = a[t];
    __syncthreads();
    if (t < 64) part[t] += part[t + 64];  // <- finding: race
    // the last warp goes on alone, but nobody told it that the second warp has finished
    if (t < 32) {
        float sum = part[t] + part[t + 32];  // <- finding: race
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
        if (t == 0) out[0] = sum;
    }
}

extern "C" __global__ void warp_without_syncwarp(const float* a, float* out)
{
    __shared__ float part[32];
    int t = threadIdx.x;
    part[t] = a[t];
    out[t] = part[t ^ 1];  // <- finding: race
}

extern "C" __global__ void count_read_early(const int* a, int* out)
{
    __shared__ int count;
    int t = threadIdx.x;
    if (t == 0) count = 0;
    __syncthreads();
    if (a[t] > 0) atomicAdd(&count, 1);  // <- finding: race
    out[t] = count;  // <- finding: race
}

extern "C" __global__ void verdict_overwritten(const int* a, int* out, int rounds)
{
    __shared__ int verdict;
    int t = threadIdx.x, total = 0;
    for (int k = 0; k < rounds; ++k) {
        if (t == 0) verdict = a[k];  // <- finding: race
        __syncthreads();
        total += verdict * t;  // <- finding: race
    }
    out[t] = total;
}

extern "C" __global__ void wrong_buffer(const float* a, float* out, int rounds)
{
    __shared__ float tile[2][128];
    int t = threadIdx.x;
    float total = 0;
    tile[0][t] = a[t];
    __syncthreads();
    for (int k = 1; k < rounds; ++k) {
        tile[(k + 1) % 2][t] = a[k * 128 + t];  // <- finding: race
        total += tile[(k + 1) % 2][127 - t];  // <- finding: race
        __syncthreads();
    }
    out[t] = total;
}

extern "C" __global__ void barrier_of_half(const float* a, float* out)
{
    __shared__ float tile[128];
    int t = threadIdx.x;
    tile[t] = a[t];  // <- finding: race
    // each pair of warps meets at a barrier of its own
    if (t < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    else asm volatile("bar.sync 2, 64;" ::: "memory");
    out[t] = tile[127 - t];  // <- finding: race
}

extern "C" __global__ void initialised_by_one_warp(const int* a, int* out)
{
    extern __shared__ int bins[];
    int t = threadIdx.x;
    if (t < 32) bins[t] = 0;  // <- finding: race
    atomicAdd(bins + (a[t] & 31), 1);  // <- finding: race
    __syncthreads();
    if (t < 32) out[t] = bins[t];
}
"""
)


def same_slot(a, out):
    module.get_function("same_slot")((1,), (THREADS,), (a, out))


def plain_histogram(a, out):
    module.get_function("plain_histogram")((1,), (THREADS,), (a, out))


def last_warp_assumption(a, out):
    module.get_function("last_warp_assumption")((1,), (THREADS,), (a, out))


def warp_without_syncwarp(a, out):
    module.get_function("warp_without_syncwarp")((1,), (32,), (a, out))


def count_read_early(a, out):
    module.get_function("count_read_early")((1,), (THREADS,), (a, out))


def verdict_overwritten(a, out):
    module.get_function("verdict_overwritten")((1,), (THREADS,), (a, out, np.int32(a.size)))


def wrong_buffer(a, out):
    module.get_function("wrong_buffer")((1,), (THREADS,), (a, out, np.int32(a.size // THREADS)))


def barrier_of_half(a, out):
    module.get_function("barrier_of_half")((1,), (THREADS,), (a, out))


def initialised_by_one_warp(a, out):
    module.get_function("initialised_by_one_warp")((1,), (THREADS,), (a, out), shared_mem=128)
