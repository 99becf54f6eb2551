"""Volatile data that nothing orders: sums and tickets in two steps, and messages without fences.

See updates.py. Flags that blocks wait for are volatile in the right twins, too.
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
#define V(place) (*(volatile int*)(place))

extern "C" __global__ void volatile_sum(ARGUMENTS)
{
    THREAD;
    if (t == 0)
        FIX(atomicAdd(out, a[i]), V(out) = V(out) + a[i]);  // <- finding: race
}

extern "C" __global__ void volatile_ticket(ARGUMENTS)
{
    THREAD;
    if (t == 0) {
        int at = FIX(atomicAdd(flag, 1), V(flag));  // <- finding: race
        FIX(, V(flag) = at + 1);  // <- finding: race
        out[at] = a[i];  // <- finding: race
    }
}

extern "C" __global__ void volatile_sum_of_warps(ARGUMENTS)
{
    THREAD;
    if (t % 32 == 0)
        FIX(atomicAdd(out + b, a[i]), V(out + b) = V(out + b) + a[i]);  // <- finding: race
}

extern "C" __global__ void volatile_neighbours(ARGUMENTS)
{
    THREAD;
    V(work + i) = a[i];  // <- finding: race
    FIX(__syncthreads(), );
    out[i] = V(work + (i ^ 33));  // <- finding: race
}

extern "C" __global__ void volatile_message(ARGUMENTS)
{
    THREAD;
    if (b == 0) {
        V(work + t) = a[t];  // <- finding: race
        __syncthreads();
        FIX(__threadfence(), );
        if (t == 0) V(flag) = 1;
    } else {
        if (t == 0) {
            while (V(flag) == 0) {}
            FIX(__threadfence(), );
        }
        __syncthreads();
        out[i] = V(work + t);  // <- finding: race
    }
}
"""

faulty = cupy.RawModule(code=SOURCE)
mended = cupy.RawModule(code=SOURCE, options=("-DMENDED",))


def _launch(kernel, mend, arrays):
    (mended if mend else faulty).get_function(kernel)((4,), (64,), arrays)


def volatile_sum(a, out, work, flag, mend):
    _launch("volatile_sum", mend, (a, out, work, flag))


def volatile_ticket(a, out, work, flag, mend):
    _launch("volatile_ticket", mend, (a, out, work, flag))


def volatile_sum_of_warps(a, out, work, flag, mend):
    _launch("volatile_sum_of_warps", mend, (a, out, work, flag))


def volatile_neighbours(a, out, work, flag, mend):
    _launch("volatile_neighbours", mend, (a, out, work, flag))


def volatile_message(a, out, work, flag, mend):
    _launch("volatile_message", mend, (a, out, work, flag))
