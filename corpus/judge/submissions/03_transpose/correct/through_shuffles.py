# expect: all: passed: 8 x 8 tiles in the registers of a warp, exchanged by shuffles, no shared memory
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
// A warp holds an 8 x 8 tile; a lane has two elements of it, in rows lane / 8 and lane / 8 + 4.
extern "C" __global__ void kernel(const float* a, float* out, int m, int n) {
    int lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int across = (n + 7) / 8, down = (m + 7) / 8;
    if (warp >= across * down) return;
    int row0 = warp / across * 8, col0 = warp % across * 8, r = lane / 8, c = lane % 8;
    float low = 0, high = 0;
    if (row0 + r < m && col0 + c < n) low = a[(row0 + r) * n + col0 + c];
    if (row0 + r + 4 < m && col0 + c < n) high = a[(row0 + r + 4) * n + col0 + c];
    // Element (c, r) of the tile goes to row r of the result; it lies in lane (c % 4) * 8 + r, in `low` if c < 4.
    for (int half = 0; half < 2; ++half) {
        int column = r + 4 * half, source = (c % 4) * 8 + column;
        float first = __shfl_sync(0xffffffff, low, source), second = __shfl_sync(0xffffffff, high, source);
        if (col0 + column < n && row0 + c < m) out[(col0 + column) * m + row0 + c] = c < 4 ? first : second;
    }
}
""",
    "kernel",
)


def transpose(a, out):
    m, n = a.shape
    warps = ((m + 7) // 8) * ((n + 7) // 8)
    kernel(((warps + 3) // 4,), (128,), (a, out, np.int32(m), np.int32(n)))
