"""Control flow: branches, loops of unequal length, early returns, switches, calls, recursion, local arrays."""

import cupy
import numpy as np
from numba import cuda, int32

THREADS = 64


@cuda.jit
def nested_kernel(a, out):
    i = cuda.grid(1)
    x = a[i]
    if x > 0:
        if x % 2 == 0:
            y = x // 2
            if x % 3 == 0:
                y += 100
        else:
            y = 3 * x + 1
        y += 7
    elif x == 0:
        y = -1
    else:
        y = -x
        while y > 10:
            y -= 10
    out[i] = y


def nested(a, out):
    nested_kernel[(a.size + THREADS - 1) // THREADS, THREADS](a, out)


@cuda.jit
def early_return_kernel(a, out):
    i = cuda.grid(1)
    if i >= a.size:
        return
    x = a[i]
    if x < 0:
        out[i] = -1
        return
    if i % 3 == 0:
        return
    out[i] = x * 2


def early_return(a, out):
    early_return_kernel[(a.size + THREADS - 1) // THREADS, THREADS](a, out)


@cuda.jit
def collatz_kernel(a, out):
    i = cuda.grid(1)
    n = int32(a[i] % 50 + 1)
    steps = int32(0)
    while n != 1:
        n = int32(n // 2) if n % 2 == 0 else int32(3 * n + 1)
        steps += int32(1)
    out[i] = steps


def collatz(a, out):
    collatz_kernel[1, a.size](a, out)


@cuda.jit
def break_continue_kernel(a, out):
    i = cuda.grid(1)
    total = int32(0)
    for k in range(40):
        if (k + i) % 5 == 0:
            continue
        if k > a[i] % 40:
            break
        total += k
        for j in range(i % 4):
            total ^= j + k
    out[i] = total


def break_continue(a, out):
    break_continue_kernel[1, a.size](a, out)


@cuda.jit
def loop_with_barriers_kernel(a, out):
    """Every thread takes part in each barrier; the trip count is the block's."""
    line = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    value = a[cuda.grid(1)]
    for _ in range(cuda.blockIdx.x + 2):
        line[t] = value
        cuda.syncthreads()
        if t % 2 == 0:
            value += line[(t + 1) % THREADS]
        else:
            value -= line[(t + 7) % THREADS]
        cuda.syncthreads()
    out[cuda.grid(1)] = value


def loop_with_barriers(a, out):
    loop_with_barriers_kernel[a.size // THREADS, THREADS](a, out)


@cuda.jit
def local_array_kernel(a, out):
    """The index depends on data, so the array lies in local memory."""
    i = cuda.grid(1)
    counts = cuda.local.array(16, int32)
    for k in range(16):
        counts[k] = 0
    for k in range(a.shape[1]):
        counts[a[i, k] & 15] += 1
    best = 0
    for k in range(16):
        if counts[k] > counts[best]:
            best = k
    out[i] = best * 1000 + counts[best]


def local_array(a, out):
    local_array_kernel[1, a.shape[0]](a, out)


@cuda.jit(device=True)
def polynomial(x, degree):
    total = np.float32(0)
    for k in range(degree):
        total = total * x + np.float32(k + 1)
    return total


@cuda.jit
def device_function_kernel(a, out):
    i = cuda.grid(1)
    out[i] = polynomial(a[i], i % 5) + polynomial(np.float32(0.5), 3)


def device_function(a, out):
    device_function_kernel[1, a.size](a, out)


module = cupy.RawModule(
    code=r"""
extern "C" __global__ void switch_case(const int* a, int* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = a[i], r;
    switch (v % 9) {
        case 0: r = v + 1; break;
        case 1: r = v * v; break;
        case 2: r = v ^ 0x55;  // falls through
        case 3: r = 17 - v; break;
        case 4: r = v << 3; break;
        case 5: r = v / 3; break;
        case 6: r = -v; break;
        case 7: r = __popc(v); break;
        default: r = 0;
    }
    out[i] = r;
}

__device__ __noinline__ float average(const float* row, int n, float* highest)
{
    float total = 0;
    for (int k = 0; k < n; ++k) {
        total += row[k];
        *highest = fmaxf(*highest, row[k]);
    }
    return total / n;
}

extern "C" __global__ void outlined(const float* a, float* out, int n)
{
    int i = threadIdx.x;
    float highest = -1e30f;  // its address is taken: local memory
    float mean = average(a + i * n, n, &highest);
    if (i % 3 == 0) mean += average(a, 2 + i % 4, &highest);
    out[2 * i] = mean;
    out[2 * i + 1] = highest;
}

struct Pair { float low, high; int index[3]; };

__device__ __noinline__ Pair sorted(Pair p)
{
    Pair q = p;
    if (p.low > p.high) { q.low = p.high; q.high = p.low; q.index[1] = p.index[2]; }
    return q;
}

extern "C" __global__ void structures(const float* a, float* out)
{
    int i = threadIdx.x;
    Pair p = {a[2 * i], a[2 * i + 1], {i, i + 1, i + 2}};
    Pair q = sorted(p);
    out[3 * i] = q.low;
    out[3 * i + 1] = q.high;
    out[3 * i + 2] = q.index[1];
}

__device__ __noinline__ int ackermann(int m, int n)
{
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void recursion(const int* a, int* out)
{
    int i = threadIdx.x;
    out[i] = fibonacci(a[i] & 7) * 1000 + ackermann(a[i] >> 3 & 1, a[i] >> 4 & 3);
}

typedef int (*Operation)(int, int);
__device__ __noinline__ int plus(int x, int y) { return x + y; }
__device__ __noinline__ int times(int x, int y) { return x * y; }
__device__ __noinline__ int minus(int x, int y) { return x - y; }
__device__ Operation table[3] = {plus, times, minus};

extern "C" __global__ void pointers(const int* a, int* out)
{
    int i = threadIdx.x;
    out[i] = table[a[i] % 3](a[i], i);
}

extern "C" __global__ void local_vectors(const float4* a, const int* index, float4* out)
{
    float4 kept[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) kept[k] = a[threadIdx.x * 8 + k];
    for (int k = 0; k < 8; ++k) {
        int j = index[threadIdx.x * 8 + k] & 7;
        float4 v = kept[j];
        v.x += k;
        kept[(j + 1) & 7] = v;
    }
    float4 v = kept[index[threadIdx.x] & 7];
    out[threadIdx.x] = v;
}

extern "C" __global__ void short_circuit(const int* a, int* out, int n)
{
    int i = threadIdx.x;
    int r = 0;
    if (i > 0 && a[i - 1] > 5 && (i + 1 >= n || a[i + 1] % 2 == 0)) r = 1;
    r += a[i] > 3 ? (a[i] > 6 ? a[(i + 1) % n] : 20) : a[(i + 2) % n] * 3;
    do { r = r * 5 % 97; } while (r > 60);
    out[i] = r;
}

extern "C" __global__ void exit_before_barrier(const int* a, int* out, int n)
{
    // Threads that have ended are not waited for.
    __shared__ int line[64];
    int t = threadIdx.x;
    if (t >= n) return;
    line[t] = a[t];
    __syncthreads();
    out[t] = line[n - 1 - t];
}

extern "C" __global__ void lock_in_a_warp(const int* a, int* lock, int* total)
{
    // Lanes of one warp compete for a lock: each needs the others to make progress while it waits.
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int*)total = *(volatile int*)total + a[threadIdx.x];
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

extern "C" __global__ void ticket(const int* a, int* turn, int* out)
{
    // Warps, not lanes, wait for their turn; the last one goes first.
    int warp = threadIdx.x / 32, last = blockDim.x / 32 - 1;
    if (threadIdx.x % 32 == 0) {
        while (atomicAdd(turn, 0) != last - warp) {}
        out[last - warp] = a[warp];
        __threadfence();
        atomicExch(turn, last - warp + 1);
    }
}

extern "C" __global__ void goto_loop(const int* a, int* out)
{
    int i = threadIdx.x, v = a[i] & 31, steps = 0;
again:
    if (v & 1) {
        v = v * 3 + 1;
        if (++steps > 50) goto done;
        goto again;
    }
    if (v > 1) {
        v >>= 1;
        ++steps;
        if (v % 7 == 3) goto done;
        goto again;
    }
done:
    out[i] = v * 100 + steps;
}
"""
)


def switch_case(a, out):
    module.get_function("switch_case")((a.size // THREADS,), (THREADS,), (a, out))


def outlined(a, out):
    m, n = a.shape
    module.get_function("outlined")((1,), (m,), (a, out, np.int32(n)))


def structures(a, out):
    module.get_function("structures")((1,), (a.size // 2,), (a, out))


def recursion(a, out):
    module.get_function("recursion")((1,), (a.size,), (a, out))


def pointers(a, out):
    module.get_function("pointers")((1,), (a.size,), (a, out))


def local_vectors(a, index, out):
    module.get_function("local_vectors")((1,), (32,), (a, index, out))


def short_circuit(a, out):
    module.get_function("short_circuit")((1,), (a.size,), (a, out, np.int32(a.size)))


def goto_loop(a, out):
    module.get_function("goto_loop")((1,), (a.size,), (a, out))


def exit_before_barrier(a, out):
    module.get_function("exit_before_barrier")((1,), (64,), (a, out, np.int32(out.size)))


def lock_in_a_warp(a, lock, total):
    module.get_function("lock_in_a_warp")((1,), (a.size,), (a, lock, total))


def ticket(a, turn, out):
    module.get_function("ticket")((1,), (32 * out.size,), (a, turn, out))
