# expect: correctness: wrong answer: the elements keep their order, only the shape changes
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(const float* a, float* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i];
}
""",
    "kernel",
)


def transpose(a, out):
    kernel(((a.size + 255) // 256,), (256,), (a, out, np.int32(a.size)))
