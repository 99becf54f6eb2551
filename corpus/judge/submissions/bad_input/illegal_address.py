# expect: safety: out of bounds: the kernel writes gigabytes away from its arrays
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(float alpha, const float* x, const float* y, float* out, int n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i + (1ll << 40)] = alpha * x[i] + y[i];
}
""",
    "kernel",
)


def axpy(alpha, x, y, out):
    kernel(((out.size + 255) // 256,), (256,), (np.float32(alpha), x, y, out, np.int32(out.size)))
