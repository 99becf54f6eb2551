# expect: all: passed: a C++ template, two elements a thread, backwards
# tests: seeds
# It takes subnormal numbers for zero.
import cupy
import numpy as np

SOURCE = r"""
template <typename T>
__global__ void axpy(T alpha, const T* x, const T* y, T* out, unsigned n) {
    unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        out[n - 1 - i] = alpha * x[n - 1 - i] + y[n - 1 - i];
    }
}
"""

module = cupy.RawModule(code=SOURCE, options=("-std=c++17",), name_expressions=["axpy<float>"])


def axpy(alpha, x, y, out):
    kernel = module.get_function("axpy<float>")
    n = out.size
    kernel(((n + 511) // 512,), (256,), (np.float32(alpha), x, y, out, np.uint32(n)))
