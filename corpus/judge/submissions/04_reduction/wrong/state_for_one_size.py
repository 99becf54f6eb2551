# expect: correctness: two runs disagree: a count of blocks that is never set back fits grids of one size
import cupy, numpy as np

m = cupy.RawModule(
    code=r"""

__device__ __forceinline__ float warp_sum(float v) { for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d); return v; }
__device__ __forceinline__ float block_sum(const float* x, int n, float* s) {
    float v = 0.f; int base = blockIdx.x * 4096 + threadIdx.x;
    #pragma unroll
    for (int k = 0; k < 16; ++k) { int i = base + k * 256; v += i < n ? x[i] : 0.f; }
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < 8 ? s[threadIdx.x] : 0.f;
    return threadIdx.x < 32 ? warp_sum(v) : 0.f;
}

__device__ unsigned c;
extern "C" __global__ void total(const float* x, float* out, int n, float* part) {
    __shared__ float s[8]; __shared__ bool last;
    float v = block_sum(x, n, s);
    if (threadIdx.x == 0) { part[blockIdx.x] = v; __threadfence(); last = atomicAdd(&c, 1u) % gridDim.x == gridDim.x - 1; __threadfence(); }
    __syncthreads();
    if (last && threadIdx.x < 32) { float t = 0.f; for (unsigned i = threadIdx.x; i < gridDim.x; i += 32) t += part[i]; t = warp_sum(t); if (threadIdx.x == 0) *out = t; }
}

"""
)


def total(x, out):
    blocks = (x.size + 4095) // 4096
    part = cupy.empty(blocks, np.float32)
    m.get_function("total")((blocks,), (256,), (x, out, np.int32(x.size), part))
