"""Accesses outside of arrays, at addresses that are not aligned, and through a null pointer."""

import cupy
import numpy as np
from numba import cuda, float32, int32

THREADS = 64
LINE = 64


@cuda.jit
def neighbour_kernel(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] + a[i + 1]  # <- finding: out of bounds


def neighbour(a, out):
    neighbour_kernel[(a.size + THREADS - 1) // THREADS, THREADS](a, out)


@cuda.jit
def no_guard_kernel(a, out):
    i = cuda.grid(1)
    x = a[i] if i < a.size else float32(0)
    out[i] = x  # <- finding: out of bounds


def no_guard(a, out):
    no_guard_kernel[(a.size + THREADS - 1) // THREADS, THREADS](a, out)


@cuda.jit
def rows_for_columns_kernel(a, out):
    j, i = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[i, j] = a[j, i]  # <- finding: out of bounds


def rows_for_columns(a, out):
    """a is not square; its last rows are read beyond its end."""
    rows_for_columns_kernel[(4, 4), (16, 16)](a, out)


@cuda.jit
def shared_halo_kernel(a, out):
    line = cuda.shared.array(LINE, float32)
    t = cuda.threadIdx.x
    line[t] = a[t]
    cuda.syncthreads()
    out[t] = line[t] + line[t + 1]  # <- finding: out of bounds


def shared_halo(a, out):
    shared_halo_kernel[1, LINE](a, out)


@cuda.jit
def dynamic_too_small_kernel(a, out):
    line = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    line[t] = a[t]  # <- finding: out of bounds
    cuda.syncthreads()
    out[t] = line[t]  # <- finding: out of bounds


def dynamic_too_small(a, out):
    dynamic_too_small_kernel[1, a.size, 0, 4 * (a.size - 1)](a, out)


@cuda.jit
def local_array_kernel(a, out):
    i = cuda.grid(1)
    counts = cuda.local.array(8, int32)
    for k in range(8):
        counts[k] = 0
    for k in range(a.shape[1]):
        counts[a[i, k]] += 1  # <- finding: out of bounds
    out[i] = counts[3]


def local_array(a, out):
    """A data-dependent index of 8 into an array of 8."""
    local_array_kernel[1, a.shape[0]](a, out)


module = cupy.RawModule(
    code=r"""
extern "C" __global__ void at_most_n(const float* a, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = 2.f;  // <- finding: out of bounds
}

extern "C" __global__ void before_the_first(const float* a, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i - 1];  // <- finding: out of bounds
}

extern "C" __global__ void last_vector(const float* a, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i < n) {
        float4 v = ((const float4*)a)[i];  // <- finding: out of bounds
        out[i] = v.x + v.y + v.z + v.w;
    }
}

extern "C" __global__ void bad_index(const int* index, float* out)
{
    out[index[threadIdx.x]] = 1.f;  // <- finding: out of bounds
}

extern "C" __global__ void bad_bin(const int* a, int* out)
{
    atomicAdd(out + a[threadIdx.x], 1);  // <- finding: out of bounds
}

extern "C" __global__ void overflow(const float* a, float* out)
{
    int i = threadIdx.x + 40000;
    out[threadIdx.x] = a[i * i - 1600000000];  // <- finding: out of bounds
}

extern "C" __global__ void too_many_warps(const float* a, float* out)
{
    __shared__ float parts[2];  // for two warps, launched with three
    int t = threadIdx.x;
    float v = a[t];
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffff, v, step);
    if (t % 32 == 0) parts[t / 32] = v;  // <- finding: out of bounds
    __syncthreads();
    if (t == 0) out[0] = parts[0] + parts[1];
}

extern "C" __global__ void cut_in_two(const float* a, float* out)
{
    int i = threadIdx.x;
    float4 v = *(const float4*)(a + 4 * i + 1);  // <- finding: misaligned address
    out[i] = v.x + v.w;
}

extern "C" __global__ void double_at_a_float(const float* a, float* out)
{
    ((double*)(out + 1))[threadIdx.x] = a[threadIdx.x];  // <- finding: misaligned address
}

extern "C" __global__ void odd_row(const float* a, float* out)
{
    __shared__ __align__(16) float tile[4][33];
    int t = threadIdx.x;
    for (int r = 0; r < 4; ++r) tile[r][t] = a[32 * r + t];
    __syncthreads();
    float2 v = *(const float2*)&tile[t / 8][t % 8 * 2];  // <- finding: misaligned address
    out[t] = v.x - v.y;
}

extern "C" __global__ void odd_atomic(unsigned char* out)
{
    atomicAdd((unsigned*)(out + 2), 1u);  // <- finding: misaligned address
}

extern "C" __global__ void optional(const float* a, const float* bias, float* out)
{
    int i = threadIdx.x;
    out[i] = a[i] + bias[i];  // <- finding: null pointer
}

extern "C" __global__ void optional_output(const float* a, float* out, float* copy)
{
    int i = threadIdx.x;
    out[i] = a[i];
    copy[i] = a[i];  // <- finding: null pointer
}
"""
)


def at_most_n(a, out):
    module.get_function("at_most_n")((2,), (THREADS,), (a, out, np.int32(out.size)))


def before_the_first(a, out):
    module.get_function("before_the_first")((1,), (THREADS,), (a, out, np.int32(a.size)))


def last_vector(a, out):
    module.get_function("last_vector")((1,), (THREADS,), (a, out, np.int32(a.size)))


def bad_index(index, out):
    module.get_function("bad_index")((1,), (index.size,), (index, out))


def bad_bin(a, out):
    module.get_function("bad_bin")((1,), (a.size,), (a, out))


def overflow(a, out):
    module.get_function("overflow")((1,), (out.size,), (a, out))


def too_many_warps(a, out):
    module.get_function("too_many_warps")((1,), (96,), (a, out))


def cut_in_two(a, out):
    module.get_function("cut_in_two")((1,), (out.size,), (a, out))


def double_at_a_float(a, out):
    module.get_function("double_at_a_float")((1,), (a.size,), (a, out))


def odd_row(a, out):
    module.get_function("odd_row")((1,), (32,), (a, out))


def odd_atomic(out):
    module.get_function("odd_atomic")((1,), (1,), (out,))


def optional(a, out):
    module.get_function("optional")((1,), (a.size,), (a, None, out))


def optional_output(a, out):
    module.get_function("optional_output")((1,), (a.size,), (a, out, None))
