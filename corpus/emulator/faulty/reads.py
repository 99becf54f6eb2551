"""Reads of what nothing wrote, and writes to what is only to be read."""

import cupy
from numba import cuda, float32

THREADS = 64


@cuda.jit
def half_a_tile_kernel(a, out):
    tile = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    if t < THREADS // 2:
        tile[t] = a[t]
    cuda.syncthreads()
    out[t] = tile[t]  # <- finding: uninitialised read


def half_a_tile(a, out):
    half_a_tile_kernel[1, THREADS](a, out)


@cuda.jit
def accumulate_kernel(a, total):
    i = cuda.grid(1)
    total[i] += a[i]  # <- finding: uninitialised read


@cuda.jit
def copy_kernel(a, out):
    i = cuda.grid(1)
    out[i] = a[i]


def scratch_never_cleared(a, out):
    total = cuda.device_array_like(a)
    accumulate_kernel[1, a.size](a, total)
    copy_kernel[1, a.size](total, out)


@cuda.jit
def in_place_kernel(a):
    i = cuda.grid(1)
    a[i] = a[i] * float32(2)  # <- finding: input modified


def in_place(a, out):
    in_place_kernel[1, a.size](a)
    copy_kernel[1, a.size](a, out)


module = cupy.RawModule(
    code=r"""
extern "C" __global__ void no_store(const float* a, float* out)
{
    extern __shared__ float tile[];
    int t = threadIdx.x;
    if (a[t] > 1e30f) tile[t] = a[t];
    __syncthreads();
    out[t] = tile[t];  // <- finding: uninitialised read
}

extern "C" __global__ void counter_never_cleared(const int* a, int* out)
{
    __shared__ int count;
    if (a[threadIdx.x] > 0) atomicAdd(&count, 1);  // <- finding: uninitialised read
    __syncthreads();
    if (threadIdx.x == 0) out[0] = count;
}

extern "C" __global__ void last_row_missing(const float* a, float* scratch, int n)
{
    int i = threadIdx.x;
    if (i < n - 1) scratch[i] = a[i];
}

extern "C" __global__ void read_all(const float* scratch, float* out)
{
    out[threadIdx.x] = scratch[threadIdx.x];  // <- finding: uninitialised read
}

extern "C" __global__ void bytes_of_a_word(const unsigned char* a, unsigned* out)
{
    __shared__ __align__(4) unsigned char bytes[128];
    int t = threadIdx.x;
    if (t != 77) bytes[t] = a[t];
    __syncthreads();
    if (t < 32) out[t] = ((unsigned*)bytes)[t];  // <- finding: uninitialised read
}

extern "C" __global__ void sorted_in_place(float* a, float* out)
{
    int i = threadIdx.x;
    if (i % 2 == 0 && a[i] > a[i + 1]) {
        float kept = a[i];
        a[i] = a[i + 1];  // <- finding: input modified
        a[i + 1] = kept;  // <- finding: input modified
    }
    __syncthreads();
    out[i] = a[i];
}
"""
)


def no_store(a, out):
    module.get_function("no_store")((1,), (a.size,), (a, out), shared_mem=a.nbytes)


def counter_never_cleared(a, out):
    module.get_function("counter_never_cleared")((1,), (a.size,), (a, out))


def last_element_missing(a, out):
    scratch = cupy.empty(a.size, cupy.float32)
    module.get_function("last_row_missing")((1,), (a.size,), (a, scratch, a.size))
    module.get_function("read_all")((1,), (a.size,), (scratch, out))


def bytes_of_a_word(a, out):
    module.get_function("bytes_of_a_word")((1,), (128,), (a, out))


def sorted_in_place(a, out):
    module.get_function("sorted_in_place")((1,), (a.size,), (a, out))
