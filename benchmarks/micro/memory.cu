// What lies outside the SM: L1 (which is inside), L2, HBM, and the tables that translate addresses.
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ u32 sm_id() {
    u32 id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

// Two ways to load a pointer: through L1 and L2 (.ca), or through L2 alone (.cg).
struct ThroughL1 {
    static __device__ void follow(u64& p) { asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(p)); }
};
struct ThroughL2 {
    static __device__ void follow(u64& p) { asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(p)); }
};

// Nodes of a ring in the order of `order`: each holds the address of the next. `at` gives the byte of each node.
extern "C" __global__ void link(char* base, const u64* at, u64 nodes) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < nodes) *(u64*)(base + at[i]) = u64(base + at[i + 1 == nodes ? 0 : i + 1]);
}

// One load of each page, so that the translations that fit are there.
extern "C" __global__ void touch(const char* base, u64 bytes, u64 page, u32* sink) {
    u32 sum = 0;
    for (u64 i = 0; i < bytes; i += page) sum += *(const volatile u32*)(base + i);
    if (sum == 0x9e3779b9u) *sink = sum;
}

// One thread follows the ring: a load cannot begin before the one before it has ended.
template <class Load>
__global__ void chase(u64 p, int warm, int hops, u64* ticks, u64* sink) {
    #pragma unroll 1
    for (int n = 0; n < warm; ++n) Load::follow(p);
    u64 begin = clock64();
    #pragma unroll 1
    for (int n = 0; n < hops; n += 16) {
        #pragma unroll
        for (int k = 0; k < 16; ++k) Load::follow(p);
    }
    u64 end = clock64();
    ticks[0] = begin;
    ticks[1] = end;
    if (p == 1) *sink = p;
}

// How far is each line of L2 from one SM? Every line holds its own address; the first load brings it into L2.
extern "C" __global__ void line_latency(u32 sm, const u64* at, int lines, u32* cycles, u64* sink) {
    if (sm_id() != sm) return;
    for (int i = 0; i < lines; ++i) {
        u64 p = at[i];
        for (int n = 0; n < 4; ++n) ThroughL2::follow(p);
        u32 best = ~0u;
        #pragma unroll 1
        for (int round = 0; round < 3; ++round) {
            u64 begin = clock64();
            #pragma unroll
            for (int k = 0; k < 16; ++k) ThroughL2::follow(p);
            if (p == 1) *sink = p;  // the clock is read when the last load is back
            u32 took = u32(clock64() - begin);
            best = took < best ? took : best;
        }
        cycles[i] = best;
    }
}

// Two ways to load 16 bytes: through L1 and L2, or through L2 alone.
struct ReadL1 {
    static __device__ uint4 load(const uint4* p) { return __ldca(p); }
};
struct ReadL2 {
    static __device__ uint4 load(const uint4* p) { return __ldcg(p); }
};

// Each block reads a slice of its own, again and again. AHEAD loads of a thread are on their way together.
template <class Read, int AHEAD>
__global__ void __launch_bounds__(1024, 1) read_slices(const uint4* data, u64 elements, int repeats, u64* ticks, u32* sink) {
    const uint4* slice = data + blockIdx.x * elements;
    u32 sum = 0;
    u64 begin = clock64();
    for (int r = 0; r < repeats; ++r) {
        #pragma unroll 1
        for (u64 i = threadIdx.x; i < elements; i += AHEAD * blockDim.x) {
            uint4 v[AHEAD];
            #pragma unroll
            for (int k = 0; k < AHEAD; ++k) v[k] = Read::load(slice + i + k * blockDim.x);
            #pragma unroll
            for (int k = 0; k < AHEAD; ++k) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
        }
    }
    u64 end = clock64();
    if (threadIdx.x == 0) { ticks[2 * blockIdx.x] = begin; ticks[2 * blockIdx.x + 1] = end; }
    if (sum == 0x9e3779b9u) *sink = sum;
}

// Floats that are `stride` apart, four loads a thread.
extern "C" __global__ void __launch_bounds__(256) read_strided(const float* data, u32 stride, float* sink) {
    u64 first = u64(blockIdx.x) * 1024 + threadIdx.x;
    float v[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = data[(first + 256 * k) * stride];
    if (v[0] + v[1] + v[2] + v[3] == 12345.678f) *sink = v[0];
}

// Atomic additions to global memory: all to one word (mask 0), to 32 neighbours (31), or each thread to its own.
extern "C" __global__ void global_atomics(u32* words, u32 mask, u32 value, int steps) {
    u32* at = words + ((blockIdx.x * blockDim.x + threadIdx.x) & mask);
    for (int s = 0; s < steps; ++s) asm volatile("red.global.add.u32 [%0], %1;" :: "l"(at), "r"(value) : "memory");
}

// What a launch costs when there is nothing to do.
extern "C" __global__ void nothing() {}

extern "C" __global__ void wait(u64 duration) {
    u64 begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - begin < duration);
}
