"""Numba kernels for the emulator's tests. Line numbers matter: findings are checked against marks in this file."""

from __future__ import annotations

from numba import cuda, float32

TILE = 16


def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def axpy_one_too_far(a, x, y):
    i = cuda.grid(1)
    if i <= x.size:
        y[i] = a * x[i] + 1  # MARK one too far


def transpose_padded(a, out):
    tile = cuda.shared.array((32, 33), float32)
    x = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    y = cuda.blockIdx.y * 32 + cuda.threadIdx.y
    for j in range(0, 32, 8):
        if x < a.shape[1] and y + j < a.shape[0]:
            tile[cuda.threadIdx.y + j, cuda.threadIdx.x] = a[y + j, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 32 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 32 + cuda.threadIdx.y
    for j in range(0, 32, 8):
        if x < out.shape[1] and y + j < out.shape[0]:
            out[y + j, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y + j]


def transpose_unpadded(a, out):
    tile = cuda.shared.array((32, 32), float32)
    x = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    y = cuda.blockIdx.y * 32 + cuda.threadIdx.y
    for j in range(0, 32, 8):
        tile[cuda.threadIdx.y + j, cuda.threadIdx.x] = a[y + j, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 32 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 32 + cuda.threadIdx.y
    for j in range(0, 32, 8):
        out[y + j, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y + j]  # MARK conflicts


def tiled_gemm(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * TILE + ty, cuda.blockIdx.x * TILE + tx
    total = float32(0)
    for k0 in range(0, a.shape[1], TILE):
        sa[ty, tx] = a[row, k0 + tx] if row < a.shape[0] and k0 + tx < a.shape[1] else float32(0)
        sb[ty, tx] = b[k0 + ty, col] if k0 + ty < b.shape[0] and col < b.shape[1] else float32(0)
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


def tiled_gemm_without_second_barrier(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * TILE + ty, cuda.blockIdx.x * TILE + tx
    total = float32(0)
    for k0 in range(0, a.shape[1], TILE):
        sa[ty, tx] = a[row, k0 + tx]  # MARK race writes a
        sb[ty, tx] = b[k0 + ty, col]  # MARK race writes b
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]  # MARK race reads
    c[row, col] = total


def reads_unwritten_shared(out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    if i < 32:
        tile[i] = i
    cuda.syncthreads()
    out[i] = tile[i]  # MARK uninitialised


def barrier_in_divergent_code(out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    if i % 2 == 0:
        tile[i] = 1
        cuda.syncthreads()  # MARK divergent barrier
        out[i] = tile[i]
    else:
        out[i] = 2
    value = out[i]
    while value > 0:
        value -= 1
        out[i] += 1


def early_exit_then_barrier(n, out):
    tile = cuda.shared.array(128, float32)
    i = cuda.threadIdx.x
    if i >= n:
        return
    tile[i] = i
    cuda.syncthreads()
    out[i] = tile[n - 1 - i]


def endless(out):
    i = cuda.threadIdx.x
    while out[i] == 0:  # MARK endless
        out[i] = 0


def collatz(n, out):
    i = cuda.grid(1)
    if i < out.size:
        value = i + 1
        steps = 0
        while value != 1:
            if value % 2 == 0:
                value //= 2
            else:
                value = 3 * value + 1
                if value > n:
                    steps += 1000
            steps += 1
        out[i] = steps


def warp_sum(x, out):
    i = cuda.grid(1)
    value = x[i]
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


def histogram(x, out):
    local = cuda.shared.array(16, float32)
    i = cuda.grid(1)
    if cuda.threadIdx.x < 16:
        local[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    cuda.atomic.add(local, x[i], 1.0)
    cuda.syncthreads()
    if cuda.threadIdx.x < 16:
        cuda.atomic.add(out, cuda.threadIdx.x, local[cuda.threadIdx.x])


def prints(x):
    i = cuda.threadIdx.x
    if i < 3:
        print(i, x[i])


def polynomial_in_local_array(x, out):
    coefficients = cuda.local.array(8, float32)
    i = cuda.grid(1)
    for k in range(8):
        coefficients[k] = x[(i + k) % x.size]
    total = float32(0)
    for k in range(8):
        total = total * float32(0.5) + coefficients[(k + i) % 8]
    out[i] = total
