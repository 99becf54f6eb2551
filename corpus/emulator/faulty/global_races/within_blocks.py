"""Global memory through which the threads of one block exchange values: barriers and __syncwarp() that are missing.

See updates.py.
"""

import cupy
import numpy as np

SOURCE = r"""
#include <cooperative_groups.h>
#ifdef MENDED
#define FIX(right, wrong) right
#else
#define FIX(right, wrong) wrong
#endif
#define ARGUMENTS const int* a, int* out, int* work, int* flag
#define THREAD int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t
namespace cg = cooperative_groups;

extern "C" __global__ void no_barrier(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    out[i] = work[i ^ 32];  // <- finding: race
}

extern "C" __global__ void tree_without_barriers(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (t < step) work[i] += work[i + step];  // <- finding: race
        FIX(__syncthreads(), );
    }
    if (t == 0) out[b] = work[i];
}

extern "C" __global__ void wide_tree_without_barriers(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    if (t < 32) work[i] += work[i + 32];  // <- finding: race
    if (t < 32) out[i] = work[i];
}

extern "C" __global__ void scratch_used_again(ARGUMENTS)
{
    THREAD;
    int s = 0;
    for (int round = 0; round < 3; ++round) {
        work[i] = a[i] + round;  // <- finding: race
        __syncthreads();
        s += work[i ^ 32];  // <- finding: race
        FIX(__syncthreads(), );
    }
    out[i] = s;
}

extern "C" __global__ void scan_in_one_buffer(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        int left = t >= step ? work[i - step] : 0;  // <- finding: race
        FIX(__syncthreads(), );
        work[i] += left;  // <- finding: race
        __syncthreads();
    }
    out[i] = work[i];
}

extern "C" __global__ void barrier_of_each_warp(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), asm volatile("bar.sync %0, 32;" ::"r"(1 + t / 32) : "memory"));
    out[i] = work[i ^ 32];  // <- finding: race
}

extern "C" __global__ void fence_for_a_barrier(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), __threadfence());
    out[i] = work[i ^ 32];  // <- finding: race
}

extern "C" __global__ void syncwarp_for_a_barrier(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), __syncwarp());
    out[i] = work[i ^ 32];  // <- finding: race
}

extern "C" __global__ void tile_for_the_block(ARGUMENTS)
{
    THREAD;
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    work[i] = a[i];  // <- finding: race
    FIX(block, tile).sync();
    out[i] = work[i ^ 32];  // <- finding: race
}

extern "C" __global__ void block_for_the_grid(ARGUMENTS, int phase)
{
    THREAD;
    if (phase & 1) work[i] = a[i];  // <- finding: race
    cg::this_thread_block().sync();
    if (phase & 2) out[i] = work[(i + blockDim.x) % (gridDim.x * blockDim.x)];  // <- finding: race
}

extern "C" __global__ void no_syncwarp(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__syncwarp(), );
    out[i] = work[i ^ 1];  // <- finding: race
}

extern "C" __global__ void warp_sum_without_syncwarp(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
        if (t % 32 < step) work[i] += work[i + step];  // <- finding: race
        FIX(__syncwarp(), );
    }
    if (t % 32 == 0) out[i / 32] = work[i];
}

extern "C" __global__ void broadcast_without_syncwarp(ARGUMENTS)
{
    THREAD;
    if (t % 32 == 0) work[i] = a[i];  // <- finding: race
    FIX(__syncwarp(), );
    out[i] = work[i - t % 32];  // <- finding: race
}

extern "C" __global__ void lost_update_in_a_block(ARGUMENTS)
{
    THREAD;
    FIX(atomicAdd_block(out + b, a[i]), out[b] += a[i]);  // <- finding: race
}

extern "C" __global__ void cleared_without_barrier(ARGUMENTS)
{
    THREAD;
    if (t == 0) work[b] = 7;  // <- finding: race
    FIX(__syncthreads(), );
    atomicAdd(work + b, a[i]);  // <- finding: race
}

extern "C" __global__ void count_read_early(ARGUMENTS)
{
    THREAD;
    atomicAdd(work + b, 1);  // <- finding: race
    FIX(__syncthreads(), );
    out[i] = work[b];  // <- finding: race
}

extern "C" __global__ void neighbour_overwrites(ARGUMENTS)
{
    THREAD;
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    work[b * 64 + (t + 32) % 64 + FIX(256, 0)] = a[i] + 1;  // <- finding: race
}

extern "C" __global__ void copied_too_early(ARGUMENTS)
{
    THREAD;
    __shared__ int tile[64];
    work[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    unsigned to = __cvta_generic_to_shared(tile + t);
    int* from = work + (i ^ 32);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");  // <- finding: race
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[i] = tile[t];
}

extern "C" __global__ void bytes_of_neighbours(ARGUMENTS)
{
    THREAD;
    unsigned char* bytes = (unsigned char*)work;
    bytes[i] = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    out[i] = bytes[i ^ 32];  // <- finding: race
}
"""

faulty = cupy.RawModule(code=SOURCE)
mended = cupy.RawModule(code=SOURCE, options=("-DMENDED",))


def _launch(kernel, mend, arrays, *more):
    (mended if mend else faulty).get_function(kernel)((4,), (64,), (*arrays, *more))


def block_for_the_grid(a, out, work, flag, mend):
    for phase in (1, 2) if mend else (3,):
        _launch("block_for_the_grid", mend, (a, out, work, flag), np.int32(phase))


def no_barrier(a, out, work, flag, mend):
    _launch("no_barrier", mend, (a, out, work, flag))


def tree_without_barriers(a, out, work, flag, mend):
    _launch("tree_without_barriers", mend, (a, out, work, flag))


def wide_tree_without_barriers(a, out, work, flag, mend):
    _launch("wide_tree_without_barriers", mend, (a, out, work, flag))


def scratch_used_again(a, out, work, flag, mend):
    _launch("scratch_used_again", mend, (a, out, work, flag))


def scan_in_one_buffer(a, out, work, flag, mend):
    _launch("scan_in_one_buffer", mend, (a, out, work, flag))


def barrier_of_each_warp(a, out, work, flag, mend):
    _launch("barrier_of_each_warp", mend, (a, out, work, flag))


def fence_for_a_barrier(a, out, work, flag, mend):
    _launch("fence_for_a_barrier", mend, (a, out, work, flag))


def syncwarp_for_a_barrier(a, out, work, flag, mend):
    _launch("syncwarp_for_a_barrier", mend, (a, out, work, flag))


def tile_for_the_block(a, out, work, flag, mend):
    _launch("tile_for_the_block", mend, (a, out, work, flag))


def no_syncwarp(a, out, work, flag, mend):
    _launch("no_syncwarp", mend, (a, out, work, flag))


def warp_sum_without_syncwarp(a, out, work, flag, mend):
    _launch("warp_sum_without_syncwarp", mend, (a, out, work, flag))


def broadcast_without_syncwarp(a, out, work, flag, mend):
    _launch("broadcast_without_syncwarp", mend, (a, out, work, flag))


def lost_update_in_a_block(a, out, work, flag, mend):
    _launch("lost_update_in_a_block", mend, (a, out, work, flag))


def cleared_without_barrier(a, out, work, flag, mend):
    _launch("cleared_without_barrier", mend, (a, out, work, flag))


def count_read_early(a, out, work, flag, mend):
    _launch("count_read_early", mend, (a, out, work, flag))


def neighbour_overwrites(a, out, work, flag, mend):
    _launch("neighbour_overwrites", mend, (a, out, work, flag))


def copied_too_early(a, out, work, flag, mend):
    _launch("copied_too_early", mend, (a, out, work, flag))


def bytes_of_neighbours(a, out, work, flag, mend):
    _launch("bytes_of_neighbours", mend, (a, out, work, flag))
