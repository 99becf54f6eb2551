// What kernels that wait for another GPU share: calls that are counted on the GPU, and waits that end.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

// Of one block: how often it has been called, and 1 + the rank that it waited for in vain (0: none).
struct alignas(8) State {
    u32 calls, fault;
};

// Strong, because a thread of the block may report a fault before another has begun.
__device__ State begun(const State* state) {
    State now;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(now.calls), "=r"(now.fault) : "l"(state) : "memory");
    return now;
}

// The number of this call, which is its flag too. Memory starts as zeros, so 0 says "nothing yet"; 2 follows the last
// number, so that odd and even calls go on taking turns.
__device__ u32 number(u32 calls) { return calls + 1 ? calls + 1 : 2; }

// Whether a wait has gone on for too long. The timer is read rarely: most waits end before it is asked at all.
struct Wait {
    u32 polls = 0;
    u64 begin = 0;

    __device__ bool over(u64 patience) {
        if (++polls % 1024) return false;
        u64 now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (!begin) begin = now;
        return now - begin > patience;
    }
};

__device__ void report(State* state, int peer) { atomicMax(&state->fault, 1 + peer); }
