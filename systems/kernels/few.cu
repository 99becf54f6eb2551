// Products of many lines with a few vectors, by mma.sync straight from global memory: no ring of stages, no tiles of
// shared memory. A warp has 16 lines (64, LINES_DOWN), EIGHTS times 8 vectors, and steps of k; WARPS warps of a block and
// SPLITS blocks of a cluster share the k of the same lines and add up their sums, always in the same order. Lines have k
// side by side in memory or, LINES_DOWN, lie side by side. LOOSE: they begin anywhere. WIDE: a vector's k lies side by
// side, from multiples of 16 bytes on; other vectors are read element by element. mma's order of k is ours to choose, as
// long as both factors have the same one: it is the order in which a thread's elements lie in memory. It follows
// loose.cuh.
#define LINES (LINES_DOWN ? 64 : 16)
#define DEPTH (LINES_DOWN ? 16 : 32)  // of k in a step
#define QUARTERS (LINES_DOWN ? 4 : 1)  // products of 16 lines
#define VECTORS (8 * EIGHTS)
#define PITCH (VECTORS + 2)  // floats from line to line of sums
#define THREADS (32 * WARPS)

__device__ void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ half16 rounded(float x)
{
    half16 r;
    asm("cvt.rn." TYPE ".f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}
// Eight elements, zeros behind the first `elements`.
__device__ uint4 read(const half16* from, const Lines& of, int elements)
{
    if (elements <= 0) return make_uint4(0, 0, 0, 0);
    if (!LOOSE && elements >= 8) return __ldg((const uint4*)from);
    return read_loose(from, of, min(8, elements));
}
struct Vectors { const half16* from; long long step, next; int count, k; };  // elements to the next of k, vector to vector
// COUNT elements of a vector from position p on, zeros behind the last one.
template <int COUNT> __device__ void read_vector(u32 (&to)[COUNT / 2], const Vectors& of, int vector, int p)
{
    const half16* from = of.from + vector * of.next + p * of.step;
    const int some = vector < of.count ? of.k - p : 0;
    if (WIDE && some >= COUNT) {
        if (COUNT == 8) *(uint4*)to = __ldg((const uint4*)from);
        else *(uint2*)to = __ldg((const uint2*)from);
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
        const u32 low = 2 * i < some ? __ldg(from + 2 * i * of.step) : 0;
        const u32 high = 2 * i + 1 < some ? __ldg(from + (2 * i + 1) * of.step) : 0;
        to[i] = low | high << 16;
    }
}
#if SPLITS > 1
__device__ float read_peer(u32 address, u32 rank)  // shared memory of another block of the cluster
{
    float r;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [there]; }" : "=f"(r) : "r"(address), "r"(rank) : "memory");
    return r;
}
__device__ void sync_blocks()
{
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
#endif

extern "C" __global__ void
#if SPLITS > 1
__cluster_dims__(SPLITS, 1, 1)
#endif
__launch_bounds__(THREADS)
product(half16* __restrict__ c, long long c_line, long long c_vector, int lines, int vectors, int k,
        const half16* __restrict__ l_from, u64 extent, u64 pitch,
        const half16* __restrict__ x_from, long long x_step, long long x_next)  // strides in elements
{
    extern __shared__ __align__(16) float sums[];  // WARPS x LINES x PITCH
    const Lines of = {l_from, l_from + extent, pitch};
    const Vectors x_of = {x_from, x_step, x_next, vectors, k};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int rank = blockIdx.x % SPLITS, line0 = blockIdx.x / SPLITS * LINES;
    float d[QUARTERS][EIGHTS][4] = {};
    constexpr int SPAN = DEPTH * STEPS;
#pragma unroll 1
    for (long long first = (rank * WARPS + warp) * SPAN; first < k; first += SPLITS * WARPS * SPAN) {
#if LINES_DOWN
        uint4 w[STEPS][4];
        u32 x[STEPS][EIGHTS][2];
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const int p = (int)first + s * DEPTH + 4 * t;
#pragma unroll
            for (int e = 0; e < 4; ++e)
                w[s][e] = read(l_from + (p + e) * pitch + line0 + 8 * g, of, p + e < k ? lines - line0 - 8 * g : 0);
#pragma unroll
            for (int j = 0; j < EIGHTS; ++j) read_vector<4>(x[s][j], x_of, 8 * j + g, p);
        }
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            u32 words[4][4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
                words[e][0] = w[s][e].x, words[e][1] = w[s][e].y, words[e][2] = w[s][e].z, words[e][3] = w[s][e].w;
#pragma unroll
            for (int q = 0; q < 4; ++q) {  // of two neighbouring lines, two of k each
                const u32 a0 = __byte_perm(words[0][q], words[1][q], 0x5410);
                const u32 a1 = __byte_perm(words[0][q], words[1][q], 0x7632);
                const u32 a2 = __byte_perm(words[2][q], words[3][q], 0x5410);
                const u32 a3 = __byte_perm(words[2][q], words[3][q], 0x7632);
#pragma unroll
                for (int j = 0; j < EIGHTS; ++j) multiply(d[q][j], a0, a1, a2, a3, x[s][j][0], x[s][j][1]);
            }
        }
#else
        uint4 w[STEPS][2];
        u32 x[STEPS][EIGHTS][4];
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const int p = (int)first + s * DEPTH + 8 * t;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int line = line0 + g + 8 * h;
                w[s][h] = read(l_from + line * pitch + p, of, line < lines ? k - p : 0);
            }
#pragma unroll
            for (int j = 0; j < EIGHTS; ++j) read_vector<8>(x[s][j], x_of, 8 * j + g, p);
        }
#pragma unroll
        for (int s = 0; s < STEPS; ++s)
#pragma unroll
            for (int j = 0; j < EIGHTS; ++j) {
                multiply(d[0][j], w[s][0].x, w[s][1].x, w[s][0].y, w[s][1].y, x[s][j][0], x[s][j][1]);
                multiply(d[0][j], w[s][0].z, w[s][1].z, w[s][0].w, w[s][1].w, x[s][j][2], x[s][j][3]);
            }
#endif
    }
#pragma unroll
    for (int q = 0; q < QUARTERS; ++q)
#pragma unroll
        for (int j = 0; j < EIGHTS; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int line = LINES_DOWN ? 8 * g + 2 * q + h : g + 8 * h;
                *(float2*)(sums + (warp * LINES + line) * PITCH + 8 * j + 2 * t) = make_float2(d[q][j][2 * h], d[q][j][2 * h + 1]);
            }
    __syncthreads();
    auto put = [&](int i, float sum) {
        const int line = line0 + i / VECTORS, vector = i % VECTORS;
        if (line < lines && vector < vectors) c[line * c_line + vector * c_vector] = rounded(sum);
    };
    auto place = [&](int i) {  // neighbours of c by neighbouring lanes
        return c_line == 1 ? i % LINES * VECTORS + i / LINES : i;
    };
    auto sum_of = [&](int i) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) sum += sums[(w * LINES + i / VECTORS) * PITCH + i % VECTORS];
        return sum;
    };
#if SPLITS == 1
    for (int n = threadIdx.x; n < LINES * VECTORS; n += THREADS) put(place(n), sum_of(place(n)));
#else
    for (int i = threadIdx.x; i < LINES * VECTORS; i += THREADS)  // each place is one thread's
        sums[i / VECTORS * PITCH + i % VECTORS] = sum_of(i);
    sync_blocks();
    for (int n = rank * THREADS + threadIdx.x; n < LINES * VECTORS; n += SPLITS * THREADS) {
        const int i = place(n);
        const u32 at = (u32)__cvta_generic_to_shared(sums + i / VECTORS * PITCH + i % VECTORS);
        float sum = 0;
#pragma unroll
        for (int s = 0; s < SPLITS; ++s) sum += read_peer(at, s);
        put(i, sum);
    }
    sync_blocks();  // no block leaves while a peer may still read it
#endif
}
