# expect: correctness: wrong answer: block 0 clears the sum, which is right only if it comes before all others
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(const float* x, float* out, long long n) {
    __shared__ float sums[8];
    int t = threadIdx.x;
    if (blockIdx.x == 0 && t == 0) atomicExch(out, 0.0f);
    float s = 0.0f;
    for (long long i = blockIdx.x * 2048LL + t; i < n && i < (blockIdx.x + 1) * 2048LL; i += 256) s += x[i];
    for (int step = 16; step > 0; step /= 2) s += __shfl_down_sync(0xffffffff, s, step);
    if (t % 32 == 0) sums[t / 32] = s;
    __syncthreads();
    if (t == 0) {
        for (int w = 1; w < 8; ++w) s += sums[w];
        atomicAdd(out, s);
    }
}
""",
    "kernel",
)


def total(x, out):
    kernel(((x.size + 2047) // 2048,), (256,), (x, out, np.int64(x.size)))
