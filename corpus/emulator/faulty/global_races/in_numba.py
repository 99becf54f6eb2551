"""The most frequent ones as students write them in Numba: see updates.py. The right line stands beside the wrong."""

from numba import cuda, int32

THREADS = 64


@cuda.jit
def lost_update_kernel(a, out, mend):
    part = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    part[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        total = int32(0)
        for j in range(THREADS):
            total += part[j]
        if mend:
            cuda.atomic.add(out, 0, total)
        else:
            out[0] += total  # <- finding: race


def numba_lost_update(a, out, work, flag, mend):
    lost_update_kernel[4, THREADS](a, out, mend)


@cuda.jit
def histogram_kernel(a, out, mend):
    b = a[cuda.grid(1)] & 15
    if mend:
        cuda.atomic.add(out, b, 1)
    else:
        out[b] += 1  # <- finding: race


def numba_histogram(a, out, work, flag, mend):
    histogram_kernel[4, THREADS](a, out, mend)


@cuda.jit
def last_block_kernel(a, out, work, flag, mend):
    last = cuda.shared.array(1, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        work[b] = a[b]  # <- finding: race
        if mend:
            cuda.threadfence()
        last[0] = cuda.atomic.add(flag, 0, 1)
        cuda.threadfence()
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t < cuda.gridDim.x:
        out[t] = work[t]  # <- finding: race


def numba_last_block(a, out, work, flag, mend):
    last_block_kernel[4, THREADS](a, out, work, flag, mend)


@cuda.jit
def lock_kernel(a, out, flag, mend):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(flag, 0, 0, 1) != 0:
            pass
        if mend:
            cuda.threadfence()
        out[0] += a[cuda.blockIdx.x]  # <- finding: race
        if mend:
            cuda.threadfence()
        cuda.atomic.exch(flag, 0, 0)


def numba_lock(a, out, work, flag, mend):
    lock_kernel[4, THREADS](a, out, flag, mend)


@cuda.jit
def blur_kernel(a, source, out):
    i = cuda.grid(1)
    if 0 < i < THREADS * 4 - 1:
        out[i] = source[i - 1] + source[i + 1] + 1  # <- finding: race


def numba_blur(a, out, work, flag, mend):
    blur_kernel[4, THREADS](a, work if mend else out, out)


@cuda.jit
def neighbours_kernel(a, out, work, mend):
    i = cuda.grid(1)
    work[i] = a[i]  # <- finding: race
    if mend:
        cuda.syncthreads()
    out[i] = work[i ^ 32]  # <- finding: race


def numba_neighbours(a, out, work, flag, mend):
    neighbours_kernel[4, THREADS](a, out, work, mend)


@cuda.jit
def scatter_kernel(a, out, mend):
    i = cuda.grid(1)
    if mend:
        cuda.atomic.max(out, a[i] & 31, i)
    else:
        out[a[i] & 31] = i  # <- finding: race


def numba_scatter(a, out, work, flag, mend):
    scatter_kernel[4, THREADS](a, out, mend)
