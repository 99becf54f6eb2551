"""Loads and stores of 1, 2, 4, 8 and 16 bytes at a stride and an offset, through indexes, and by some lanes only."""

import cupy
import numpy as np
from numba import cuda

THREADS = 64
TYPES = {1: "char", 2: "short", 4: "float", 8: "double", 16: "float4"}

module = cupy.RawModule(
    code=r"""
template <typename T>
__global__ void load(const T* a, T* out, int stride, int offset, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[offset + i * stride];
}

template <typename T>
__global__ void store(const T* a, T* out, int stride, int offset, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[offset + i * stride] = a[i];
}

template <typename T>
__global__ void masked(const T* a, T* out, unsigned lanes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (lanes >> (i & 31) & 1) out[i] = a[i];
}

extern "C" __global__ void widths(const char* a, char* out)
{
    int i = threadIdx.x;
    ((char2*)out)[i] = ((const char2*)a)[i];
    ((char4*)(out + 64))[i] = ((const char4*)(a + 64))[i];
    ((short2*)(out + 192))[i] = ((const short2*)(a + 192))[i];
    ((int2*)(out + 320))[i] = ((const int2*)(a + 320))[i];
    ((uint4*)(out + 576))[i] = ((const uint4*)(a + 576))[i];
    ((longlong2*)(out + 1088))[i] = ((const longlong2*)(a + 1088))[i];
    ((float3*)(out + 1600))[i] = ((const float3*)(a + 1600))[i];
}

extern "C" __global__ void wide_to_narrow(const float4* a, float* out)
{
    int i = threadIdx.x;
    float4 v = a[i];
    out[i] = v.x;
    out[i + 32] = v.y;
    out[i + 64] = v.z;
    out[i + 96] = v.w;
}

extern "C" __global__ void hints(const float* __restrict__ a, const float* __restrict__ b, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = __ldg(a + i) + __ldcg(b + i);
    float y = __ldcs(a + (i ^ 1)) + __ldlu(b + (i ^ 1)) + __ldcv(b + i);
    __stcs(out + i, x);
    __stwt(out + n + i, y);
    __stcg(out + 2 * n + i, x * y);
}

extern "C" __global__ void nc_vectors(const float4* __restrict__ a, const short* __restrict__ b, float4* out)
{
    int i = threadIdx.x;
    float4 v = __ldg(a + i);
    short w = __ldg(b + i);
    out[i] = make_float4(v.w, v.z, v.y, v.x + w);
}

extern "C" __global__ void volatiles(volatile int* a, volatile int* out)
{
    int i = threadIdx.x;
    int first = a[i], second = a[i];  // both are made: the array is volatile
    out[i] = first;
    out[i] = first + second;
}
""",
    name_expressions=[f"{k}<{t}>" for k in ("load", "store", "masked") for t in TYPES.values()],
)


def load(a, out, width, stride, offset):
    n = out.nbytes // width
    kernel = module.get_function(f"load<{TYPES[width]}>")
    kernel((-(-n // THREADS),), (THREADS,), (a, out, np.int32(stride), np.int32(offset), np.int32(n)))


def store(a, out, width, stride, offset):
    n = a.nbytes // width
    kernel = module.get_function(f"store<{TYPES[width]}>")
    kernel((-(-n // THREADS),), (THREADS,), (a, out, np.int32(stride), np.int32(offset), np.int32(n)))


def masked(a, out, width, lanes):
    n = a.nbytes // width
    module.get_function(f"masked<{TYPES[width]}>")((1,), (n,), (a, out, np.uint32(lanes)))


def widths(a, out):
    module.get_function("widths")((1,), (32,), (a, out))


def wide_to_narrow(a, out):
    module.get_function("wide_to_narrow")((1,), (32,), (a, out))


def hints(a, b, out):
    n = a.size
    module.get_function("hints")((-(-n // THREADS),), (THREADS,), (a, b, out, np.int32(n)))


def nc_vectors(a, b, out):
    module.get_function("nc_vectors")((1,), (32,), (a, b, out))


def volatiles(a, out):
    module.get_function("volatiles")((1,), (a.size,), (a, out))


@cuda.jit
def gather_kernel(a, index, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[index[i]]


@cuda.jit
def scatter_kernel(a, index, out):
    i = cuda.grid(1)
    if i < a.size:
        out[index[i]] = a[i]


def gather(a, index, out):
    gather_kernel[(out.size + THREADS - 1) // THREADS, THREADS](a, index, out)


def scatter(a, index, out):
    scatter_kernel[(a.size + THREADS - 1) // THREADS, THREADS](a, index, out)


@cuda.jit
def columns_kernel(a, out):
    i = cuda.grid(1)
    if i < a.shape[0]:
        total = np.float32(0)
        for j in range(a.shape[1]):
            total += a[i, j]
        out[i] = total


@cuda.jit
def rows_kernel(a, out):
    j = cuda.grid(1)
    if j < a.shape[1]:
        total = np.float32(0)
        for i in range(a.shape[0]):
            total += a[i, j]
        out[j] = total


def sum_along_rows(a, out):
    """Each lane walks its own row: uncoalesced."""
    columns_kernel[1, 64](a, out)


def sum_along_columns(a, out):
    """Each lane walks its own column: coalesced."""
    rows_kernel[1, 64](a, out)


@cuda.jit
def copy_kernel(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i]


def copy(a, out):
    copy_kernel[(a.size + THREADS - 1) // THREADS, THREADS](a, out)


@cuda.jit
def grid_stride_kernel(a, out):
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        out[i] = a[i] + np.float32(1)


def grid_stride(a, out):
    grid_stride_kernel[2, 96](a, out)


@cuda.jit
def strided_view_kernel(a, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = a[i, j]


def strided_view(a, out):
    """A view with a step of two in both dimensions, transposed: the strides come with the array."""
    view = a[::2, 1::2].T
    strided_view_kernel[(2, 2), (8, 16)](view, out)


@cuda.jit
def volume_kernel(a, out):
    x, y, z = cuda.grid(3)
    if x < a.shape[0] and y < a.shape[1] and z < a.shape[2]:
        out[x, y, z] = a[x, y, z] * np.float32(2) + np.float32(cuda.threadIdx.z + 10 * cuda.blockIdx.y)


def volume(a, out):
    """Three-dimensional blocks: x is the fastest thread index, but the slowest of the array."""
    volume_kernel[(2, 3, 2), (4, 4, 5)](a, out)
