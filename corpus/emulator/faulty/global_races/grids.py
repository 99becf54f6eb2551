"""Blocks that are there together and wait for each other: barriers of the grid that are missing, early or incomplete.

See updates.py. Unlike in flags.py, blocks wait for others of a higher number, so that they have to run side by side.
"""

import cupy

SOURCE = r"""
#include <cooperative_groups.h>
#ifdef MENDED
#define FIX(right, wrong) right
#else
#define FIX(right, wrong) wrong
#endif
#define ARGUMENTS const int* a, int* out, int* work, int* flag
#define THREAD int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t, n = gridDim.x * blockDim.x
#define SEEN(place) (*(volatile int*)(place))
namespace cg = cooperative_groups;

extern "C" __global__ void block_barrier_for_the_grid(ARGUMENTS)
{
    THREAD;
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    work[i] = a[i];  // <- finding: race
    grid.sync();
    out[i] = work[n - 1 - i];
    grid.sync();
    work[i] = out[i];  // <- finding: race
    FIX(grid, block).sync();
    out[i] += work[(i + 64) % n];  // <- finding: race
}

extern "C" __global__ void one_grid_barrier_a_round(ARGUMENTS)
{
    THREAD;
    auto grid = cg::this_grid();
    int s = 0;
    for (int round = 0; round < 3; ++round) {
        work[i] = a[i] + round;  // <- finding: race
        grid.sync();
        s += work[n - 1 - i];  // <- finding: race
        FIX(grid.sync(), );
    }
    out[i] = s;
}

extern "C" __global__ void stencil_between_grid_barriers(ARGUMENTS)
{
    THREAD;
    auto grid = cg::this_grid();
    work[i] = a[i];
    grid.sync();
    for (int round = 0; round < 2; ++round) {
        int sum = work[(i + n - 1) % n] + work[(i + 1) % n];  // <- finding: race
        FIX(grid.sync(), __syncthreads());
        work[i] = sum;  // <- finding: race
        grid.sync();
    }
    out[i] = work[i];
}

extern "C" __global__ void wrong_one_of_two_buffers(ARGUMENTS)
{
    THREAD;
    auto grid = cg::this_grid();
    int *from = work, *to = work + n;
    from[i] = a[i];
    for (int round = 0; round < 3; ++round) {
        grid.sync();
        FIX(to, from)[i] = from[(i + 64) % n] + round;  // <- finding: race
        FIX(int* last = from; from = to; to = last, );
    }
    grid.sync();
    out[i] = from[i];
}

extern "C" __global__ void lost_update_between_grid_barriers(ARGUMENTS)
{
    THREAD;
    auto grid = cg::this_grid();
    if (i == 0) work[0] = 0;
    grid.sync();
    if (t == 0) FIX(atomicAdd(work, a[i]), work[0] += a[i]);  // <- finding: race
    grid.sync();
    out[i] = work[0];
}

extern "C" __global__ void result_before_the_grid_barrier(ARGUMENTS)
{
    THREAD;
    auto grid = cg::this_grid();
    if (t == 0) work[b] = a[i];  // <- finding: race
    FIX(grid.sync(), );
    if (i == 0) for (int j = 1; j < gridDim.x; ++j) work[0] += work[j];  // <- finding: race
    grid.sync();
    out[i] = work[0];
}

// Barriers written by hand.

#define ARRIVE_AND_WAIT(wanted) \
    do { \
        atomicAdd(flag, 1); \
        while (SEEN(flag) < (wanted)) {} \
    } while (0)

extern "C" __global__ void hand_barrier_without_fence(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__threadfence(), );
    __syncthreads();
    if (t == 0) { ARRIVE_AND_WAIT(gridDim.x); __threadfence(); }
    __syncthreads();
    out[i] = work[n - 1 - i];  // <- finding: race
}

extern "C" __global__ void hand_barrier_left_without_fence(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    __threadfence();
    __syncthreads();
    if (t == 0) { ARRIVE_AND_WAIT(gridDim.x); FIX(__threadfence(), ); }
    __syncthreads();
    out[i] = work[n - 1 - i];  // <- finding: race
}

extern "C" __global__ void hand_barrier_with_fence_of_the_block(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__threadfence(), __threadfence_block());
    __syncthreads();
    if (t == 0) { ARRIVE_AND_WAIT(gridDim.x); __threadfence(); }
    __syncthreads();
    out[i] = work[n - 1 - i];  // <- finding: race
}

extern "C" __global__ void hand_barrier_arrives_early(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    if (t == 0) { __threadfence(); ARRIVE_AND_WAIT(gridDim.x); __threadfence(); }
    __syncthreads();
    out[i] = work[n - 1 - i];  // <- finding: race
}

extern "C" __global__ void hand_barrier_holds_one_warp(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    __threadfence();
    __syncthreads();
    if (t == 0) { ARRIVE_AND_WAIT(gridDim.x); __threadfence(); }
    FIX(__syncthreads(), __syncwarp());
    out[i] = work[n - 1 - i];  // <- finding: race
}

extern "C" __global__ void hand_barrier_counts_from_zero_again(ARGUMENTS)
{
    THREAD;
    int s = 0;
    for (int round = 0; round < 4; ++round) {
        if (round % 2 == 0) work[i] = a[i] + round;  // <- finding: race
        else s += work[n - 1 - i];  // <- finding: race
        __threadfence();
        __syncthreads();
        if (t == 0) { ARRIVE_AND_WAIT(FIX((round + 1), 1) * gridDim.x); __threadfence(); }
        __syncthreads();
    }
    out[i] = s;
}

extern "C" __global__ void hand_barrier_misses_one_block(ARGUMENTS)
{
    THREAD;
    if (b == gridDim.x - 1) for (int j = 0; j < 500; ++j) atomicAdd(flag + 1, 1);  // the last one is late
    work[i] = a[i];  // <- finding: race
    __threadfence();
    __syncthreads();
    if (t == 0) { ARRIVE_AND_WAIT(gridDim.x - FIX(0, 1)); __threadfence(); }
    __syncthreads();
    out[i] = work[n - 1 - i];  // <- finding: race
}

extern "C" __global__ void flag_of_a_later_block_without_fence(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        work[b] = a[i];  // <- finding: race
        FIX(__threadfence(), );
        SEEN(flag + b) = 1;
        int next = (b + 1) % gridDim.x;
        while (SEEN(flag + next) == 0) {}
        __threadfence();
        out[b] = work[next];  // <- finding: race
    }
}

extern "C" __global__ void sense_of_the_barrier_unfenced(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    __threadfence();
    __syncthreads();
    if (t == 0) {
        if (atomicAdd(flag, 1) == gridDim.x - 1) {
            FIX(__threadfence(), );
            SEEN(flag + 1) = 1;
        }
        while (SEEN(flag + 1) == 0) {}
        __threadfence();
    }
    __syncthreads();
    out[i] = work[n - 1 - i];  // <- finding: race
}
"""

faulty = cupy.RawModule(code=SOURCE, enable_cooperative_groups=True)
mended = cupy.RawModule(code=SOURCE, options=("-DMENDED",), enable_cooperative_groups=True)


def _launch(kernel, mend, arrays):
    (mended if mend else faulty).get_function(kernel)((4,), (64,), arrays)


def block_barrier_for_the_grid(a, out, work, flag, mend):
    _launch("block_barrier_for_the_grid", mend, (a, out, work, flag))


def one_grid_barrier_a_round(a, out, work, flag, mend):
    _launch("one_grid_barrier_a_round", mend, (a, out, work, flag))


def stencil_between_grid_barriers(a, out, work, flag, mend):
    _launch("stencil_between_grid_barriers", mend, (a, out, work, flag))


def wrong_one_of_two_buffers(a, out, work, flag, mend):
    _launch("wrong_one_of_two_buffers", mend, (a, out, work, flag))


def lost_update_between_grid_barriers(a, out, work, flag, mend):
    _launch("lost_update_between_grid_barriers", mend, (a, out, work, flag))


def result_before_the_grid_barrier(a, out, work, flag, mend):
    _launch("result_before_the_grid_barrier", mend, (a, out, work, flag))


def hand_barrier_without_fence(a, out, work, flag, mend):
    _launch("hand_barrier_without_fence", mend, (a, out, work, flag))


def hand_barrier_left_without_fence(a, out, work, flag, mend):
    _launch("hand_barrier_left_without_fence", mend, (a, out, work, flag))


def hand_barrier_with_fence_of_the_block(a, out, work, flag, mend):
    _launch("hand_barrier_with_fence_of_the_block", mend, (a, out, work, flag))


def hand_barrier_arrives_early(a, out, work, flag, mend):
    _launch("hand_barrier_arrives_early", mend, (a, out, work, flag))


def hand_barrier_holds_one_warp(a, out, work, flag, mend):
    _launch("hand_barrier_holds_one_warp", mend, (a, out, work, flag))


def hand_barrier_counts_from_zero_again(a, out, work, flag, mend):
    _launch("hand_barrier_counts_from_zero_again", mend, (a, out, work, flag))


def hand_barrier_misses_one_block(a, out, work, flag, mend):
    _launch("hand_barrier_misses_one_block", mend, (a, out, work, flag))


def flag_of_a_later_block_without_fence(a, out, work, flag, mend):
    _launch("flag_of_a_later_block_without_fence", mend, (a, out, work, flag))


def sense_of_the_barrier_unfenced(a, out, work, flag, mend):
    _launch("sense_of_the_barrier_unfenced", mend, (a, out, work, flag))
