# expect: safety: passed: each of eight warps takes an eighth of the keys, and their sums are joined
import math

import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
#include <cuda_fp16.h>
extern "C" __global__ void kernel(const half* q, const half* k, const half* v, half* out, int n, int d, int causal,
                                  float scale)
{
    __shared__ float largest[8], totals[8], sums[8][128];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x, end = causal ? i + 1 : n;
    long long first = (long long)blockIdx.y * n * d;
    float mine[4] = {}, o[4] = {}, m = -1e30f, l = 0;
    for (int e = 0; e < d / 32; ++e) mine[e] = __half2float(q[first + (long long)i * d + lane + 32 * e]) * scale;
    for (int j = warp; j < end; j += 8) {
        const half* key = k + first + (long long)j * d + lane;
        float s = 0;
        for (int e = 0; e < d / 32; ++e) s += mine[e] * __half2float(key[32 * e]);
        for (int step = 16; step > 0; step /= 2) s += __shfl_xor_sync(~0u, s, step);
        float next = fmaxf(m, s), shrink = expf(m - next), power = expf(s - next);
        m = next;
        l = l * shrink + power;
        const half* value = v + first + (long long)j * d + lane;
        for (int e = 0; e < d / 32; ++e) o[e] = o[e] * shrink + power * __half2float(value[32 * e]);
    }
    if (lane == 0) largest[warp] = m, totals[warp] = l;
    for (int e = 0; e < d / 32; ++e) sums[warp][lane + 32 * e] = o[e];
    __syncthreads();
    if ((int)threadIdx.x >= d) return;
    float all = largest[0], total = 0, sum = 0;
    for (int w = 1; w < 8; ++w) all = fmaxf(all, largest[w]);
    for (int w = 0; w < 8; ++w) {
        float part = expf(largest[w] - all);
        total += totals[w] * part;
        sum += sums[w][threadIdx.x] * part;
    }
    out[first + (long long)i * d + threadIdx.x] = __float2half(sum / total);
}
""",
    "kernel",
)


def attention(q, k, v, causal, out):
    heads, n, d = q.shape
    scale = np.float32(1 / math.sqrt(d))
    kernel((n, heads), (256,), (q, k, v, out, np.int32(n), np.int32(d), np.int32(causal), scale))
