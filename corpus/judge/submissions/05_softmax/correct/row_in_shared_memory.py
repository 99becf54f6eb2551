# expect: all: passed: the row waits in dynamic shared memory
# tests: seeds
import cupy
import numpy as np

module = cupy.RawModule(
    code=r"""
extern "C" __global__ void kernel(float scale, const float* x, const unsigned char* mask, float* out, int n) {
    extern __shared__ float row[];
    __shared__ float warps[8];
    x += (long long)blockIdx.x * n, mask += (long long)blockIdx.x * n, out += (long long)blockIdx.x * n;
    float largest = -1e30f, sum = 0.0f;
    for (int j = threadIdx.x; j < n; j += 256) {
        row[j] = mask[j] ? x[j] * scale : -1e30f;
        largest = fmaxf(largest, row[j]);
    }
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int w = 0; w < 8; ++w) largest = fmaxf(largest, warps[w]);
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += 256) {
        row[j] = row[j] > -1e30f ? expf(row[j] - largest) : 0.0f;
        sum += row[j];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < 8; ++w) sum += warps[w];
    for (int j = threadIdx.x; j < n; j += 256) out[j] = sum > 0.0f ? row[j] / sum : 0.0f;
}

extern "C" __global__ void long_rows(float scale, const float* x, const unsigned char* mask, float* out, int n) {
    x += (long long)blockIdx.x * n, mask += (long long)blockIdx.x * n, out += (long long)blockIdx.x * n;
    float largest = -1e30f, sum = 0.0f;
    for (int j = threadIdx.x; j < n; j += 32) if (mask[j]) largest = fmaxf(largest, x[j] * scale);
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    for (int j = threadIdx.x; j < n; j += 32) if (mask[j]) sum += expf(x[j] * scale - largest);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    for (int j = threadIdx.x; j < n; j += 32) out[j] = mask[j] ? expf(x[j] * scale - largest) / sum : 0.0f;
}
"""
)
kernel, long_rows = module.get_function("kernel"), module.get_function("long_rows")


def softmax(scale, x, mask, out):
    m, n = x.shape
    arguments = (np.float32(scale), x, mask, out, np.int32(n))
    if n <= 12000:
        kernel((m,), (256,), arguments, shared_mem=4 * n)
    else:
        long_rows((m,), (32,), arguments)
