"""Sums and maxima of a block, by shared memory, shuffles and atomics, and scans."""

import cupy
import numpy as np
from numba import cuda, float32, int32

THREADS = 128


@cuda.jit
def interleaved_kernel(a, out):
    part = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    part[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        if t % (2 * step) == 0:
            part[t] += part[t + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@cuda.jit
def strided_kernel(a, out):
    part = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    part[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        i = 2 * step * t
        if i < THREADS:
            part[i] += part[i + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@cuda.jit
def sequential_kernel(a, out):
    part = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    part[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@cuda.jit
def shuffle_kernel(a, out):
    part = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    value = a[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if t % 32 == 0:
        part[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = part[t] if t < THREADS // 32 else float32(0)
        for step in (16, 8, 4, 2, 1):
            value += cuda.shfl_xor_sync(0xFFFFFFFF, value, step)
        if t == 0:
            out[cuda.blockIdx.x] = value


def _launch(kernel, a, out):
    kernel[a.size // THREADS, THREADS](a, out)


def interleaved(a, out):
    _launch(interleaved_kernel, a, out)


def strided(a, out):
    _launch(strided_kernel, a, out)


def sequential(a, out):
    _launch(sequential_kernel, a, out)


def shuffle(a, out):
    _launch(shuffle_kernel, a, out)


@cuda.jit
def finish_kernel(parts, out):
    total = float32(0)
    for i in range(parts.size):
        total += parts[i]
    out[0] = total


def two_passes(a, out):
    """The second launch reads what the first left in scratch memory."""
    parts = cuda.device_array(a.size // THREADS, np.float32)
    sequential_kernel[a.size // THREADS, THREADS](a, parts)
    finish_kernel[1, 1](parts, out)


@cuda.jit
def hillis_steele_kernel(a, out):
    buffers = cuda.shared.array((2, THREADS), int32)
    t = cuda.threadIdx.x
    here = 0
    buffers[0, t] = a[t]
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        there = 1 - here
        if t >= step:
            buffers[there, t] = buffers[here, t] + buffers[here, t - step]
        else:
            buffers[there, t] = buffers[here, t]
        here = there
        cuda.syncthreads()
        step *= 2
    out[t] = buffers[here, t]


def hillis_steele(a, out):
    hillis_steele_kernel[1, THREADS](a, out)


module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>

extern "C" __global__ void blelloch(const int* a, int* out, int n)
{
    extern __shared__ int part[];
    int t = threadIdx.x, offset = 1;
    part[2 * t] = a[2 * t];
    part[2 * t + 1] = a[2 * t + 1];
    for (int d = n / 2; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) part[offset * (2 * t + 2) - 1] += part[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) part[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int low = offset * (2 * t + 1) - 1, high = offset * (2 * t + 2) - 1;
            int kept = part[low];
            part[low] = part[high];
            part[high] += kept;
        }
    }
    __syncthreads();
    out[2 * t] = part[2 * t];
    out[2 * t + 1] = part[2 * t + 1];
}

extern "C" __global__ void warp_scan(const int* a, int* out)
{
    __shared__ int totals[32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, value = a[t];
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(0xffffffff, value, step);
        if (lane >= step) value += other;
    }
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int total = lane < blockDim.x / 32 ? totals[lane] : 0;
        for (int step = 1; step < 32; step *= 2) {
            int other = __shfl_up_sync(0xffffffff, total, step);
            if (lane >= step) total += other;
        }
        totals[lane] = total;
    }
    __syncthreads();
    out[t] = value + (warp ? totals[warp - 1] : 0);
}

extern "C" __global__ void warp_synchronous(const float* a, float* out)
{
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = a[t];
    part[t + 32] = a[t + 32];
    for (int step = 32; step > 0; step /= 2) {
        __syncwarp();
        float other = part[t + (t < step ? step : 0)];
        __syncwarp();
        if (t < step) part[t] += other;
    }
    __syncwarp();
    if (t == 0) out[0] = part[0];
}

extern "C" __global__ void shared_atomics(const int* a, int* sums)
{
    __shared__ int sum, low, high, ands, ors, xors;
    __shared__ unsigned up, down;
    if (threadIdx.x == 0) {
        sum = 0; low = 1 << 30; high = -(1 << 30); ands = -1; ors = 0; xors = 0; up = 0; down = 5;
    }
    __syncthreads();
    int v = a[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&sum, v);
    atomicMin(&low, v);
    atomicMax(&high, v);
    atomicAnd(&ands, v);
    atomicOr(&ors, v);
    atomicXor(&xors, v);
    atomicInc(&up, 100);
    atomicDec(&down, 9);
    __syncthreads();
    if (threadIdx.x == 0) {
        int* row = sums + blockIdx.x * 8;
        row[0] = sum; row[1] = low; row[2] = high; row[3] = ands; row[4] = ors; row[5] = xors; row[6] = up;
        row[7] = down;
    }
}

extern "C" __global__ void shared_atomic_loops(const int* a, float* floats, double* doubles, unsigned long long* wide)
{
    // Shared memory has no unit for these: they become loops of loads and compare-and-swap.
    __shared__ float total;
    __shared__ double sum;
    __shared__ unsigned long long squares;
    if (threadIdx.x == 0) { total = 0; sum = 0; squares = 0; }
    __syncthreads();
    int v = a[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&total, (float)(v % 8));
    atomicAdd(&sum, (double)v);
    atomicAdd(&squares, (unsigned long long)v * v);
    __syncthreads();
    if (threadIdx.x == 0) { floats[blockIdx.x] = total; doubles[blockIdx.x] = sum; wide[blockIdx.x] = squares; }
}

extern "C" __global__ void global_atomics(const int* a, int* out, float* floats, double* doubles,
                                          unsigned long long* wide)
{
    int v = a[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(out, v);
    atomicMin(out + 1, v);
    atomicMax(out + 2, v);
    atomicAnd(out + 3, v);
    atomicOr(out + 4, v);
    atomicXor(out + 5, v);
    atomicInc((unsigned*)out + 6, 40);
    atomicDec((unsigned*)out + 7, 40);
    atomicSub(out + 8 + threadIdx.x % 4, v);
    atomicAdd(floats + threadIdx.x % 2, (float)(v % 8));
    atomicAdd(doubles, (double)v);
    atomicAdd(wide, (unsigned long long)(unsigned)v);
    atomicMax(wide + 1, (unsigned long long)(unsigned)v << 20);
}

extern "C" __global__ void half_atomics(const float* a, __half2* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(out + i % 4, __floats2half2_rn(a[2 * i], a[2 * i + 1]));
}

extern "C" __global__ void cas_maximum(const float* a, int* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float mine = a[i];
    int old = *(volatile int*)out;
    while (__int_as_float(old) < mine) {
        int seen = atomicCAS(out, old, __float_as_int(mine));
        if (seen == old) break;
        old = seen;
    }
}

extern "C" __global__ void cas_double(const double* a, unsigned long long* out)
{
    double mine = a[blockIdx.x * blockDim.x + threadIdx.x];
    unsigned long long old = *(volatile unsigned long long*)out, assumed;
    do {
        assumed = old;
        old = atomicCAS(out, assumed, __double_as_longlong(__longlong_as_double(assumed) + mine));
    } while (old != assumed);
}

extern "C" __global__ void exchange(const int* a, int* slots, int* out)
{
    // Each slot is used by one lane: what comes back is certain.
    int i = threadIdx.x;
    out[i] = atomicExch(slots + i, a[i]);
    out[i + 32] = atomicAdd(slots + i, 3);
    out[i + 64] = atomicCAS(slots + i, a[i] + 3, 7);
    out[i + 96] = atomicMax(slots + i, 100);
}

extern "C" __global__ void spread_atomics(const int* index, int* out)
{
    atomicAdd(out + index[blockIdx.x * blockDim.x + threadIdx.x], 1);
}

extern "C" __global__ void histogram(const unsigned char* a, unsigned* out, int n)
{
    __shared__ unsigned bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(bins + a[i], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) if (bins[i]) atomicAdd(out + i, bins[i]);
}

extern "C" __global__ void last_block(const int* a, int* parts, unsigned* arrived, int* out)
{
    __shared__ int sum;
    __shared__ bool last;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, a[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int total = 0;
        for (int i = 0; i < gridDim.x; ++i) total += *(volatile int*)(parts + i);
        out[0] = total;
    }
}
"""
)


def blelloch(a, out):
    module.get_function("blelloch")((1,), (a.size // 2,), (a, out, np.int32(a.size)), shared_mem=4 * a.size)


def warp_scan(a, out):
    module.get_function("warp_scan")((1,), (a.size,), (a, out))


def warp_synchronous(a, out):
    module.get_function("warp_synchronous")((1,), (32,), (a, out))


def shared_atomics(a, sums):
    module.get_function("shared_atomics")((a.size // THREADS,), (THREADS,), (a, sums))


def shared_atomic_loops(a, floats, doubles, wide):
    module.get_function("shared_atomic_loops")((a.size // THREADS,), (THREADS,), (a, floats, doubles, wide))


def global_atomics(a, out, floats, doubles, wide):
    module.get_function("global_atomics")((a.size // THREADS,), (THREADS,), (a, out, floats, doubles, wide))


def half_atomics(a, out):
    module.get_function("half_atomics")((1,), (a.size // 2,), (a, out))


def cas_maximum(a, out):
    module.get_function("cas_maximum")((2,), (a.size // 2,), (a, out))


def cas_double(a, out):
    module.get_function("cas_double")((2,), (a.size // 2,), (a, out))


def exchange(a, slots, out):
    module.get_function("exchange")((1,), (32,), (a, slots, out))


def spread_atomics(index, out):
    module.get_function("spread_atomics")((2,), (index.size // 2,), (index, out))


def histogram(a, out):
    module.get_function("histogram")((2,), (96,), (a, out, np.int32(a.size)))


def last_block(a, out):
    blocks = a.size // THREADS
    parts = cupy.empty(blocks, cupy.int32)
    arrived = cupy.zeros(1, cupy.uint32)
    module.get_function("last_block")((blocks,), (THREADS,), (a, parts, arrived, out))


@cuda.jit
def atomic_numba_kernel(a, sums, extremes):
    i = cuda.grid(1)
    cuda.atomic.add(sums, i % sums.size, a[i])
    cuda.atomic.max(extremes, 0, a[i])
    cuda.atomic.min(extremes, 1, a[i])


def atomic_numba(a, sums, extremes):
    atomic_numba_kernel[a.size // THREADS, THREADS](a, sums, extremes)
