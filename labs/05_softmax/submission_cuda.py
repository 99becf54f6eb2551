"""Lab 05_softmax: out = softmax(scale * x) along the rows, over what the mask lets through, in CUDA C++."""

import cupy
import numpy as np

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
softmax_kernel(float scale, const float* __restrict__ x, const unsigned char* __restrict__ mask,
               float* __restrict__ out, int m, int n)
{
    // x, mask and out have m x n elements. Compute this block's rows here.
}
"""


def softmax(scale, x, mask, out):
    """Softmax along rows. scale is a Python float; x and out are m x n of float32, mask m x n of uint8; in C order."""
    m, n = x.shape
    softmax_kernel = cupy.RawKernel(SOURCE, "softmax_kernel", ("-DTHREADS=128",))
    arguments = (np.float32(scale), x, mask, out, np.int32(m), np.int32(n))
    softmax_kernel((m,), (128,), arguments)
