"""Kernels that show the emulator. bench_emulator runs them, also on Numba's simulator; profile_figures draws one."""

from __future__ import annotations

import math

from numba import cuda, float32, int32

TILE = 16


@cuda.jit
def _matmul(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@cuda.jit
def _arithmetic(x, n):
    i = cuda.grid(1)
    a = x[i]
    b, c = a + float32(1), a
    for _ in range(n):
        a = a * float32(1.001) + b
        b = b * float32(0.99) + c
        c = c - a * b
    x[i] = a + b + c


@cuda.jit
def _memory(x, y, n):
    i = cuda.grid(1)
    for k in range(n):
        y[i] = x[(i + 32 * k) & 1023] + y[i]


@cuda.jit
def _axpy(x, y, a):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + float32(1)


@cuda.jit
def _turned(x, y):
    tile = cuda.shared.array(4096, float32)
    start, t = cuda.blockIdx.x * 4096, cuda.threadIdx.x
    for i in range(t, 4096, cuda.blockDim.x):
        tile[i] = x[start + i]
    cuda.syncthreads()
    for i in range(t, 4096, cuda.blockDim.x):
        y[start + i] = tile[4095 - i]


@cuda.jit
def _collatz(steps):
    i = cuda.grid(1)
    value, count = i + 1, 0
    while value != 1:
        if value % 2 == 0:
            value //= 2
        else:
            value = 3 * value + 1
        count += 1
    steps[i] = count


@cuda.jit
def _row_softmax(x, y):
    maxima = cuda.shared.array(8, float32)
    sums = cuda.shared.array(8, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    largest = float32(-math.inf)
    for j in range(t, x.shape[1], cuda.blockDim.x):
        largest = max(largest, x[row, j])
    for distance in (16, 8, 4, 2, 1):
        largest = max(largest, cuda.shfl_xor_sync(0xFFFFFFFF, largest, distance))
    if t % 32 == 0:
        maxima[t // 32] = largest
    cuda.syncthreads()
    for warp in range(cuda.blockDim.x // 32):
        largest = max(largest, maxima[warp])
    total = float32(0)
    for j in range(t, x.shape[1], cuda.blockDim.x):
        power = math.exp(x[row, j] - largest)
        y[row, j] = power
        total += power
    for distance in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, distance)
    if t % 32 == 0:
        sums[t // 32] = total
    cuda.syncthreads()
    total = float32(0)
    for warp in range(cuda.blockDim.x // 32):
        total += sums[warp]
    for j in range(t, x.shape[1], cuda.blockDim.x):
        y[row, j] /= total


@cuda.jit
def _tiled(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    row, column = cuda.threadIdx.y, cuda.threadIdx.x
    i = cuda.blockIdx.y * TILE + row
    j = cuda.blockIdx.x * TILE + column
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        left[row, column] = a[i, k + column]
        right[row, column] = b[k + row, j]
        cuda.syncthreads()
        for inner in range(TILE):
            total += left[row, inner] * right[inner, column]
        cuda.syncthreads()
    c[i, j] = total


@cuda.jit
def _histogram(values, counts):
    own = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    own[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(own, values[i], 1)
    cuda.syncthreads()
    cuda.atomic.add(counts, t, own[t])


@cuda.jit
def _scan(x, y):
    sums = cuda.shared.array(512, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    sums[t] = x[i]
    here, distance = 0, 1
    while distance < 256:
        cuda.syncthreads()
        mine = sums[256 * here + t]
        if t >= distance:
            mine += sums[256 * here + t - distance]
        here = 1 - here
        sums[256 * here + t] = mine
        distance *= 2
    y[i] = sums[256 * here + t]


@cuda.jit
def _scattered(x, y):
    i = cuda.grid(1)
    y[i % 512 * 512 + i // 512] = x[i]


@cuda.jit
def _global_tree(x, work):
    first, t = cuda.blockIdx.x * 256, cuda.threadIdx.x
    work[first + t] = x[first + t]
    distance = 128
    while distance > 0:
        cuda.syncthreads()
        if t < distance:
            work[first + t] += work[first + t + distance]
        distance //= 2


def collatz(steps):
    """How many steps the sequence that starts at i + 1 takes to reach 1."""
    _collatz[1, steps.shape[0]](steps)


def matmul(a, b, c):
    """The naive matrix product, one thread an element."""
    blocks = (a.shape[0] + TILE - 1) // TILE
    _matmul[(blocks, blocks), (TILE, TILE)](a, b, c)


def arithmetic(x, n):
    """A loop of dependent float32 arithmetic."""
    _arithmetic[x.shape[0] // 128, 128](x, n)


def memory(x, y, n):
    """A loop of two coalesced loads and a store."""
    _memory[x.shape[0] // 128, 128](x, y, n)


def axpy(x, y, a):
    """y = a x + 1."""
    _axpy[(x.shape[0] + 255) // 256, 256](x, y, a)


def row_softmax(x, y):
    """The softmax of each row, a block of 256 threads a row."""
    _row_softmax[x.shape[0], 256](x, y)


def tiled(a, b, c):
    """The matrix product through tiles of shared memory; sizes are multiples of TILE."""
    _tiled[(c.shape[1] // TILE, c.shape[0] // TILE), (TILE, TILE)](a, b, c)


def histogram(values, counts):
    """How often each of 256 values occurs, counted in shared memory first; counts are added to."""
    _histogram[8, 256](values, counts)


def scan(x, y):
    """Sums of each 256 elements up to each, Hillis and Steele's way."""
    _scan[x.shape[0] // 256, 256](x, y)


def scattered(x, y):
    """512 x 512 elements stored with a stride of 512: every lane into a sector of its own."""
    _scattered[x.shape[0] // 256, 256](x, y)


def global_tree(x, work):
    """Sums of each 256 elements by a tree in global memory; the first of each 256 is the sum."""
    _global_tree[x.shape[0] // 256, 256](x, work)


def turned(x, y):
    """Each 4,096 elements turned round through shared memory."""
    _turned[x.shape[0] // 4096, 1024](x, y)
