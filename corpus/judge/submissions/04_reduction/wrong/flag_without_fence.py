# expect: safety: race: blocks hand a running sum on by a flag, with no fence on either side
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(const float* x, float* out, float* sums, volatile int* flags, long long n) {
    __shared__ float warps[8];
    float s = 0.0f;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) s += x[i];
    for (int step = 16; step > 0; step /= 2) s += __shfl_down_sync(0xffffffff, s, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        s = 0.0f;
        for (int w = 0; w < 8; ++w) s += warps[w];
        if (blockIdx.x > 0) {
            while (flags[blockIdx.x - 1] == 0) {}
            s += sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = s;
        flags[blockIdx.x] = 1;
        if (blockIdx.x == gridDim.x - 1) *out = s;
    }
}
""",
    "kernel",
)


def total(x, out):
    blocks = min(64, (x.size + 1023) // 1024)
    sums = cupy.empty(blocks, dtype=np.float32)
    flags = cupy.zeros(blocks, dtype=np.int32)
    kernel((blocks,), (256,), (x, out, sums, flags, np.int64(x.size)))
