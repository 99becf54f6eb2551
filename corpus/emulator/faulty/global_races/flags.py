"""Blocks that hand values to each other by counters, flags, locks and queues: fences, scopes and order that are wrong.

See updates.py. No block waits for one of a higher number, so that each kernel ends when blocks run one after the other.
Some look at a flag only once: they race if the block that sets it has come before.
"""

import cupy

SOURCE = r"""
#ifdef MENDED
#define FIX(right, wrong) right
#else
#define FIX(right, wrong) wrong
#endif
#define ARGUMENTS const int* a, int* out, int* work, int* flag
#define THREAD int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t
#define SEEN(place) (*(volatile int*)(place))

__device__ int acquire(int* place)
{
    int value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(place) : "memory");
    return value;
}

__device__ int load(int* place)
{
    int value;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(place) : "memory");
    return value;
}

// The last block done adds up what all have left.

extern "C" __global__ void last_block_without_fence(ARGUMENTS)
{
    THREAD;
    __shared__ bool last;
    if (t == 0) {
        work[b] = a[i];  // <- finding: race
        FIX(__threadfence(), );
        last = atomicAdd(flag, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && t < gridDim.x) out[t] = work[t];  // <- finding: race
}

extern "C" __global__ void last_block_reads_without_fence(ARGUMENTS)
{
    THREAD;
    __shared__ bool last;
    if (t == 0) {
        work[b] = a[i];  // <- finding: race
        __threadfence();
        last = atomicAdd(flag, 1) == gridDim.x - 1;
        FIX(__threadfence(), );
    }
    __syncthreads();
    if (last && t < gridDim.x) out[t] = work[t];  // <- finding: race
}

extern "C" __global__ void last_block_without_barrier(ARGUMENTS)
{
    THREAD;
    __shared__ bool last;
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    if (t == 0) {
        __threadfence();
        last = atomicAdd(flag, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last) for (int j = t; j < 256; j += 64) out[j] = work[j];  // <- finding: race
}

extern "C" __global__ void last_block_fence_of_the_block(ARGUMENTS)
{
    THREAD;
    __shared__ bool last;
    if (t == 0) {
        work[b] = a[i];  // <- finding: race
        FIX(__threadfence(), __threadfence_block());
        last = atomicAdd(flag, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && t < gridDim.x) out[t] = work[t];  // <- finding: race
}

extern "C" __global__ void last_block_reads_with_fence_of_the_block(ARGUMENTS)
{
    THREAD;
    __shared__ bool last;
    if (t == 0) {
        work[b] = a[i];  // <- finding: race
        __threadfence();
        last = atomicAdd(flag, 1) == gridDim.x - 1;
        FIX(__threadfence(), __threadfence_block());
    }
    __syncthreads();
    if (last && t < gridDim.x) out[t] = work[t];  // <- finding: race
}

extern "C" __global__ void last_block_counts_in_the_block(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        work[b] = a[i];  // <- finding: race
        __threadfence();
        int before = FIX(atomicAdd(flag, 1), atomicAdd_block(flag, 1));  // <- finding: race
        __threadfence();
        if (before == gridDim.x - 1) for (int j = 0; j < gridDim.x; ++j) out[j] = work[j];  // <- finding: race
    }
}

extern "C" __global__ void last_block_counts_plainly(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        work[b] = a[i];  // <- finding: race
        __threadfence();
        int before = FIX(atomicAdd(flag, 1), flag[0]++);  // <- finding: race
        __threadfence();
        if (before == gridDim.x - 1) for (int j = 0; j < gridDim.x; ++j) out[j] = work[j];  // <- finding: race
    }
}

extern "C" __global__ void counted_before_it_is_written(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        FIX(work[b] = a[i],);
        __threadfence();
        int before = atomicAdd(flag, 1);
        __threadfence();
        FIX(, work[b] = a[i]);  // <- finding: race
        if (before == gridDim.x - 1) for (int j = 0; j < gridDim.x; ++j) out[j] = work[j];  // <- finding: race
    }
}

// A flag that each block sets for the next one.

extern "C" __global__ void flag_without_fences(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (b > 0 && SEEN(flag + b - 1) == 0) {}
        FIX(__threadfence(), );
        out[b] = (b > 0 ? work[b - 1] : 0) + a[i];  // <- finding: race
        work[b] = out[b];  // <- finding: race
        FIX(__threadfence(), );
        SEEN(flag + b) = 1;
    }
}

extern "C" __global__ void flag_set_without_fence(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (b > 0 && SEEN(flag + b - 1) == 0) {}
        __threadfence();
        out[b] = (b > 0 ? work[b - 1] : 0) + a[i];  // <- finding: race
        work[b] = out[b];  // <- finding: race
        FIX(__threadfence(), );
        SEEN(flag + b) = 1;
    }
}

extern "C" __global__ void flag_seen_without_fence(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (b > 0 && SEEN(flag + b - 1) == 0) {}
        FIX(__threadfence(), );
        out[b] = (b > 0 ? work[b - 1] : 0) + a[i];  // <- finding: race
        work[b] = out[b];  // <- finding: race
        __threadfence();
        SEEN(flag + b) = 1;
    }
}

extern "C" __global__ void flag_before_the_fence(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (b > 0 && SEEN(flag + b - 1) == 0) {}
        __threadfence();
        out[b] = (b > 0 ? work[b - 1] : 0) + a[i];  // <- finding: race
        work[b] = out[b];  // <- finding: race
        FIX(__threadfence(), SEEN(flag + b) = 1);
        FIX(SEEN(flag + b) = 1, __threadfence());
    }
}

extern "C" __global__ void fence_before_the_flag_is_seen(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        FIX(, __threadfence());
        while (b > 0 && SEEN(flag + b - 1) == 0) {}
        FIX(__threadfence(), );
        out[b] = (b > 0 ? work[b - 1] : 0) + a[i];  // <- finding: race
        work[b] = out[b];  // <- finding: race
        __threadfence();
        SEEN(flag + b) = 1;
    }
}

extern "C" __global__ void flag_with_fences_of_the_block(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (b > 0 && SEEN(flag + b - 1) == 0) {}
        FIX(__threadfence(), __threadfence_block());
        out[b] = (b > 0 ? work[b - 1] : 0) + a[i];  // <- finding: race
        work[b] = out[b];  // <- finding: race
        FIX(__threadfence(), __threadfence_block());
        SEEN(flag + b) = 1;
    }
}

extern "C" __global__ void plain_flag(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        if (b > 0 && FIX(SEEN(flag + b - 1), flag[b - 1]) == 1) {  // <- finding: race
            __threadfence();
            out[b] = work[b - 1];  // <- finding: race
        }
        work[b] = a[i];  // <- finding: race
        __threadfence();
        FIX(SEEN(flag + b), flag[b]) = 1;  // <- finding: race
    }
}

extern "C" __global__ void flag_of_one_warp(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (b > 0 && SEEN(flag + b - 1) == 0) {}
        __threadfence();
    }
    FIX(__syncthreads(), );
    out[i] = b > 0 ? work[i - 64] : 0;  // <- finding: race
    work[i] = a[i];  // <- finding: race
    __syncthreads();
    __threadfence();
    if (t == 0) SEEN(flag + b) = 1;
}

extern "C" __global__ void flag_set_for_one_warp(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (b > 0 && SEEN(flag + b - 1) == 0) {}
        __threadfence();
    }
    __syncthreads();
    out[i] = b > 0 ? work[i - 64] : 0;  // <- finding: race
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    if (t == 0) {
        __threadfence();
        SEEN(flag + b) = 1;
    }
}

extern "C" __global__ void flag_of_another_block(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (b > 1 && SEEN(flag + FIX(b - 1, b - 2)) == 0) {}
        __threadfence();
        out[b] = b > 1 ? work[b - 1] : 0;  // <- finding: race
        work[b] = a[i];  // <- finding: race
        __threadfence();
        SEEN(flag + b) = 1;
    }
}

// The same in the words of the memory model.

extern "C" __global__ void release_in_the_block(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int seen = 0, *before = flag + b - 1;
        if (b > 0) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(before));  // <- finding: race
        if (seen) out[b] = work[b - 1];  // <- finding: race
        work[b] = a[i];  // <- finding: race
        FIX(asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag + b) : "memory"),  // <- finding: race
            asm volatile("st.release.cta.u32 [%0], 1;" ::"l"(flag + b) : "memory"));
    }
}

extern "C" __global__ void acquire_in_the_block(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int seen = 0, *before = flag + b - 1;
        if (b > 0)
            FIX(asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(before) : "memory"),  // <- finding: race
                asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(seen) : "l"(before) : "memory"));
        if (seen) out[b] = work[b - 1];  // <- finding: race
        work[b] = a[i];  // <- finding: race
        asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag + b) : "memory");  // <- finding: race
    }
}

extern "C" __global__ void relaxed_for_a_release(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int seen = b > 0 ? acquire(flag + b - 1) : 0;
        if (seen) out[b] = work[b - 1];  // <- finding: race
        work[b] = a[i];  // <- finding: race
        FIX(asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag + b) : "memory"),
            asm volatile("st.relaxed.gpu.u32 [%0], 1;" ::"l"(flag + b) : "memory"));
    }
}

extern "C" __global__ void relaxed_for_an_acquire(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int seen = 0;
        if (b > 0)
            FIX(asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(flag + b - 1) : "memory"),
                seen = load(flag + b - 1));
        if (seen) out[b] = work[b - 1];  // <- finding: race
        work[b] = a[i];  // <- finding: race
        asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag + b) : "memory");
    }
}

extern "C" __global__ void released_by_a_fence_of_the_block(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int seen = b > 0 ? load(flag + b - 1) : 0;
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        if (seen) out[b] = work[b - 1];  // <- finding: race
        work[b] = a[i];  // <- finding: race
        FIX(asm volatile("fence.acq_rel.gpu;" ::: "memory"), asm volatile("fence.acq_rel.cta;" ::: "memory"));
        asm volatile("st.relaxed.gpu.u32 [%0], 1;" ::"l"(flag + b) : "memory");
    }
}

extern "C" __global__ void exchange_without_order(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int seen = b > 0 ? acquire(flag + b - 1) : 0, before;
        if (seen) out[b] = work[b - 1];  // <- finding: race
        work[b] = a[i];  // <- finding: race
        FIX(asm volatile("atom.release.gpu.exch.b32 %0, [%1], 1;" : "=r"(before) : "l"(flag + b) : "memory"),
            asm volatile("atom.relaxed.gpu.exch.b32 %0, [%1], 1;" : "=r"(before) : "l"(flag + b) : "memory"));
        out[64 + b] = before;
    }
}

// Locks.

extern "C" __global__ void lock_without_fences(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (atomicCAS(flag, 0, 1) != 0) {}
        FIX(__threadfence(), );
        out[0] += a[i];  // <- finding: race
        FIX(__threadfence(), );
        atomicExch(flag, 0);
    }
}

extern "C" __global__ void lock_taken_without_fence(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (atomicCAS(flag, 0, 1) != 0) {}
        FIX(__threadfence(), );
        out[0] += a[i];  // <- finding: race
        __threadfence();
        atomicExch(flag, 0);
    }
}

extern "C" __global__ void lock_given_back_without_fence(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (atomicCAS(flag, 0, 1) != 0) {}
        __threadfence();
        out[0] += a[i];  // <- finding: race
        FIX(__threadfence(), );
        atomicExch(flag, 0);
    }
}

extern "C" __global__ void lock_given_back_plainly(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (atomicCAS(flag, 0, 1) != 0) {}  // <- finding: race
        __threadfence();
        out[0] += a[i];  // <- finding: race
        __threadfence();
        FIX(atomicExch(flag, 0), flag[0] = 0);  // <- finding: race
    }
}

extern "C" __global__ void lock_of_the_block(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (FIX(atomicCAS(flag, 0, 1), atomicCAS_block(flag, 0, 1)) != 0) {}  // <- finding: race
        __threadfence();
        out[0] += a[i];  // <- finding: race
        __threadfence();
        FIX(atomicExch(flag, 0), atomicExch_block(flag, 0));  // <- finding: race
    }
}

extern "C" __global__ void two_locks_for_one_sum(ARGUMENTS)
{
    THREAD;
    int* lock = flag + FIX(0, b % 2);
    if (t == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        out[0] += a[i];  // <- finding: race
        __threadfence();
        atomicExch(lock, 0);
    }
}

extern "C" __global__ void read_outside_of_the_lock(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int seen = FIX(0, out[0]);  // <- finding: race
        while (atomicCAS(flag, 0, 1) != 0) {}
        __threadfence();
        FIX(seen = out[0], );
        out[0] = seen + a[i];  // <- finding: race
        __threadfence();
        atomicExch(flag, 0);
    }
}

extern "C" __global__ void given_back_too_early(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        while (atomicCAS(flag, 0, 1) != 0) {}
        __threadfence();
        int sum = out[0] + a[i];  // <- finding: race
        FIX(out[0] = sum, );
        __threadfence();
        atomicExch(flag, 0);
        FIX(, out[0] = sum);  // <- finding: race
    }
}

// Queues: even blocks put something in, odd ones take it out.

extern "C" __global__ void queue_without_fence(ARGUMENTS)
{
    THREAD;
    if (t == 0 && b % 2 == 0) {
        work[b / 2] = a[i];  // <- finding: race
        FIX(__threadfence(), );
        atomicAdd(flag, 1);
    } else if (t == 0) {
        bool full = atomicAdd(flag, 0) == gridDim.x / 2;
        __threadfence();
        for (int at = 0; full && at < gridDim.x / 2; ++at) out[8 * b + at] = work[at];  // <- finding: race
    }
}

extern "C" __global__ void queue_with_plain_tail(ARGUMENTS)
{
    THREAD;
    if (t == 0 && b % 2 == 0) {
        work[b / 2] = a[i];  // <- finding: race
        __threadfence();
        atomicAdd(flag, 1);  // <- finding: race
    } else if (t == 0) {
        bool full = FIX(SEEN(flag), flag[0]) == gridDim.x / 2;  // <- finding: race
        __threadfence();
        for (int at = 0; full && at < gridDim.x / 2; ++at) out[8 * b + at] = work[at];  // <- finding: race
    }
}

extern "C" __global__ void queue_with_plain_head(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int at = FIX(atomicAdd(flag + 1, 1), flag[1]++);  // <- finding: race
        out[at] = a[b];  // <- finding: race
    }
}

extern "C" __global__ void slot_ready_too_early(ARGUMENTS)
{
    THREAD;
    if (t == 0 && b % 2 == 0) {
        FIX(work[b] = a[i], );
        __threadfence();
        SEEN(flag + b) = 1;
        FIX(, work[b] = a[i]);  // <- finding: race
    } else if (t == 0) {
        while (SEEN(flag + b - 1) == 0) {}
        __threadfence();
        out[b] = work[b - 1];  // <- finding: race
    }
}

extern "C" __global__ void slot_reused_unseen(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        // one slot for all: the next producer has to see that the consumer has read it
        if (b % 2 == 0) {
            FIX(if (b > 0) { while (SEEN(flag + b - 1) == 0) {} }, );
            __threadfence();
            work[0] = a[i];  // <- finding: race
        } else {
            while (SEEN(flag + b - 1) == 0) {}
            __threadfence();
            out[b] = work[0];  // <- finding: race
        }
        __threadfence();
        SEEN(flag + b) = 1;
    }
}

// Scans in which a block looks back at the sums of those before it.

extern "C" __global__ void look_back_without_fence(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int sum = a[i], status = 0;
        for (int other = b - 1; other >= 0 && status != 2; --other) {
            while ((status = SEEN(flag + other)) == 0) {}
            FIX(__threadfence(), );
            sum += work[other];  // <- finding: race
        }
        work[b] = sum;  // <- finding: race
        __threadfence();
        SEEN(flag + b) = 2;
        out[b] = sum;
    }
}

extern "C" __global__ void look_back_at_an_unfenced_sum(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int sum = a[i], status = 0;
        work[32 + b] = sum;
        __threadfence();
        SEEN(flag + b) = 1;
        for (int other = b - 1; other >= 0 && status != 2; --other) {
            while ((status = SEEN(flag + other)) == 0) {}
            __threadfence();
            sum += work[(status == 1 ? 32 : 0) + other];  // <- finding: race
        }
        work[b] = sum;  // <- finding: race
        FIX(__threadfence(), );
        SEEN(flag + b) = 2;
        out[b] = sum;
    }
}

extern "C" __global__ void look_back_by_one_warp(ARGUMENTS)
{
    THREAD;
    __shared__ int carry;
    work[64 + i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    if (t == 0) {
        int sum = 0;
        for (int other = b - 1; other >= 0; --other) {
            while (SEEN(flag + other) == 0) {}
            __threadfence();
            for (int j = 0; j < 64; ++j) sum += work[64 + other * 64 + j];  // <- finding: race
        }
        carry = sum;
        __threadfence();
        SEEN(flag + b) = 1;
    }
    __syncthreads();
    out[i] = carry;
}
"""

faulty = cupy.RawModule(code=SOURCE)
mended = cupy.RawModule(code=SOURCE, options=("-DMENDED",))


def _launch(kernel, mend, arrays):
    (mended if mend else faulty).get_function(kernel)((4,), (64,), arrays)


def last_block_without_fence(a, out, work, flag, mend):
    _launch("last_block_without_fence", mend, (a, out, work, flag))


def last_block_reads_without_fence(a, out, work, flag, mend):
    _launch("last_block_reads_without_fence", mend, (a, out, work, flag))


def last_block_without_barrier(a, out, work, flag, mend):
    _launch("last_block_without_barrier", mend, (a, out, work, flag))


def last_block_fence_of_the_block(a, out, work, flag, mend):
    _launch("last_block_fence_of_the_block", mend, (a, out, work, flag))


def last_block_reads_with_fence_of_the_block(a, out, work, flag, mend):
    _launch("last_block_reads_with_fence_of_the_block", mend, (a, out, work, flag))


def last_block_counts_in_the_block(a, out, work, flag, mend):
    _launch("last_block_counts_in_the_block", mend, (a, out, work, flag))


def last_block_counts_plainly(a, out, work, flag, mend):
    _launch("last_block_counts_plainly", mend, (a, out, work, flag))


def counted_before_it_is_written(a, out, work, flag, mend):
    _launch("counted_before_it_is_written", mend, (a, out, work, flag))


def flag_without_fences(a, out, work, flag, mend):
    _launch("flag_without_fences", mend, (a, out, work, flag))


def flag_set_without_fence(a, out, work, flag, mend):
    _launch("flag_set_without_fence", mend, (a, out, work, flag))


def flag_seen_without_fence(a, out, work, flag, mend):
    _launch("flag_seen_without_fence", mend, (a, out, work, flag))


def flag_before_the_fence(a, out, work, flag, mend):
    _launch("flag_before_the_fence", mend, (a, out, work, flag))


def fence_before_the_flag_is_seen(a, out, work, flag, mend):
    _launch("fence_before_the_flag_is_seen", mend, (a, out, work, flag))


def flag_with_fences_of_the_block(a, out, work, flag, mend):
    _launch("flag_with_fences_of_the_block", mend, (a, out, work, flag))


def plain_flag(a, out, work, flag, mend):
    _launch("plain_flag", mend, (a, out, work, flag))


def flag_of_one_warp(a, out, work, flag, mend):
    _launch("flag_of_one_warp", mend, (a, out, work, flag))


def flag_set_for_one_warp(a, out, work, flag, mend):
    _launch("flag_set_for_one_warp", mend, (a, out, work, flag))


def flag_of_another_block(a, out, work, flag, mend):
    _launch("flag_of_another_block", mend, (a, out, work, flag))


def release_in_the_block(a, out, work, flag, mend):
    _launch("release_in_the_block", mend, (a, out, work, flag))


def acquire_in_the_block(a, out, work, flag, mend):
    _launch("acquire_in_the_block", mend, (a, out, work, flag))


def relaxed_for_a_release(a, out, work, flag, mend):
    _launch("relaxed_for_a_release", mend, (a, out, work, flag))


def relaxed_for_an_acquire(a, out, work, flag, mend):
    _launch("relaxed_for_an_acquire", mend, (a, out, work, flag))


def released_by_a_fence_of_the_block(a, out, work, flag, mend):
    _launch("released_by_a_fence_of_the_block", mend, (a, out, work, flag))


def exchange_without_order(a, out, work, flag, mend):
    _launch("exchange_without_order", mend, (a, out, work, flag))


def lock_without_fences(a, out, work, flag, mend):
    _launch("lock_without_fences", mend, (a, out, work, flag))


def lock_taken_without_fence(a, out, work, flag, mend):
    _launch("lock_taken_without_fence", mend, (a, out, work, flag))


def lock_given_back_without_fence(a, out, work, flag, mend):
    _launch("lock_given_back_without_fence", mend, (a, out, work, flag))


def lock_given_back_plainly(a, out, work, flag, mend):
    _launch("lock_given_back_plainly", mend, (a, out, work, flag))


def lock_of_the_block(a, out, work, flag, mend):
    _launch("lock_of_the_block", mend, (a, out, work, flag))


def two_locks_for_one_sum(a, out, work, flag, mend):
    _launch("two_locks_for_one_sum", mend, (a, out, work, flag))


def read_outside_of_the_lock(a, out, work, flag, mend):
    _launch("read_outside_of_the_lock", mend, (a, out, work, flag))


def given_back_too_early(a, out, work, flag, mend):
    _launch("given_back_too_early", mend, (a, out, work, flag))


def queue_without_fence(a, out, work, flag, mend):
    _launch("queue_without_fence", mend, (a, out, work, flag))


def queue_with_plain_tail(a, out, work, flag, mend):
    _launch("queue_with_plain_tail", mend, (a, out, work, flag))


def queue_with_plain_head(a, out, work, flag, mend):
    _launch("queue_with_plain_head", mend, (a, out, work, flag))


def slot_ready_too_early(a, out, work, flag, mend):
    _launch("slot_ready_too_early", mend, (a, out, work, flag))


def slot_reused_unseen(a, out, work, flag, mend):
    _launch("slot_reused_unseen", mend, (a, out, work, flag))


def look_back_without_fence(a, out, work, flag, mend):
    _launch("look_back_without_fence", mend, (a, out, work, flag))


def look_back_at_an_unfenced_sum(a, out, work, flag, mend):
    _launch("look_back_at_an_unfenced_sum", mend, (a, out, work, flag))


def look_back_by_one_warp(a, out, work, flag, mend):
    _launch("look_back_by_one_warp", mend, (a, out, work, flag))
