"""Kernels that show the emulator: bench_simt runs them, also on Numba's simulator, and profile_figures draws one."""

from __future__ import annotations

from numba import cuda, float32

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


def turned(x, y):
    """Each 4,096 elements turned round through shared memory."""
    _turned[x.shape[0] // 4096, 1024](x, y)
