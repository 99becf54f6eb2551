"""Lab 05_softmax: out = softmax(scale * x) along the rows, over what the mask lets through, in CUDA C++."""

import cupy
import numpy as np

# BEGIN SOLUTION
# The same source is compiled for rows of several lengths. GROUP threads share a row and take it in chunks of
# GROUP * EACH elements, VECTOR at a time. The last chunk stays in registers and the first KEPT chunks in shared memory;
# those between, of very long rows, are read again.
# END SOLUTION
SOURCE = r"""
// BEGIN SOLUTION
constexpr float NOTHING = -1e30f;  // below every score, and yet a number: nothing minus nothing is 0
constexpr int ROWS = THREADS / GROUP;

// The largest of some elements, and the sum of 2^(element - largest).
struct Partial {
    float largest, sum;
};

__device__ Partial join(Partial a, Partial b)
{
    float largest = fmaxf(a.largest, b.largest);
    return {largest, a.sum * exp2f(a.largest - largest) + b.sum * exp2f(b.largest - largest)};
}

__device__ Partial of_a_warp(Partial p)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        Partial other = {__shfl_xor_sync(0xffffffff, p.largest, step), __shfl_xor_sync(0xffffffff, p.sum, step)};
        p = join(p, other);
    }
    return p;
}

__device__ Partial of_a_row(Partial p)
{
    p = of_a_warp(p);
#if GROUP > 32
    __shared__ Partial warps[GROUP / 32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = p;
    __syncthreads();
    Partial none = {NOTHING, 0.0f};
    p = of_a_warp(threadIdx.x % 32 < GROUP / 32 ? warps[threadIdx.x % 32] : none);
#endif
    return p;
}

// The scores of chunk c: elements times scale, NOTHING where they are masked or beyond the row.
__device__ void read(const float* x, const unsigned char* mask, int c, int n, float scale, float* scores)
{
    int first = c * GROUP * EACH + threadIdx.x % GROUP * VECTOR;
#if VECTOR == 4
    float4 v[EACH / 4];
    uchar4 m[EACH / 4];
#pragma unroll
    for (int e = 0; e < EACH / 4; ++e) {  // all loads before the first use
        int j = first + e * GROUP * 4;
        v[e] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        m[e] = make_uchar4(0, 0, 0, 0);
        if (j < n) v[e] = *reinterpret_cast<const float4*>(x + j), m[e] = *reinterpret_cast<const uchar4*>(mask + j);
    }
#pragma unroll
    for (int e = 0; e < EACH / 4; ++e) {
        scores[4 * e] = m[e].x ? v[e].x * scale : NOTHING;
        scores[4 * e + 1] = m[e].y ? v[e].y * scale : NOTHING;
        scores[4 * e + 2] = m[e].z ? v[e].z * scale : NOTHING;
        scores[4 * e + 3] = m[e].w ? v[e].w * scale : NOTHING;
    }
#else
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        int j = first + e * GROUP;
        scores[e] = j < n && mask[j] ? x[j] * scale : NOTHING;
    }
#endif
}

__device__ void write(float* out, int c, int n, const float* scores, Partial all)
{
    int first = c * GROUP * EACH + threadIdx.x % GROUP * VECTOR;
    float factor = all.largest > NOTHING ? 1.0f / all.sum : 0.0f;
#pragma unroll
    for (int e = 0; e < EACH; e += VECTOR) {
        int j = first + e * GROUP;
        if (j < n) {
#if VECTOR == 4
            float4 v;
            v.x = exp2f(scores[e] - all.largest) * factor, v.y = exp2f(scores[e + 1] - all.largest) * factor;
            v.z = exp2f(scores[e + 2] - all.largest) * factor, v.w = exp2f(scores[e + 3] - all.largest) * factor;
            __stcs(reinterpret_cast<float4*>(out + j), v);  // nobody reads it soon: leave the caches to x
#else
            out[j] = exp2f(scores[e] - all.largest) * factor;
#endif
        }
    }
}
// END SOLUTION
extern "C" __global__ void __launch_bounds__(THREADS)
softmax_kernel(float scale, const float* __restrict__ x, const unsigned char* __restrict__ mask,
               float* __restrict__ out, int m, int n)
{
    // BEGIN SOLUTION
    // STARTER: // x, mask and out have m x n elements. Compute this block's rows here.
    extern __shared__ float4 kept[];  // EACH / 4 a thread for each kept chunk
    int row = blockIdx.x * ROWS + threadIdx.x / GROUP;
    if (row >= m) return;  // whole warps, and no other warp waits for them: a row of its own has no barrier
    x += (long long)row * n, mask += (long long)row * n, out += (long long)row * n;
    scale *= 1.44269504f;  // e^s = 2^(s log2 e)
    int chunks = (n + GROUP * EACH - 1) / (GROUP * EACH);

    float scores[EACH];
    Partial mine = {NOTHING, 0.0f};
    for (int c = 0; c < chunks; ++c) {
        read(x, mask, c, n, scale, scores);
        float largest = mine.largest, sum = 0.0f;
#pragma unroll
        for (int e = 0; e < EACH; ++e) largest = fmaxf(largest, scores[e]);
#pragma unroll
        for (int e = 0; e < EACH; ++e) sum += exp2f(scores[e] - largest);
        mine = {largest, mine.sum * exp2f(mine.largest - largest) + sum};
        if (c < KEPT) {
#pragma unroll
            for (int e = 0; e < EACH; e += 4)
                kept[(c * EACH + e) / 4 * GROUP + threadIdx.x] =
                    make_float4(scores[e], scores[e + 1], scores[e + 2], scores[e + 3]);
        }
    }
    Partial all = of_a_row(mine);
    write(out, chunks - 1, n, scores, all);
    for (int c = chunks - 2; c >= 0; --c) {  // from the end: what was read last is likeliest to be in a cache
        if (c < KEPT) {
#pragma unroll
            for (int e = 0; e < EACH; e += 4) {
                float4 four = kept[(c * EACH + e) / 4 * GROUP + threadIdx.x];
                scores[e] = four.x, scores[e + 1] = four.y, scores[e + 2] = four.z, scores[e + 3] = four.w;
            }
        } else {
            read(x, mask, c, n, scale, scores);
        }
        write(out, c, n, scores, all);
    }
    // END SOLUTION
}
"""
# BEGIN SOLUTION
# Rows up to `length` elements: threads a block, threads a row, elements a thread and chunk, chunks in shared memory.
SHAPES = (
    (128, 128, 32, 4, 0),
    (256, 128, 32, 8, 0),
    (512, 128, 32, 16, 0),
    (1024, 64, 64, 16, 0),
    (2048, 128, 128, 16, 0),
    (4096, 256, 256, 16, 0),
    (8192, 512, 512, 16, 0),
    (16384, 512, 512, 16, 1),
    (32768, 512, 512, 16, 3),
)
LONGER = (1024, 1024, 16, 3)  # 192 KB of shared memory: 65,536 elements stay on the SM
# END SOLUTION


def softmax(scale, x, mask, out):
    """Softmax along rows. scale is a Python float; x and out are m x n of float32, mask m x n of uint8; in C order."""
    m, n = x.shape
    # BEGIN SOLUTION
    # STARTER: softmax_kernel = cupy.RawKernel(SOURCE, "softmax_kernel", ("-DTHREADS=128",))
    # STARTER: arguments = (np.float32(scale), x, mask, out, np.int32(m), np.int32(n))
    # STARTER: softmax_kernel((m,), (128,), arguments)
    threads, group, each, kept = next((shape for length, *shape in SHAPES if n <= length), LONGER)
    vector = 4 if n % 4 == 0 else 1  # else rows begin anywhere, and a vector may not
    sizes = {"THREADS": threads, "GROUP": group, "EACH": each, "KEPT": kept, "VECTOR": vector}
    softmax_kernel = cupy.RawKernel(SOURCE, "softmax_kernel", tuple(f"-D{name}={sizes[name]}" for name in sizes))
    shared = 4 * kept * each * group
    if shared > 48 << 10:
        softmax_kernel.max_dynamic_shared_size_bytes = shared
    rows = threads // group
    arguments = (np.float32(scale), x, mask, out, np.int32(m), np.int32(n))
    softmax_kernel(((m + rows - 1) // rows,), (threads,), arguments, shared_mem=shared)
    # END SOLUTION
