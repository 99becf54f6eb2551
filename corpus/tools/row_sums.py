"""The kernel of docs/tools.md: sums of a matrix's rows, slow by its access pattern and wrong by a missing barrier.

`python row_sums.py` runs it on a GPU, under any tool; `warplab run row_sums.py` runs it on the emulator.
"""

import cupy

ROWS, COLUMNS, THREADS = 1024, 4096, 256
row_sums = cupy.RawKernel(
    r"""
extern "C" __global__ void row_sums(const float* a, float* out, int columns) {
    __shared__ float part[256];
    const float* row = a + (size_t)blockIdx.x * columns;
    int own = columns / blockDim.x;
    float sum = 0.0f;
    for (int k = 0; k < own; ++k)
        sum += row[threadIdx.x * own + k];
    part[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}
""",
    "row_sums",
    options=("-lineinfo",),
)


def main(rows=ROWS):
    """Launch it once."""
    a = cupy.ones((rows, COLUMNS), dtype=cupy.float32)
    out = cupy.empty(rows, dtype=cupy.float32)
    row_sums((rows,), (THREADS,), (a, out, cupy.int32(COLUMNS)))
    return out


if __name__ == "__main__":
    main()
    cupy.cuda.Device().synchronize()
