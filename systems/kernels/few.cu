// Products of many lines with a few vectors: lines are the rows or columns of the long factor, vectors those of the
// other. mma.sync takes its operands straight from global memory, without a ring of stages or tiles in shared memory.
// A warp multiplies 16 lines (64 with LINES_DOWN) with 8 * EIGHTS vectors, STEPS steps of k at a time. WARPS warps of a
// block and SPLITS blocks of a cluster share the k of the same lines. They add up their sums, always in the same order.
//   LINES_DOWN  neighbouring lines are contiguous in memory; otherwise k is
//   LOOSE       lines begin at any address, not at multiples of 16 bytes
//   WIDE        a vector is contiguous from a multiple of 16 bytes on; otherwise it is read element by element
// The order of k within a step is that in which a thread's elements lie in memory: mma gives the same sum for any order
// that both operands share. loose.cuh comes before this file.
#define LINES (LINES_DOWN ? 64 : 16)
#define DEPTH (LINES_DOWN ? 16 : 32)  // of k in a step
#define QUARTERS (LINES_DOWN ? 4 : 1)  // groups of 16 lines, one mma each
#define VECTORS (8 * EIGHTS)
#define PITCH (VECTORS + 2)  // floats from one line of sums to the next
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
// The first `some` elements one by one, then zeros: at the ends of lines and of the array.
template <int COUNT> __device__ void read_each(u32 (&to)[COUNT / 2], const half16* from, long long step, int some)
{
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
        const u32 low = 2 * i < some ? __ldg(from + 2 * i * step) : 0;
        const u32 high = 2 * i + 1 < some ? __ldg(from + (2 * i + 1) * step) : 0;
        to[i] = low | high << 16;
    }
}
// Eight elements of a line from any address. `load` starts the loads, so that several chunks are in flight. `read`
// shifts the loaded words to where the elements begin. whole: the words lie within the array.
struct Chunk {
    const half16* from;
    uint4 low, high;
    bool whole;
    __device__ void load(const half16* at, const Lines& of, bool there)
    {
        from = at, low = high = make_uint4(0, 0, 0, 0);
        const uint4* in = (const uint4*)((u64)at & ~15ull);
        whole = (const half16*)in >= of.from && (const half16*)(in + 1 + LOOSE) <= of.end;
        if (there && whole) {
            low = __ldg(in);
            if (LOOSE) high = __ldg(in + 1);
        }
    }
    __device__ void read(u32 (&to)[4]) const
    {
        u32 w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        const u32 shift = LOOSE ? (u64)from & 15 : 0;
#pragma unroll
        for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
        for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = __funnelshift_r(w[i], w[i + 1], shift % 4 * 8);
    }
};
struct Vectors { const half16* from; long long step, next; int k; };  // strides in elements: along k, between vectors
// COUNT elements of a vector from position p on, then zeros. With WIDE all zeros if k ends among them.
template <int COUNT> __device__ void read_vector(u32 (&to)[COUNT / 2], const Vectors& of, int vector, int p)
{
    const half16* from = of.from + vector * of.next + p * of.step;
    if (!WIDE) {
        read_each<COUNT>(to, from, of.step, of.k - p);
    } else if (COUNT == 8) {
        const uint4 all = p + COUNT <= of.k ? __ldg((const uint4*)from) : make_uint4(0, 0, 0, 0);
        to[0] = all.x, to[1] = all.y, to[COUNT / 2 - 2] = all.z, to[COUNT / 2 - 1] = all.w;
    } else {
        const uint2 all = p + COUNT <= of.k ? __ldg((const uint2*)from) : make_uint2(0, 0);
        to[0] = all.x, to[1] = all.y;
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
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int rank = blockIdx.x % SPLITS, line0 = blockIdx.x / SPLITS * LINES;
    const Vectors x_of = {x_from, x_step, x_next, k};
    float d[QUARTERS][EIGHTS][4] = {};
    constexpr int SPAN = DEPTH * STEPS, COUNT = DEPTH / 4, CHUNKS = LINES_DOWN ? 4 : 2;  // per thread and step
    // Beyond the last line or vector a thread reads another one, whose sums are not stored
    const int far = line0 + 8 * g < lines ? line0 + 8 * g : line0;
    auto at = [&](int p, int i) {  // where chunk i of the step at position p begins
        return LINES_DOWN ? l_from + (p + i) * pitch + far : l_from + min(line0 + g + 8 * i, lines - 1) * pitch + p;
    };
    auto elements = [&](int p, int i) {  // how many of its 8 elements have a place in k
        return LINES_DOWN ? (p + i < k ? 8 : 0) : min(8, max(0, k - p));
    };
#pragma unroll 1
    for (long long first = (rank * WARPS + warp) * SPAN; first < k; first += SPLITS * WARPS * SPAN) {
        Chunk chunks[STEPS][CHUNKS];
        u32 x[STEPS][EIGHTS][COUNT / 2], w[CHUNKS][4];
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const int p = (int)first + s * DEPTH + COUNT * t;
#pragma unroll
            for (int i = 0; i < CHUNKS; ++i) chunks[s][i].load(at(p, i), of, elements(p, i) == 8);
#pragma unroll
            for (int j = 0; j < EIGHTS; ++j) read_vector<COUNT>(x[s][j], x_of, min(8 * j + g, vectors - 1), p);
        }
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const int p = (int)first + s * DEPTH + COUNT * t;
#pragma unroll
            for (int i = 0; i < CHUNKS; ++i) {
                const int some = elements(p, i);
                chunks[s][i].read(w[i]);
                if (some && (some < 8 || !chunks[s][i].whole))
                    read_each<8>(w[i], at(p, i), 1, LINES_DOWN ? lines - far : some);
            }
            if (WIDE && p < k && k < p + COUNT) {
#pragma unroll
                for (int j = 0; j < EIGHTS; ++j)
                    read_each<COUNT>(x[s][j], x_from + min(8 * j + g, vectors - 1) * x_next + p, 1, k - p);
            }
            __syncwarp();
#if LINES_DOWN
#pragma unroll
            for (int q = 0; q < 4; ++q) {  // two neighbouring lines: pairs along k from their pairs of lines
                const u32 a0 = __byte_perm(w[0][q], w[1][q], 0x5410), a1 = __byte_perm(w[0][q], w[1][q], 0x7632);
                const u32 a2 = __byte_perm(w[2][q], w[3][q], 0x5410), a3 = __byte_perm(w[2][q], w[3][q], 0x7632);
#pragma unroll
                for (int j = 0; j < EIGHTS; ++j) multiply(d[q][j], a0, a1, a2, a3, x[s][j][0], x[s][j][1]);
            }
#else
#pragma unroll
            for (int j = 0; j < EIGHTS; ++j)
#pragma unroll
                for (int half = 0; half < 4; half += 2)
                    multiply(d[0][j], w[0][half], w[1][half], w[0][half + 1], w[1][half + 1], x[s][j][half],
                             x[s][j][half + 1]);
#endif
        }
    }
    auto put = [&](int line, int vector, float sum) {
        if (line0 + line < lines && vector < vectors) c[(line0 + line) * c_line + vector * c_vector] = rounded(sum);
    };
#pragma unroll
    for (int q = 0; q < QUARTERS; ++q)
#pragma unroll
        for (int j = 0; j < EIGHTS; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int line = LINES_DOWN ? 8 * g + 2 * q + h : g + 8 * h, vector = 8 * j + 2 * t;
                const float *two = d[q][j] + 2 * h;
#if WARPS * SPLITS == 1
                put(line, vector, two[0]), put(line, vector + 1, two[1]);
#else
                *(float2*)(sums + (warp * LINES + line) * PITCH + vector) = make_float2(two[0], two[1]);
#endif
            }
#if WARPS * SPLITS > 1
    __syncthreads();
    auto place = [&](int i) {  // so that neighbouring lanes write neighbouring elements of c
        return c_line == 1 ? i % LINES * VECTORS + i / LINES : i;
    };
    auto sum_of = [&](int i) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) sum += sums[(w * LINES + i / VECTORS) * PITCH + i % VECTORS];
        return sum;
    };
#if SPLITS == 1
    for (int n = threadIdx.x; n < LINES * VECTORS; n += THREADS) {
        const int i = place(n);
        put(i / VECTORS, i % VECTORS, sum_of(i));
    }
#else
    for (int i = threadIdx.x; i < LINES * VECTORS; i += THREADS)  // only this thread reads and writes place i
        sums[i / VECTORS * PITCH + i % VECTORS] = sum_of(i);
    sync_blocks();
    for (int n = rank * THREADS + threadIdx.x; n < LINES * VECTORS; n += SPLITS * THREADS) {
        const int i = place(n);
        const u32 at = (u32)__cvta_generic_to_shared(sums + i / VECTORS * PITCH + i % VECTORS);
        float sum = 0;
#pragma unroll
        for (int s = 0; s < SPLITS; ++s) sum += read_peer(at, s);
        put(i / VECTORS, i % VECTORS, sum);
    }
    sync_blocks();  // no block leaves while a peer may still read it
#endif
#endif
}
