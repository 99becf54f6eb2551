"""Elements that several blocks, warps or threads change, read or write with nothing between them.

Compiled with MENDED each kernel is right: `FIX(right, wrong)`. A race has two sides; which of them comes second depends
on the order, so both are marked.
"""

import cupy
import numpy as np

SOURCE = r"""
#include <cuda_fp16.h>
#ifdef MENDED
#define FIX(right, wrong) right
#else
#define FIX(right, wrong) wrong
#endif
#define ARGUMENTS const int* a, int* out, int* work, int* flag, int phase
#define THREAD int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t, n = gridDim.x * blockDim.x

__device__ int sum_of_warp(int s)
{
    for (int step = 16; step > 0; step /= 2) s += __shfl_xor_sync(0xffffffff, s, step);
    return s;
}

extern "C" __global__ void lost_update(ARGUMENTS)
{
    THREAD;
    int s = sum_of_warp(a[i]);
    if (t == 0)
        FIX(atomicAdd(out, s), out[0] += s);  // <- finding: race
}

extern "C" __global__ void plain_histogram(ARGUMENTS)
{
    THREAD;
    int bin = a[i] & 15;
    FIX(atomicAdd(out + bin, 1), out[bin]++);  // <- finding: race
}

extern "C" __global__ void plain_maximum(ARGUMENTS)
{
    THREAD;
    FIX(atomicMax(out, a[i]), if (a[i] > out[0]) out[0] = a[i]);  // <- finding: race
}

extern "C" __global__ void plain_bits(ARGUMENTS)
{
    THREAD;
    int word = (a[i] & 127) / 32, bit = 1 << (a[i] & 31);
    FIX(atomicOr(out + word, bit), out[word] |= bit);  // <- finding: race
}

extern "C" __global__ void plain_compaction(ARGUMENTS)
{
    THREAD;
    if (a[i] & 1) {
        int at = FIX(atomicAdd(flag, 1), flag[0]++);  // <- finding: race
        out[at] = a[i];  // <- finding: race
    }
}

extern "C" __global__ void column_sums(ARGUMENTS)
{
    THREAD;
    FIX(atomicAdd(out + t, a[i]), out[t] += a[i]);  // <- finding: race
}

extern "C" __global__ void scatter_add(ARGUMENTS)
{
    THREAD;
    FIX(atomicAdd(out + i + 1, a[i]), out[i + 1] += a[i]);  // <- finding: race
    FIX(atomicAdd(out + i + 2, a[i]), out[i + 2] += a[i]);  // <- finding: race
}

extern "C" __global__ void scatter_overwrites(ARGUMENTS)
{
    THREAD;
    FIX(atomicMax(out + (a[i] & 31), i), out[a[i] & 31] = i);  // <- finding: race
}

extern "C" __global__ void wide_sum(ARGUMENTS)
{
    THREAD;
    double* sum = (double*)out;
    FIX(atomicAdd(sum + t % 8, (double)a[i]), sum[t % 8] += a[i]);  // <- finding: race
}

extern "C" __global__ void bits_of_a_byte(ARGUMENTS)
{
    THREAD;
    unsigned char* bits = (unsigned char*)out;
    FIX(atomicOr(out + i / 32, (a[i] & 1) << i % 32), bits[i / 8] |= (a[i] & 1) << i % 8);  // <- finding: race
}

extern "C" __global__ void pairs_of_halves(ARGUMENTS)
{
    THREAD;
    half2* sum = (half2*)out;
    FIX(atomicAdd(sum + t % 4, __half2half2(1)), sum[t % 4] += __half2half2(1));  // <- finding: race
}

extern "C" __global__ void wrong_index(ARGUMENTS)
{
    THREAD;
    out[FIX(i, t)] = a[i];  // <- finding: race
}

extern "C" __global__ void overlapping_tiles(ARGUMENTS)
{
    THREAD;
    out[b * FIX(64, 60) + t] = a[i];  // <- finding: race
}

extern "C" __global__ void overlapping_vectors(ARGUMENTS)
{
    THREAD;
    *(int4*)(out + 4 * FIX(i, t)) = make_int4(i, i + 1, i + 2, i + 3);  // <- finding: race
}

extern "C" __global__ void stencil_in_place(ARGUMENTS)
{
    THREAD;
    const int* from = FIX(a, out);
    if (i > 0 && i < n - 1)
        out[i] = from[i - 1] + from[i + 1] + 1;  // <- finding: race
}

extern "C" __global__ void transpose_in_place(ARGUMENTS)
{
    THREAD;
    int row = i / 16, column = i % 16;
    const int* from = FIX(a, out);
    out[row * 16 + column] = from[column * 16 + row] + 1;  // <- finding: race
}

extern "C" __global__ void reverse_in_place(ARGUMENTS)
{
    THREAD;
    if (FIX(i < n / 2, true)) {
        int low = out[i], high = out[n - 1 - i];  // <- finding: race
        out[i] = high + 1;  // <- finding: race
        out[n - 1 - i] = low + 2;  // <- finding: race
    }
}

extern "C" __global__ void halo_exchange(ARGUMENTS)
{
    THREAD;
    if (phase & 1 && t == 63) work[b] = a[i];  // <- finding: race
    if (phase & 2) out[i] = a[i] + (t == 0 && b > 0 ? work[b - 1] : 0);  // <- finding: race
}

extern "C" __global__ void two_phases(ARGUMENTS)
{
    THREAD;
    if (phase & 1) work[i] = a[i];  // <- finding: race
    __syncthreads();
    if (phase & 2) out[i] = work[n - 1 - i];  // <- finding: race
}

extern "C" __global__ void table_of_first_block(ARGUMENTS)
{
    THREAD;
    if (phase & 1 && b == 0) work[t] = t * t;  // <- finding: race
    __syncthreads();
    if (phase & 2) out[i] = work[a[i] & 63];  // <- finding: race
}

extern "C" __global__ void cleared_by_first_block(ARGUMENTS)
{
    THREAD;
    if (phase & 1 && i == 0) out[0] = 1;  // <- finding: race
    __syncthreads();
    if (phase & 2) atomicAdd(out, a[i]);  // <- finding: race
}

extern "C" __global__ void odd_even_sort(ARGUMENTS)
{
    THREAD;
    for (int pass = 0; pass < 2; ++pass) {
        int low = 2 * i + pass;
        if (phase >> pass & 1 && low + 1 < 2 * n) {
            int x = out[low], y = out[low + 1];  // <- finding: race
            out[low] = min(x, y) + 1;  // <- finding: race
            out[low + 1] = max(x, y) + 2;  // <- finding: race
        }
        __syncthreads();
    }
}

extern "C" __global__ void one_buffer_for_two(ARGUMENTS)
{
    THREAD;
    int step = phase;
    const int* from = work + step % 2 * n;
    int* to = work + FIX((step + 1) % 2, step % 2) * n;
    to[i] = from[(i + 1) % n] + a[i];  // <- finding: race
}

extern "C" __global__ void carry_of_neighbour(ARGUMENTS)
{
    THREAD;
    int s = sum_of_warp(a[i]);
    if (t == 0 && phase & 1) work[b] = s;  // <- finding: race
    if (t == 0 && phase & 2) {
        int carry = 0;
        for (int other = 0; other < b; ++other) carry += work[other];  // <- finding: race
        out[b] = carry;
    }
}

extern "C" __global__ void level_of_a_graph(ARGUMENTS)
{
    THREAD;
    // all that the vertices of this level lead to belong to the next
    for (int edge = 0; edge < 2; ++edge) {
        int v = a[2 * i + edge] & 31;
        if (FIX(atomicCAS(work + v, 0, i + 1), work[v]) == 0) {  // <- finding: race
            FIX(, work[v] = i + 1);  // <- finding: race
            out[atomicAdd(flag, 1)] = v;
        }
    }
}

extern "C" __global__ void worklist_by_plain_tail(ARGUMENTS)
{
    THREAD;
    int v = a[i] & 31;
    if (atomicCAS(work + v, 0, 1) == 0) {
        int at = FIX(atomicAdd(flag, 1), flag[0]++);  // <- finding: race
        out[at] = v;  // <- finding: race
    }
}

extern "C" __global__ void shortest_paths(ARGUMENTS)
{
    THREAD;
    int u = a[2 * i] & 15, v = a[2 * i + 1] & 15;
    int length = FIX(atomicAdd(out + u, 0), out[u]) - 1 - i;  // <- finding: race
    FIX(atomicMin(out + v, length), if (length < out[v]) out[v] = length);  // <- finding: race
}

extern "C" __global__ void hooked_trees(ARGUMENTS)
{
    THREAD;
    int u = a[2 * i] & 15, v = a[2 * i + 1] & 15;
    int high = max(u, v), low = min(u, v);
    FIX(atomicMin(out + high, low), if (out[high] != low) out[high] = low);  // <- finding: race
}

extern "C" __global__ void plain_read_of_a_counter(ARGUMENTS)
{
    THREAD;
    if (FIX(atomicAdd(work, 0), work[0]) < 100)  // <- finding: race
        atomicAdd(work, a[i] & 3);  // <- finding: race
    out[i] = i;
}

extern "C" __global__ void plain_reset_of_a_counter(ARGUMENTS)
{
    THREAD;
    atomicAdd(work, 1);  // <- finding: race
    if (t == 0)
        FIX(atomicExch(work, 0), work[0] = 0);  // <- finding: race
}

extern "C" __global__ void plain_compare_and_swap(ARGUMENTS)
{
    THREAD;
    int v = a[i] & 15;
    FIX(atomicCAS(work + v, 0, i + 1), if (work[v] == 0) work[v] = i + 1);  // <- finding: race
}

extern "C" __global__ void plain_ticket(ARGUMENTS)
{
    THREAD;
    __shared__ int ticket;
    if (t == 0)
        ticket = FIX(atomicAdd(flag, 1), flag[0]++);  // <- finding: race
    __syncthreads();
    out[ticket * 64 + t] = a[i];  // <- finding: race
}

extern "C" __global__ void atomics_of_the_block(ARGUMENTS)
{
    THREAD;
    FIX(atomicAdd(out + t % 8, a[i]), atomicAdd_block(out + t % 8, a[i]));  // <- finding: race
}

extern "C" __global__ void one_atomic_of_the_block(ARGUMENTS)
{
    THREAD;
    if (b % 2) atomicAdd(out, a[i]);  // <- finding: race
    else FIX(atomicAdd(out, a[i]), atomicAdd_block(out, a[i]));  // <- finding: race
}
"""

faulty = cupy.RawModule(code=SOURCE)
mended = cupy.RawModule(code=SOURCE, options=("-DMENDED",))


def _launch(kernel, mend, arrays, phase=3, threads=64):
    (mended if mend else faulty).get_function(kernel)((4,), (threads,), (*arrays, np.int32(phase)))


def _in_two_launches(kernel, mend, arrays):
    for phase in (1, 2) if mend else (3,):
        _launch(kernel, mend, arrays, phase)


def lost_update(a, out, work, flag, mend):
    _launch("lost_update", mend, (a, out, work, flag))


def plain_histogram(a, out, work, flag, mend):
    _launch("plain_histogram", mend, (a, out, work, flag))


def plain_maximum(a, out, work, flag, mend):
    _launch("plain_maximum", mend, (a, out, work, flag))


def plain_bits(a, out, work, flag, mend):
    _launch("plain_bits", mend, (a, out, work, flag))


def plain_compaction(a, out, work, flag, mend):
    _launch("plain_compaction", mend, (a, out, work, flag))


def column_sums(a, out, work, flag, mend):
    _launch("column_sums", mend, (a, out, work, flag))


def scatter_add(a, out, work, flag, mend):
    _launch("scatter_add", mend, (a, out, work, flag))


def scatter_overwrites(a, out, work, flag, mend):
    _launch("scatter_overwrites", mend, (a, out, work, flag))


def wide_sum(a, out, work, flag, mend):
    _launch("wide_sum", mend, (a, out, work, flag))


def bits_of_a_byte(a, out, work, flag, mend):
    _launch("bits_of_a_byte", mend, (a, out, work, flag))


def pairs_of_halves(a, out, work, flag, mend):
    _launch("pairs_of_halves", mend, (a, out, work, flag))


def wrong_index(a, out, work, flag, mend):
    _launch("wrong_index", mend, (a, out, work, flag))


def overlapping_tiles(a, out, work, flag, mend):
    _launch("overlapping_tiles", mend, (a, out, work, flag))


def overlapping_vectors(a, out, work, flag, mend):
    _launch("overlapping_vectors", mend, (a, out, work, flag))


def stencil_in_place(a, out, work, flag, mend):
    _launch("stencil_in_place", mend, (a, out, work, flag))


def transpose_in_place(a, out, work, flag, mend):
    _launch("transpose_in_place", mend, (a, out, work, flag))


def reverse_in_place(a, out, work, flag, mend):
    _launch("reverse_in_place", mend, (a, out, work, flag))


def halo_exchange(a, out, work, flag, mend):
    _in_two_launches("halo_exchange", mend, (a, out, work, flag))


def two_phases(a, out, work, flag, mend):
    _in_two_launches("two_phases", mend, (a, out, work, flag))


def table_of_first_block(a, out, work, flag, mend):
    _in_two_launches("table_of_first_block", mend, (a, out, work, flag))


def cleared_by_first_block(a, out, work, flag, mend):
    _in_two_launches("cleared_by_first_block", mend, (a, out, work, flag))


def odd_even_sort(a, out, work, flag, mend):
    _in_two_launches("odd_even_sort", mend, (a, out, work, flag))


def one_buffer_for_two(a, out, work, flag, mend):
    _launch("one_buffer_for_two", mend, (a, out, work, flag))


def carry_of_neighbour(a, out, work, flag, mend):
    _in_two_launches("carry_of_neighbour", mend, (a, out, work, flag))


def level_of_a_graph(a, out, work, flag, mend):
    _launch("level_of_a_graph", mend, (a, out, work, flag))


def worklist_by_plain_tail(a, out, work, flag, mend):
    _launch("worklist_by_plain_tail", mend, (a, out, work, flag))


def shortest_paths(a, out, work, flag, mend):
    _launch("shortest_paths", mend, (a, out, work, flag))


def hooked_trees(a, out, work, flag, mend):
    _launch("hooked_trees", mend, (a, out, work, flag))


def plain_read_of_a_counter(a, out, work, flag, mend):
    _launch("plain_read_of_a_counter", mend, (a, out, work, flag))


def plain_reset_of_a_counter(a, out, work, flag, mend):
    _launch("plain_reset_of_a_counter", mend, (a, out, work, flag))


def plain_compare_and_swap(a, out, work, flag, mend):
    _launch("plain_compare_and_swap", mend, (a, out, work, flag))


def plain_ticket(a, out, work, flag, mend):
    _launch("plain_ticket", mend, (a, out, work, flag))


def atomics_of_the_block(a, out, work, flag, mend):
    _launch("atomics_of_the_block", mend, (a, out, work, flag))


def one_atomic_of_the_block(a, out, work, flag, mend):
    _launch("one_atomic_of_the_block", mend, (a, out, work, flag))
