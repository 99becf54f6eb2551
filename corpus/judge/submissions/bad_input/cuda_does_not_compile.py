# expect: correctness: compile error: an undeclared identifier, on line 9
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(float alpha, const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = alpha * x[i] + y[i];
}
""",
    "kernel",
)


def axpy(alpha, x, y, out):
    kernel(((out.size + 255) // 256,), (256,), (np.float32(alpha), x, y, out, np.int32(out.size)))
