"""Small kernels that the rules of counting by machine code were not made from, in Numba."""

import math

from numba import cuda, float32, float64, int32

THREADS, WINDOW = 128, 136


@cuda.jit
def saxpy_pairs_kernel(a, b, out):
    i = 2 * cuda.grid(1)
    if i + 1 < a.size:
        out[i] = 2.5 * a[i] + b[i]
        out[i + 1] = 2.5 * a[i + 1] + b[i + 1]


def saxpy_pairs(a, b, out):
    saxpy_pairs_kernel[2, THREADS](a, b, out)


@cuda.jit
def tiled_product_kernel(a, b, c):
    left = cuda.shared.array((16, 16), float32)
    right = cuda.shared.array((16, 16), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * 16 + y, cuda.blockIdx.x * 16 + x
    total = float32(0)
    for tile in range(a.shape[1] // 16):
        left[y, x] = a[row, tile * 16 + x]
        right[y, x] = b[tile * 16 + y, column]
        cuda.syncthreads()
        for k in range(16):
            total += left[y, k] * right[k, x]
        cuda.syncthreads()
    c[row, column] = total


def tiled_product(a, b, c):
    tiled_product_kernel[(2, 2), (16, 16)](a, b, c)


@cuda.jit
def moving_average_kernel(a, out):
    window = cuda.shared.array(WINDOW, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    window[t] = a[i]
    if t < 8 and i + THREADS < a.size:
        window[t + THREADS] = a[i + THREADS]
    cuda.syncthreads()
    if i + 8 <= a.size:
        total = float32(0)
        for k in range(8):
            total += window[t + k]
        out[i] = total * float32(0.125)


def moving_average(a, out):
    moving_average_kernel[2, THREADS](a, out)


@cuda.jit
def variance_kernel(a, out):
    sums = cuda.shared.array(THREADS, float64)
    squares = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    x = float64(a[cuda.blockIdx.x, t])
    sums[t] = x
    squares[t] = x * x
    step = THREADS // 2
    while step > 0:
        cuda.syncthreads()
        if t < step:
            sums[t] += sums[t + step]
            squares[t] += squares[t + step]
        step //= 2
    if t == 0:
        mean = sums[0] / THREADS
        out[cuda.blockIdx.x] = squares[0] / THREADS - mean * mean


def variance(a, out):
    variance_kernel[3, THREADS](a, out)


@cuda.jit
def horner_kernel(a, out):
    i = cuda.grid(1)
    x = a[i]
    out[i] = (((float32(0.5) * x - float32(1.5)) * x + float32(2)) * x - float32(0.25)) * x + float32(1)


def horner(a, out):
    horner_kernel[2, THREADS](a, out)


@cuda.jit
def game_of_life_kernel(a, out):
    x, y = cuda.grid(2)
    m, n = a.shape
    if y < m and x < n:
        alive = 0
        for j in (-1, 0, 1):
            for i in (-1, 0, 1):
                if i != 0 or j != 0:
                    alive += a[(y + j) % m, (x + i) % n]
        out[y, x] = 1 if alive == 3 or (alive == 2 and a[y, x] == 1) else 0


def game_of_life(a, out):
    game_of_life_kernel[(2, 3), (16, 8)](a, out)


@cuda.jit
def shell_sort_kernel(a, out):
    values = cuda.local.array(16, int32)
    i = cuda.grid(1)
    for k in range(16):
        values[k] = a[i, k]
    for gap in (8, 4, 2, 1):
        for k in range(gap, 16):
            x, j = values[k], k
            while j >= gap and values[j - gap] > x:
                values[j] = values[j - gap]
                j -= gap
            values[j] = x
    for k in range(16):
        out[i, k] = values[k]


def shell_sort(a, out):
    shell_sort_kernel[2, 32](a, out)


@cuda.jit
def distances_kernel(points, out):
    i, j = cuda.grid(2)
    if i < points.shape[0] and j < points.shape[0]:
        dx, dy = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1]
        out[j, i] = math.sqrt(dx * dx + dy * dy)


def distances(points, out):
    distances_kernel[(3, 5), (16, 8)](points, out)


@cuda.jit
def weighted_histogram_kernel(a, weights, out):
    bins = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t < 32:
        bins[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    cuda.atomic.add(bins, a[i] & 31, weights[i])
    cuda.syncthreads()
    if t < 32:
        cuda.atomic.add(out, t, bins[t])


def weighted_histogram(a, weights, out):
    weighted_histogram_kernel[2, THREADS](a, weights, out)


@cuda.jit
def suffix_minimum_kernel(a, out):
    values = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    values[t] = a[cuda.blockIdx.x, t]
    step = 1
    while step < THREADS:
        cuda.syncthreads()
        other = values[t + step] if t + step < THREADS else values[t]
        cuda.syncthreads()
        values[t] = min(values[t], other)
        step *= 2
    out[cuda.blockIdx.x, t] = values[t]


def suffix_minimum(a, out):
    suffix_minimum_kernel[2, THREADS](a, out)
