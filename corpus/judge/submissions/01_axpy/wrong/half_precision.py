# expect: correctness: wrong answer: the arithmetic is done in float16
# tests: tolerances
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>
extern "C" __global__ void kernel(float alpha, const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __half2float(__hfma(__float2half(alpha), __float2half(x[i]), __float2half(y[i])));
}
""",
    "kernel",
)


def axpy(alpha, x, y, out):
    kernel(((out.size + 255) // 256,), (256,), (np.float32(alpha), x, y, out, np.int32(out.size)))
