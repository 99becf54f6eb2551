# expect: all: passed: a tile of 16 rows in dynamic shared memory, one-dimensional blocks
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(const float* a, float* out, unsigned m, unsigned n) {
    extern __shared__ float tile[];  // 16 rows of 32, two elements longer each: two half rows a warp
    unsigned row0 = blockIdx.y * 16, col0 = blockIdx.x * 32;
    for (unsigned e = threadIdx.x; e < 16 * 32; e += blockDim.x) {
        unsigned i = row0 + e / 32, j = col0 + e % 32;
        if (i < m && j < n) tile[e / 32 * 34 + e % 32] = a[(size_t)i * n + j];
    }
    __syncthreads();
    for (unsigned e = threadIdx.x; e < 16 * 32; e += blockDim.x) {
        unsigned i = row0 + e % 16, j = col0 + e / 16;
        if (i < m && j < n) out[(size_t)j * m + i] = tile[e % 16 * 34 + e / 16];
    }
}
""",
    "kernel",
)


def transpose(a, out):
    m, n = a.shape
    kernel(((n + 31) // 32, (m + 15) // 16), (128,), (a, out, np.uint32(m), np.uint32(n)), shared_mem=16 * 34 * 4)
