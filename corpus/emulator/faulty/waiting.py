"""Barriers that not all threads reach together, threads that wait for ever, and kernels that end themselves."""

import cupy
import numpy as np
from numba import cuda, float32

THREADS = 64


@cuda.jit
def barrier_in_branch_kernel(a, out):
    tile = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    tile[t] = a[t]
    if t < 40:
        cuda.syncthreads()  # <- finding: divergent barrier
        tile[t] += float32(1)
    out[t] = tile[t]


def barrier_in_branch(a, out):
    barrier_in_branch_kernel[1, THREADS](a, out)


@cuda.jit
def unequal_trips_kernel(a, out):
    total = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    total[t] = float32(0)
    for k in range(t % 3 + 1):
        total[t] += a[k]
        cuda.syncthreads()  # <- finding: divergent barrier
    out[t] = total[t]


def unequal_trips(a, out):
    unequal_trips_kernel[1, THREADS](a, out)


@cuda.jit
def endless_kernel(a, out):
    i = cuda.grid(1)
    x = a[i]
    while x * x > float32(-1):  # <- finding: endless kernel
        x += float32(1)  # <- finding: endless kernel
    out[i] = x


def endless(a, out):
    endless_kernel[1, 32](a, out)


module = cupy.RawModule(
    code=r"""
extern "C" __global__ void both_branches(const int* a, int* out)
{
    int t = threadIdx.x;
    if (a[t] & 1) {
        __syncthreads();  // <- finding: divergent barrier
        out[t] = 1;
    } else {
        out[t] = 2;
        __syncthreads();  // <- finding: divergent barrier
    }
}

extern "C" __global__ void early_break(const int* a, int* out, int n)
{
    __shared__ int line[64];
    int t = threadIdx.x, total = 0;
    for (int k = 0; k < n; ++k) {
        line[t] = a[k] + t;
        __syncthreads();  // <- finding: divergent barrier
        total += line[63 - t];
        if (total > 100 * (t + 1)) break;
        __syncthreads();  // <- finding: divergent barrier
    }
    out[t] = total;
}

extern "C" __global__ void different_barriers(const int* a, int* out)
{
    int t = threadIdx.x;
    if (t < 32)
        asm volatile("bar.sync 1, 64;" ::: "memory");  // <- finding: deadlock
    else
        asm volatile("bar.sync 2, 64;" ::: "memory");  // <- finding: deadlock
    out[t] = a[t];
}

extern "C" __global__ void one_arrival_missing(const int* a, int* out)
{
    // 96 threads are expected, but the third warp goes by; later the whole block meets
    int t = threadIdx.x;
    if (t < 64) asm volatile("bar.sync 3, 96;" ::: "memory");  // <- finding: deadlock
    out[t] = a[t];
    __syncthreads();  // <- finding: deadlock
    out[t] += a[95 - t];
}

extern "C" __global__ void flag_that_nobody_sets(const int* a, int* out)
{
    __shared__ volatile int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x >= 32) {
        while (ready == 0) {}  // <- finding: endless kernel
        out[threadIdx.x] = a[threadIdx.x];
    }
}

extern "C" __global__ void lock_not_released(int* lock, int* out)
{
    int taken = 1;
    while (taken) taken = atomicExch(lock, 1);  // <- finding: endless kernel
    out[threadIdx.x] = threadIdx.x;
}

extern "C" __global__ void counter_stands_still(const int* a, int* out, int n)
{
    int total = 0;
    for (int k = 0; k < n;) {  // <- finding: endless kernel
        total += *(volatile const int*)(a + k);  // <- finding: endless kernel
        if (total == 77777777) ++k;  // <- finding: endless kernel
    }
    out[threadIdx.x] = total;
}

extern "C" __global__ void trapped(const float* a, float* out)
{
    int i = threadIdx.x;
    if (a[i] > 4.f) __trap();  // <- finding: trap
    out[i] = sqrtf(a[i]);
}

extern "C" __global__ void trap_in_one_warp(const int* a, int* out)
{
    int i = threadIdx.x;
    out[i] = a[i];
    __syncthreads();
    if (i >= 32 && out[63 - i] < 100) asm volatile("trap;");  // <- finding: trap
}
"""
)


def both_branches(a, out):
    module.get_function("both_branches")((1,), (THREADS,), (a, out))


def early_break(a, out):
    module.get_function("early_break")((1,), (THREADS,), (a, out, np.int32(a.size)))


def different_barriers(a, out):
    module.get_function("different_barriers")((1,), (THREADS,), (a, out))


def one_arrival_missing(a, out):
    module.get_function("one_arrival_missing")((1,), (96,), (a, out))


def flag_that_nobody_sets(a, out):
    module.get_function("flag_that_nobody_sets")((1,), (THREADS,), (a, out))


def lock_not_released(lock, out):
    module.get_function("lock_not_released")((1,), (32,), (lock, out))


def counter_stands_still(a, out):
    module.get_function("counter_stands_still")((1,), (32,), (a, out, np.int32(a.size)))


def trapped(a, out):
    module.get_function("trapped")((1,), (THREADS,), (a, out))


def trap_in_one_warp(a, out):
    module.get_function("trap_in_one_warp")((1,), (THREADS,), (a, out))
