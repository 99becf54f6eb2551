// A neighbour's loads and the probes of its cost. All but `tiny` and `chase` fill the GPU.

extern "C" __global__ void copy(const float4* x, float4* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}

// Each thread adds 1 to `each` words at places that look random; mask + 1 words in all, a power of two.
extern "C" __global__ void storm(unsigned* words, unsigned mask, int each)
{
    unsigned place = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < each; ++i) {
        place = place * 1664525u + 1013904223u;
        atomicAdd(&words[(place >> 8) & mask], 1u);
    }
}

// Reads x from the L2 cache `times` times; the sum keeps the compiler from leaving the loads out.
extern "C" __global__ void sweep(const float4* x, float* out, int n, int times)
{
    float total = 0;
    for (int turn = 0; turn < times; ++turn)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
            float4 value = __ldcg(x + i);
            total += value.x + value.y + value.z + value.w;
        }
    if (total == 12345.0f) *out = total;
}

extern "C" __global__ void tiny(unsigned* out)
{
    atomicAdd(out, 1u);
}

// One thread follows `next` from *place for 256 samples of `hops` loads each, past the L1 cache. taken: cycles of each
// sample. whole: nanoseconds and cycles of all samples together.
extern "C" __global__ void chase(const unsigned* next, unsigned* place, int hops, long long* taken, long long* whole)
{
    __shared__ long long cycles[256];
    unsigned at = *place;
    unsigned long long begin, end;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin) :: "memory");
    long long first = clock64(), before = first;
    for (int sample = 0; sample < 256; ++sample) {
        for (int hop = 0; hop < hops; ++hop)
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(next + at) : "memory");
        if (at == 0xffffffffu) break;  // never true: it makes the clock wait for the last load
        long long now = clock64();
        cycles[sample] = now - before;
        before = now;
    }
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end) :: "memory");
    whole[0] = end - begin;
    whole[1] = clock64() - first;
    *place = at;
    for (int sample = 0; sample < 256; ++sample) taken[sample] = cycles[sample];
}

// Writes to an unmapped address.
extern "C" __global__ void fault()
{
    *(volatile int*)16 = 1;
}

extern "C" __global__ void fill(unsigned* words, unsigned long long n, unsigned pattern)
{
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
         i += (unsigned long long)gridDim.x * blockDim.x)
        words[i] = pattern;
}

// found: how many words have the pattern, and how many are zero.
extern "C" __global__ void count(const unsigned* words, unsigned long long n, unsigned pattern, unsigned long long* found)
{
    unsigned long long ours = 0, zero = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
         i += (unsigned long long)gridDim.x * blockDim.x) {
        unsigned word = words[i];
        ours += word == pattern;
        zero += word == 0;
    }
    atomicAdd(&found[0], ours);
    atomicAdd(&found[1], zero);
}

extern "C" __global__ void fill_shared(int n, unsigned pattern)
{
    extern __shared__ volatile unsigned own[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) own[i] = pattern;
}

extern "C" __global__ void count_shared(int n, unsigned pattern, unsigned long long* found)
{
    extern __shared__ volatile unsigned own[];
    unsigned long long ours = 0, zero = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned word = own[i];
        ours += word == pattern;
        zero += word == 0;
    }
    atomicAdd(&found[0], ours);
    atomicAdd(&found[1], zero);
}
