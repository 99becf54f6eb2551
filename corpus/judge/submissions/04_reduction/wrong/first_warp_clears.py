# expect: correctness: wrong answer: warp 0 clears the sum, and no barrier keeps the others from coming before
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(const float* x, float* out, long long n) {
    int t = threadIdx.x;
    if (t == 0) atomicExch(out, 0.0f);
    float s = 0.0f;
    for (long long i = t; i < n; i += 1024) s += x[i];
    for (int step = 16; step > 0; step /= 2) s += __shfl_down_sync(0xffffffff, s, step);
    if (t % 32 == 0) atomicAdd(out, s);
}
""",
    "kernel",
)


def total(x, out):
    kernel((1,), (1024,), (x, out, np.int64(x.size)))
