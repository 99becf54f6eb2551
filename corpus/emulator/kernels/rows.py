"""Work on rows and neighbourhoods: softmax, layer norm, stencils, a sort."""

import cupy
import numpy as np
from numba import cuda, float32

THREADS = 64
HALO = 3
LINE = THREADS + 2 * HALO

module = cupy.RawModule(
    code=r"""
extern "C" __global__ void online_softmax(const float* a, float* out, int n)
{
    __shared__ float highs[2], totals[2];
    const float* row = a + blockIdx.x * n;
    float high = -1e30f, total = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = row[i], higher = fmaxf(high, v);
        total = total * expf(high - higher) + expf(v - higher);
        high = higher;
    }
    for (int step = 16; step > 0; step /= 2) {
        float h = __shfl_xor_sync(0xffffffff, high, step), t = __shfl_xor_sync(0xffffffff, total, step);
        float higher = fmaxf(high, h);
        total = total * expf(high - higher) + t * expf(h - higher);
        high = higher;
    }
    if (threadIdx.x % 32 == 0) {
        highs[threadIdx.x / 32] = high;
        totals[threadIdx.x / 32] = total;
    }
    __syncthreads();
    float higher = fmaxf(highs[0], highs[1]);
    total = totals[0] * expf(highs[0] - higher) + totals[1] * expf(highs[1] - higher);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = expf(row[i] - higher) / total;
}

extern "C" __global__ void layer_norm(const float* a, const float* gain, float* out, int n)
{
    __shared__ float part[64];
    const float* row = a + blockIdx.x * n;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 64) sum += row[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    float mean = part[0] / n;
    __syncthreads();
    sum = 0;
    for (int i = threadIdx.x; i < n; i += 64) sum += (row[i] - mean) * (row[i] - mean);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    float deviation = sqrtf(part[0] / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 64) out[blockIdx.x * n + i] = gain[i] * (row[i] - mean) / deviation;
}

extern "C" __global__ void bitonic(const int* a, int* out, int n)
{
    extern __shared__ int keys[];
    int t = threadIdx.x;
    keys[t] = a[t];
    __syncthreads();
    for (int size = 2; size <= n; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            int other = t ^ step;
            if (other > t) {
                bool up = (t & size) == 0;
                if ((keys[t] > keys[other]) == up) {
                    int kept = keys[t];
                    keys[t] = keys[other];
                    keys[other] = kept;
                }
            }
            __syncthreads();
        }
    out[t] = keys[t];
}

extern "C" __global__ void stencil_tiled(const float* a, float* out, int m, int n)
{
    __shared__ float tile[10][34];
    int x = threadIdx.x, y = threadIdx.y, j = blockIdx.x * 32 + x, i = blockIdx.y * 8 + y;
    for (int r = y; r < 10; r += 8)
        for (int c = x; c < 34; c += 32) {
            int row = blockIdx.y * 8 + r - 1, column = blockIdx.x * 32 + c - 1;
            bool inside = row >= 0 && row < m && column >= 0 && column < n;
            tile[r][c] = inside ? a[row * n + column] : 0.f;
        }
    __syncthreads();
    if (i < m && j < n)
        out[i * n + j] = 4.f * tile[y + 1][x + 1] - tile[y][x + 1] - tile[y + 2][x + 1] - tile[y + 1][x]
                         - tile[y + 1][x + 2];
}
"""
)


def online_softmax(a, out):
    m, n = a.shape
    module.get_function("online_softmax")((m,), (THREADS,), (a, out, np.int32(n)))


def layer_norm(a, gain, out):
    m, n = a.shape
    module.get_function("layer_norm")((m,), (THREADS,), (a, gain, out, np.int32(n)))


def bitonic(a, out):
    module.get_function("bitonic")((1,), (a.size,), (a, out, np.int32(a.size)), shared_mem=4 * a.size)


def stencil_tiled(a, out):
    m, n = a.shape
    module.get_function("stencil_tiled")((-(-n // 32), -(-m // 8)), (32, 8), (a, out, np.int32(m), np.int32(n)))


@cuda.jit
def stencil_line_kernel(a, out):
    line = cuda.shared.array(LINE, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    n = a.size
    line[t + HALO] = a[i] if i < n else float32(0)
    if t < HALO:
        line[t] = a[i - HALO] if i >= HALO else float32(0)
        right = i + THREADS
        line[t + HALO + THREADS] = a[right] if right < n else float32(0)
    cuda.syncthreads()
    if i < n:
        total = float32(0)
        for k in range(2 * HALO + 1):
            total += line[t + k]
        out[i] = total


def stencil_line(a, out):
    stencil_line_kernel[(a.size + THREADS - 1) // THREADS, THREADS](a, out)


@cuda.jit
def stencil_plain_kernel(a, out):
    j, i = cuda.grid(2)
    m, n = a.shape
    if i >= m or j >= n:
        return
    total = np.float32(4) * a[i, j]
    if i > 0:
        total -= a[i - 1, j]
    if i + 1 < m:
        total -= a[i + 1, j]
    if j > 0:
        total -= a[i, j - 1]
    if j + 1 < n:
        total -= a[i, j + 1]
    out[i, j] = total


def stencil_plain(a, out):
    m, n = a.shape
    stencil_plain_kernel[((n + 31) // 32, (m + 3) // 4), (32, 4)](a, out)


@cuda.jit
def heat_kernel(a, out):
    i = cuda.grid(1)
    if i < a.size:
        left = a[i - 1] if i > 0 else a[i]
        right = a[i + 1] if i + 1 < a.size else a[i]
        out[i] = np.float32(0.5) * a[i] + np.float32(0.25) * (left + right)


def heat(a, out, steps):
    """Several launches that swap two scratch arrays."""
    blocks = (a.size + THREADS - 1) // THREADS
    here, there = cuda.device_array_like(a), cuda.device_array_like(a)
    heat_kernel[blocks, THREADS](a, here)
    for _ in range(steps - 2):
        heat_kernel[blocks, THREADS](here, there)
        here, there = there, here
    heat_kernel[blocks, THREADS](here, out)
