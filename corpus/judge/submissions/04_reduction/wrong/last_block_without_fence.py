# expect: safety: race: the block that finishes last reads sums that nothing makes visible to it
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
__device__ unsigned finished;

extern "C" __global__ void kernel(const float* x, float* out, float* sums, long long n) {
    __shared__ float warps[8];
    __shared__ bool last;
    float s = 0.0f;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) s += x[i];
    for (int step = 16; step > 0; step /= 2) s += __shfl_down_sync(0xffffffff, s, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        s = 0.0f;
        for (int w = 0; w < 8; ++w) s += warps[w];
        sums[blockIdx.x] = s;
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;  // wraps to zero for the next launch
    }
    __syncthreads();
    if (last && threadIdx.x < 32) {
        s = 0.0f;
        for (int b = threadIdx.x; b < gridDim.x; b += 32) s += sums[b];
        for (int step = 16; step > 0; step /= 2) s += __shfl_down_sync(0xffffffff, s, step);
        if (threadIdx.x == 0) *out = s;
    }
}
""",
    "kernel",
)


def total(x, out):
    blocks = min(64, (x.size + 1023) // 1024)
    sums = cupy.empty(blocks, dtype=np.float32)
    kernel((blocks,), (256,), (x, out, sums, np.int64(x.size)))
