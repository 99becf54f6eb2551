# expect: correctness: launch error: more dynamic shared memory than any block may have
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(float alpha, const float* x, const float* y, float* out, int n) {
    extern __shared__ float staged[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        staged[threadIdx.x] = x[i];
        out[i] = alpha * staged[threadIdx.x] + y[i];
    }
}
""",
    "kernel",
)
kernel.max_dynamic_shared_size_bytes = 1 << 20


def axpy(alpha, x, y, out):
    args = (np.float32(alpha), x, y, out, np.int32(out.size))
    kernel(((out.size + 255) // 256,), (256,), args, shared_mem=1 << 20)
