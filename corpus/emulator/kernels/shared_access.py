"""One access to shared memory per lane, at the index that an input array gives it: 1 to 16 bytes wide."""

import cupy
import numpy as np

TYPES = {1: "char", 2: "short", 4: "float", 8: "double", 16: "float4"}
SLOTS = 1056  # 32 * 33 elements

module = cupy.RawModule(
    code=r"""
constexpr int SLOTS = 1056;

template <typename T>
__global__ void load(const T* a, const int* index, T* out, unsigned lanes)
{
    __shared__ __align__(16) T tile[SLOTS];
    for (int i = threadIdx.x; i < SLOTS; i += 32) tile[i] = a[i];
    int from = index[threadIdx.x];
    __syncthreads();
    if (lanes >> threadIdx.x & 1) out[threadIdx.x] = tile[from];
}

template <typename T>
__global__ void store(const T* a, const int* index, T* out, unsigned lanes)
{
    __shared__ __align__(16) T tile[SLOTS];
    T value = a[threadIdx.x];
    int to = index[threadIdx.x];
    if (lanes >> threadIdx.x & 1) tile[to] = value;
    __syncthreads();
    if (lanes >> threadIdx.x & 1) out[threadIdx.x] = tile[to];
}

extern "C" __global__ void pairs(const float2* a, const int* index, float* out)
{
    __shared__ float2 tile[SLOTS];
    for (int i = threadIdx.x; i < SLOTS; i += 32) tile[i] = a[i];
    int from = index[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[from].x;  // 4 bytes of 8
}

extern "C" __global__ void several_warps(const float* a, const int* index, float* out)
{
    __shared__ float tile[SLOTS];
    for (int i = threadIdx.x; i < SLOTS; i += blockDim.x) tile[i] = a[i];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[index[threadIdx.x] + blockIdx.x];
}
""",
    name_expressions=[f"{k}<{t}>" for k in ("load", "store") for t in TYPES.values()],
)


def load(a, index, out, width, lanes):
    """One launch for each row of `index`."""
    kernel = module.get_function(f"load<{TYPES[width]}>")
    for row in range(index.shape[0]):
        kernel((1,), (32,), (a, index[row], out[row], np.uint32(lanes)))


def store(a, index, out, width, lanes):
    """One launch for each row of `index`; reads back where it wrote."""
    kernel = module.get_function(f"store<{TYPES[width]}>")
    for row in range(index.shape[0]):
        kernel((1,), (32,), (a, index[row], out[row], np.uint32(lanes)))


def pairs(a, index, out):
    module.get_function("pairs")((1,), (32,), (a, index, out))


def several_warps(a, index, out):
    threads = index.size
    module.get_function("several_warps")((out.size // threads,), (threads,), (a, index, out))
