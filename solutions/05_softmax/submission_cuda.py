"""Lab 05_softmax: out = softmax(scale * x) along the rows, over what the mask lets through, in CUDA C++."""

import cupy
import numpy as np

# BEGIN SOLUTION
# The same source is compiled for rows of several lengths. GROUP threads share a row and take it in chunks of
# GROUP * EACH elements, VECTOR at a time. They are some threads of a block, a block, or the blocks of a cluster. The
# last chunk stays in registers and the first KEPT chunks in shared memory; those between, of very long rows, are read
# again.
# END SOLUTION
SOURCE = r"""
// BEGIN SOLUTION
constexpr unsigned ALL = 0xffffffff;  // lanes that take part in a shuffle
constexpr float NOTHING = -1e30f;     // below every score, and yet a number: nothing minus nothing is 0
constexpr int CHUNK = GROUP * EACH;   // elements
constexpr int BLOCKS = (GROUP + THREADS - 1) / THREADS;          // that share a row
constexpr int WARPS = (GROUP < THREADS ? GROUP : THREADS) / 32;  // that share it, of each block

__device__ int lane() { return threadIdx.x % 32; }

// The largest of some elements, and the sum of 2^(element - largest).
struct __align__(8) Partial {
    float largest, sum;
};

// The same of all lanes of a warp, in every lane.
__device__ Partial of_a_warp(Partial p)
{
    float largest = p.largest;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, step));
    p.sum *= exp2f(p.largest - largest);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) p.sum += __shfl_xor_sync(ALL, p.sum, step);
    return {largest, p.sum};
}

// The blocks of a cluster run at the same time: they have a barrier in two halves, which all their threads reach, and
// can read each other's shared memory, here what block `rank` has in the place that `shared` is in this one.
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ Partial of_block(int rank, const Partial* shared)
{
    Partial p;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %2, %3;\n"
                 "ld.shared::cluster.v2.f32 {%0, %1}, [there]; }"
                 : "=f"(p.largest), "=f"(p.sum)
                 : "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(rank) : "memory");
    return p;
}

__device__ Partial of_a_row(Partial p)
{
    Partial none = {NOTHING, 0.0f};
    p = of_a_warp(p);
#if GROUP > 32
    __shared__ Partial warps[WARPS];
    if (lane() == 0) warps[threadIdx.x / 32] = p;
    __syncthreads();
    p = of_a_warp(lane() < WARPS ? warps[lane()] : none);
#endif
#if GROUP > THREADS
    __shared__ Partial block;
    if (threadIdx.x == 0) block = p;
    cluster_arrive();
    cluster_wait();
    p = of_a_warp(lane() < BLOCKS ? of_block(lane(), &block) : none);
    cluster_arrive();  // it has been read: the other half is at the end, as no block may leave while one still reads
#endif
    return p;
}

// The scores of a chunk: elements times scale, NOTHING where they are masked or beyond the row.
__device__ void read(const float* x, const unsigned char* mask, int first, int n, float scale, float* scores)
{
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

__device__ void write(float* out, int first, int n, const float* scores, Partial all)
{
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
// STARTER: extern "C" __global__ void __launch_bounds__(THREADS)
extern "C" __global__ void
#if GROUP > THREADS
__cluster_dims__(BLOCKS)
#endif
__launch_bounds__(THREADS)
// END SOLUTION
softmax_kernel(float scale, const float* __restrict__ x, const unsigned char* __restrict__ mask,
               float* __restrict__ out, int m, int n)
{
    // BEGIN SOLUTION
    // STARTER: // x, mask and out have m x n elements. Compute this block's rows here.
    extern __shared__ float4 kept[];  // EACH / 4 a thread for each kept chunk
    unsigned long long thread = (unsigned long long)blockIdx.x * THREADS + threadIdx.x;
    int row = thread / GROUP, start = unsigned(thread) % GROUP * VECTOR;
    if (row >= m) return;  // whole warps, and no other warp waits for them: a row of its own has no barrier
    int chunks = (n + CHUNK - 1) / CHUNK;
    long long at = (long long)row * n + start;
    x += at, mask += at, out += at, n -= start;  // this thread's, from here on
    scale *= 1.44269504f;  // e^s = 2^(s log2 e)

    float scores[EACH];
    Partial mine = {NOTHING, 0.0f};
    for (int c = 0; c < chunks; ++c) {
        read(x, mask, c * CHUNK, n, scale, scores);
        float largest = mine.largest, sum = 0.0f;
#pragma unroll
        for (int e = 0; e < EACH; ++e) largest = fmaxf(largest, scores[e]);
#pragma unroll
        for (int e = 0; e < EACH; ++e) sum += exp2f(scores[e] - largest);
        mine = {largest, mine.sum * exp2f(mine.largest - largest) + sum};
        if (c < KEPT) {
#pragma unroll
            for (int e = 0; e < EACH; e += 4)
                kept[(c * EACH + e) / 4 * THREADS + threadIdx.x] =
                    make_float4(scores[e], scores[e + 1], scores[e + 2], scores[e + 3]);
        }
    }
    Partial all = of_a_row(mine);
    write(out, (chunks - 1) * CHUNK, n, scores, all);
    for (int c = chunks - 2; c >= 0; --c) {  // from the end: what was read last is likeliest to be in a cache
        if (c < KEPT) {
#pragma unroll
            for (int e = 0; e < EACH; e += 4) {
                float4 four = kept[(c * EACH + e) / 4 * THREADS + threadIdx.x];
                scores[e] = four.x, scores[e + 1] = four.y, scores[e + 2] = four.z, scores[e + 3] = four.w;
            }
        } else {
            read(x, mask, c * CHUNK, n, scale, scores);
        }
        write(out, c * CHUNK, n, scores, all);
    }
#if GROUP > THREADS
    cluster_wait();
#endif
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
LONGER = (512, 1024, 16, 3)  # a cluster of two blocks: 65,536 elements stay on two SMs
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
    shared = 4 * kept * each * threads
    if shared > 48 << 10:
        softmax_kernel.max_dynamic_shared_size_bytes = shared
    blocks = max(1, group // threads)  # that share a row
    rows = max(1, threads // group)  # that share a block
    arguments = (np.float32(scale), x, mask, out, np.int32(m), np.int32(n))
    softmax_kernel(((m + rows - 1) // rows * blocks,), (threads,), arguments, shared_mem=shared)
    # END SOLUTION
