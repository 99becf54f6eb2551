# expect: all: passed: sums, prefixes and flags in arrays of their own, with a fence on either side of each flag
import cupy
import numpy as np

kernel = cupy.RawKernel(
    r"""
extern "C" __global__ void kernel(const float* x, int limit, float* out, int* count, int* flags, int* sums,
                                  int* prefixes, unsigned* ticket, int n) {
    __shared__ float kept[4096];
    __shared__ int warps[8], tile, before;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
    __syncthreads();
    float values[16];
    unsigned masks[16];
    int own = 0;
#pragma unroll
    for (int e = 0; e < 16; ++e) {
        int i = tile * 4096 + warp * 512 + e * 32 + lane;
        values[e] = i < n ? x[i] : 0.0f;
        masks[e] = __ballot_sync(~0u, i < n && values[e] > limit);
        own += __popc(masks[e]);
    }
    if (lane == 0) warps[warp] = own;
    __syncthreads();
    int place = 0, total = 0;
    for (int w = 0; w < 8; ++w) {
        if (w < warp) place += warps[w];
        total += warps[w];
    }
#pragma unroll
    for (int e = 0; e < 16; ++e) {
        if (masks[e] >> lane & 1) kept[place + __popc(masks[e] & ((1u << lane) - 1))] = values[e];
        place += __popc(masks[e]);
    }
    if (threadIdx.x == 0) {
        sums[tile] = total;
        __threadfence();
        atomicExch(flags + tile, 1);
        int earlier = 0;
        for (int at = tile - 1; at >= 0; --at) {
            int flag;
            do flag = atomicAdd(flags + at, 0); while (flag == 0);
            __threadfence();
            if (flag == 2) {
                earlier += prefixes[at];
                break;
            }
            earlier += sums[at];
        }
        prefixes[tile] = earlier + total;
        __threadfence();
        atomicExch(flags + tile, 2);
        before = earlier;
        if (tile == gridDim.x - 1) *count = earlier + total;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < total; i += 256) out[before + i] = kept[i];
}
""",
    "kernel",
)


def compact(x, limit, out, count):
    tiles = (x.size + 4095) // 4096
    flags, sums, prefixes = (cupy.zeros(tiles, np.int32) for _ in range(3))
    ticket = cupy.zeros(1, np.uint32)
    kernel((tiles,), (256,), (x, np.int32(limit), out, count, flags, sums, prefixes, ticket, np.int32(x.size)))
