// What one SM does in a cycle, asked of the SM itself: every kernel reads the SM's own clock around its work.
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ u32 sm_id() {
    u32 id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

__device__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Each block stays long enough for all others to find an SM of their own, and says where it ran.
extern "C" __global__ void where(u64 cycles, u32* sm) {
    u64 begin = clock64();
    while (clock64() - begin < cycles) {}
    if (threadIdx.x == 0) sm[blockIdx.x] = sm_id();
}

// Cycles of the SM's clock and nanoseconds of the wall's, over the same stretch.
extern "C" __global__ void two_clocks(u64 duration, u64* elapsed) {
    u64 edge = nanoseconds(), begin, now;
    while ((begin = nanoseconds()) == edge) {}  // begin at a tick of the slower clock
    u64 first = clock64();
    while ((now = nanoseconds()) - begin < duration) {}
    elapsed[0] = clock64() - first;
    elapsed[1] = now - begin;
}

// One arithmetic instruction each. Inline PTX, so that the compiler neither merges nor removes them. All operands are one
// register, so that reading operands never takes longer than the instruction itself; see FmaThree.
struct FmaF32 {
    typedef float T;
    static __device__ void step(T& x, T, T) { asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x)); }
};
struct FmaF64 {
    typedef double T;
    static __device__ void step(T& x, T, T) { asm volatile("fma.rn.f64 %0, %0, %0, %0;" : "+d"(x)); }
};
struct FmaF16x2 {
    typedef u32 T;
    static __device__ void step(T& x, T, T) { asm volatile("fma.rn.f16x2 %0, %0, %0, %0;" : "+r"(x)); }
};
struct MadS32 {
    typedef u32 T;
    static __device__ void step(T& x, T, T) { asm volatile("mad.lo.s32 %0, %0, %0, %0;" : "+r"(x)); }
};
struct Exp2F32 {
    typedef float T;
    static __device__ void step(T& x, T, T) { asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x)); }
};
struct PopcB32 {
    typedef u32 T;
    static __device__ void step(T& x, T, T) { asm volatile("popc.b32 %0, %0;" : "+r"(x)); }
};
struct ShuffleB32 {
    typedef u32 T;
    static __device__ void step(T& x, T, T) { asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;" : "+r"(x)); }
};

// The same as FmaF32, but the three operands are three registers.
struct FmaThree {
    typedef float T;
    static __device__ void step(T& x, T a, T b) { asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b)); }
};

// CHAINS independent chains of one instruction in every thread of one block; 256 instructions a step.
// One warp with one chain measures latency; many warps, or many chains, measure throughput.
template <class Op, int CHAINS>
__global__ void chains(int one, int zero, int steps, u64* ticks, u32* sink) {
    typename Op::T x[CHAINS], a = one, b = zero;  // from outside, lest the compiler know them
    #pragma unroll
    for (int i = 0; i < CHAINS; ++i) x[i] = typename Op::T(threadIdx.x + i);
    __syncthreads();
    u64 begin = clock64();
    #pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int n = 0; n < 256; ++n) Op::step(x[n % CHAINS], a, b);
    }
    u64 end = clock64();
    if (threadIdx.x % 32 == 0) {
        ticks[2 * (threadIdx.x / 32)] = begin;
        ticks[2 * (threadIdx.x / 32) + 1] = end;
    }
    u32 sum = 0;
    #pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum += u32(x[i]);
    if (sum == 0x9e3779b9u) *sink = sum;  // never, but the compiler cannot know
}

// A path of its own for each of up to 32 lanes: 512 dependent multiply-adds with constants that only this path has.
template <int PATH>
__device__ float follow(float x) {
    #pragma unroll 1
    for (int r = 0; r < 8; ++r) {
        #pragma unroll
        for (int n = 0; n < 64; ++n) x = fmaf(x, 1.0f + PATH / 1024.0f, PATH + 0.5f);
    }
    return x;
}

#define PATH(n) case n: x = follow<n>(x); break;
extern "C" __global__ void diverge(int paths, int steps, u64* ticks, u32* sink) {
    float x = threadIdx.x;
    int mine = threadIdx.x % paths;
    u64 begin = clock64();
    #pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        switch (mine) {
            PATH(0) PATH(1) PATH(2) PATH(3) PATH(4) PATH(5) PATH(6) PATH(7)
            PATH(8) PATH(9) PATH(10) PATH(11) PATH(12) PATH(13) PATH(14) PATH(15)
            PATH(16) PATH(17) PATH(18) PATH(19) PATH(20) PATH(21) PATH(22) PATH(23)
            PATH(24) PATH(25) PATH(26) PATH(27) PATH(28) PATH(29) PATH(30) PATH(31)
        }
        __syncwarp();
    }
    u64 end = clock64();
    if (threadIdx.x == 0) { ticks[0] = begin; ticks[1] = end; }
    if (x == 12345.678f) *sink = u32(x);
}

// Blocks of one warp that each keep VALUES floats in registers, and count how many of them an SM holds at once.
template <int VALUES>
__global__ void hold(u64 duration, const float* source, u32* here, u32* most, u32* sink) {
    float value[VALUES];
    #pragma unroll
    for (int i = 0; i < VALUES; ++i)
        asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(value[i]) : "l"(source + i));
    u32 sm = sm_id();
    if (threadIdx.x == 0) atomicMax(&most[sm], atomicAdd(&here[sm], 1) + 1);
    u64 begin = nanoseconds();
    while (nanoseconds() - begin < duration) {}
    if (threadIdx.x == 0) atomicSub(&here[sm], 1);
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < VALUES; ++i) sum += value[i];
    if (sum == 12345.678f) *sink = u32(sum);
}

// A word of shared memory that holds its own address: every load waits for the one before. Lane n begins at word
// n * stride, so that `stride` (a power of two) lanes meet in each bank that is used.
extern "C" __global__ void shared_chase(int stride, int hops, u64* ticks, u32* sink) {
    __shared__ u32 words[1024];
    u32 first = u32(__cvta_generic_to_shared(words));
    for (int i = threadIdx.x; i < 1024; i += 32) words[i] = first + 4 * i;
    __syncwarp();
    u32 p = first + 4 * (threadIdx.x * stride % 1024);
    for (int n = 0; n < 16; ++n) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(p));
    u64 begin = clock64();
    #pragma unroll 1
    for (int n = 0; n < hops; n += 32) {
        #pragma unroll
        for (int k = 0; k < 32; ++k) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(p));
    }
    u64 end = clock64();
    if (threadIdx.x == 0) { ticks[0] = begin; ticks[1] = end; }
    if (p == 1) *sink = p;
}

// 1024 threads read 16 bytes each, neighbours in turn; `flip` swaps two halves so that no load repeats the last one.
extern "C" __global__ void __launch_bounds__(1024) shared_read(int flip, int steps, u64* ticks, u32* sink) {
    __shared__ uint4 tile[2048];
    tile[threadIdx.x] = tile[threadIdx.x + 1024] = make_uint4(threadIdx.x, 1, 2, 3);
    __syncthreads();
    u32 sum = 0, at = threadIdx.x;
    u64 begin = clock64();
    #pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            uint4 v = tile[at ^ (k * 128)];
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
        at ^= flip;
    }
    u64 end = clock64();
    if (threadIdx.x % 32 == 0) {
        ticks[2 * (threadIdx.x / 32)] = begin;
        ticks[2 * (threadIdx.x / 32) + 1] = end;
    }
    if (sum == 0x9e3779b9u) *sink = sum;
}

// The same for 4 bytes a lane and any stride: how many cycles does a request take if `stride` lanes share a bank?
extern "C" __global__ void __launch_bounds__(1024) shared_strided(int stride, int flip, int steps, u64* ticks, u32* sink) {
    __shared__ u32 tile[8192];
    for (int i = threadIdx.x; i < 8192; i += 1024) tile[i] = i;
    __syncthreads();
    u32 sum = 0;
    const u32* at = tile + threadIdx.x % 32 * stride;
    u64 begin = clock64();
    #pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int k = 0; k < 8; ++k) sum += at[1024 * k];
        at += flip;
        flip = -flip;
    }
    u64 end = clock64();
    if (threadIdx.x % 32 == 0) {
        ticks[2 * (threadIdx.x / 32)] = begin;
        ticks[2 * (threadIdx.x / 32) + 1] = end;
    }
    if (sum == 0x9e3779b9u) *sink = sum;
}

// A word in the shared memory of the other block of a cluster of two, holding its own address there.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_chase(int hops, u64* ticks, u32* sink) {
    __shared__ u32 word;
    u32 rank, mine = u32(__cvta_generic_to_shared(&word)), p;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(p) : "r"(mine), "r"(rank ^ 1));
    u32 own;  // the address under which the other block knows this word
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(own) : "r"(mine), "r"(rank));
    word = own;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 0) {
        for (int n = 0; n < 16; ++n) asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(p));
        u64 begin = clock64();
        #pragma unroll 1
        for (int n = 0; n < hops; n += 32) {
            #pragma unroll
            for (int k = 0; k < 32; ++k) asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(p));
        }
        u64 end = clock64();
        ticks[blockIdx.x] = begin;  // the even blocks' places, a pair a cluster
        ticks[blockIdx.x + 1] = end;
        if (p == 1) *sink = p;
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// Atomic additions of one SM's 1024 threads to shared memory: to one word, or (mask 1023) each to its own.
extern "C" __global__ void __launch_bounds__(1024) shared_atomics(int mask, u32 value, int steps, u64* ticks, u32* sink) {
    __shared__ u32 words[1024];
    words[threadIdx.x] = 0;
    __syncthreads();
    u32 at = u32(__cvta_generic_to_shared(words + (threadIdx.x & mask)));
    u64 begin = clock64();
    #pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int k = 0; k < 8; ++k) asm volatile("red.shared.add.u32 [%0], %1;" :: "r"(at), "r"(value) : "memory");
    }
    __syncthreads();
    u64 end = clock64();
    if (threadIdx.x % 32 == 0) {
        ticks[2 * (threadIdx.x / 32)] = begin;
        ticks[2 * (threadIdx.x / 32) + 1] = end;
    }
    if (words[threadIdx.x] == 0x9e3779b9u) *sink = 1;
}
