"""The fifth set of kernels that no rule of counting was made from, in Numba: scans, sorts, games, learning, signals."""

import math

import numpy as np
from numba import cuda, float32, int32, uint32

ALL = 0xFFFFFFFF


@cuda.jit
def column_sums_so_far_kernel(a, out):
    tile = cuda.shared.array((2, 8, 33), int32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column = cuda.blockIdx.x * 32 + x
    carried, now = int32(0), 0
    for first in range(0, a.shape[0], 8):
        row = first + y
        tile[now, y, x] = a[row, column] if row < a.shape[0] and column < a.shape[1] else int32(0)
        cuda.syncthreads()
        step = 1
        while step < 8:
            value = tile[now, y, x]
            if y >= step:
                value += tile[now, y - step, x]
            now = 1 - now
            tile[now, y, x] = value
            cuda.syncthreads()
            step *= 2
        if row < a.shape[0] and column < a.shape[1]:
            out[row, column] = tile[now, y, x] + carried
        carried += tile[now, 7, x]
        now = 1 - now


def column_sums_so_far(a, out):
    column_sums_so_far_kernel[2, (32, 8)](a, out)


@cuda.jit
def palindromes_kernel(text, out):
    i = cuda.grid(1)
    n = text.size
    if i >= n:
        return
    odd = 0
    while i - odd >= 0 and i + odd < n and text[i - odd] == text[i + odd]:
        odd += 1
    even = 0
    while i - 1 - even >= 0 and i + even < n and text[i - 1 - even] == text[i + even]:
        even += 1
    out[i, 0] = 2 * odd - 1
    out[i, 1] = 2 * even


def palindromes(text, out):
    palindromes_kernel[4, 64](text, out)


@cuda.jit
def candidates_kernel(boards, out):
    rows = cuda.shared.array(9, uint32)
    columns = cuda.shared.array(9, uint32)
    boxes = cuda.shared.array(9, uint32)
    x, y, board = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.x
    if y == 0:
        rows[x] = uint32(0)
        columns[x] = uint32(0)
        boxes[x] = uint32(0)
    cuda.syncthreads()
    digit, box = boards[board, y, x], y // 3 * 3 + x // 3
    if digit:
        bit = uint32(1) << uint32(digit)
        cuda.atomic.or_(rows, y, bit)
        cuda.atomic.or_(columns, x, bit)
        cuda.atomic.or_(boxes, box, bit)
    cuda.syncthreads()
    out[board, y, x] = 0 if digit else ~(rows[y] | columns[x] | boxes[box]) & uint32(1022)


def candidates(boards, out):
    candidates_kernel[boards.shape[0], (9, 9)](boards, out)


@cuda.jit
def walk_ants_kernel(start, fields, steps):
    field = cuda.shared.array((16, 17), int32)
    t, ant = cuda.threadIdx.x, cuda.blockIdx.x
    for k in range(t, 256, 32):
        field[k // 16, k % 16] = 0
    cuda.syncwarp()
    if t == 0:
        x, y, way = start[ant, 0], start[ant, 1], start[ant, 2]
        for _ in range(steps):
            if field[y, x]:
                field[y, x] = 0
                way = (way + 3) % 4
            else:
                field[y, x] = 1
                way = (way + 1) % 4
            if way == 0:
                y = (y + 15) % 16
            elif way == 1:
                x = (x + 1) % 16
            elif way == 2:
                y = (y + 1) % 16
            else:
                x = (x + 15) % 16
    cuda.syncwarp()
    for k in range(t, 256, 32):
        fields[ant, k // 16, k % 16] = field[k // 16, k % 16]


def walk_ants(start, fields):
    walk_ants_kernel[start.shape[0], 32](start, fields, 90)


@cuda.jit
def equal_neighbours_kernel(keys, out):
    i = cuda.grid(1)
    lane = cuda.laneid
    same = cuda.match_any_sync(ALL, keys[i])
    below = cuda.popc(same & ((1 << lane) - 1))
    whole = cuda.popc(same)
    half = cuda.ballot_sync(ALL, 2 * whole > 32)
    out[i, 0] = below
    out[i, 1] = whole
    out[i, 2] = cuda.popc(half)


def equal_neighbours(keys, out):
    equal_neighbours_kernel[3, 64](keys, out)


@cuda.jit
def adagrad_kernel(weights, squares, slopes, rate):
    for i in range(cuda.grid(1), weights.size, cuda.gridsize(1)):
        slope = slopes[i]
        total = squares[i] + slope * slope
        squares[i] = total
        weights[i] -= rate * slope / (math.sqrt(total) + float32(1e-7))


def adagrad(weights, squares, slopes):
    adagrad_kernel[2, 96](weights, squares, slopes, np.float32(0.1))


@cuda.jit
def soft_signs_kernel(a, out):
    j, i = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        x = a[i, j]
        y = x if x > float32(20) else math.log1p(math.exp(x))
        out[i, j] = x * math.tanh(y)


def soft_signs(a, out):
    soft_signs_kernel[(2, 3), (32, 4)](a, out)


@cuda.jit
def reorder_colours_kernel(image, out):
    c, x, y = cuda.threadIdx.x, cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y, cuda.blockIdx.y
    h, w, _ = image.shape
    if x < w:
        out[2 - c, h - 1 - y, x] = image[y, x, c]


def reorder_colours(image, out):
    h, w, _ = image.shape
    reorder_colours_kernel[((w + 15) // 16, h), (3, 16)](image, out)


@cuda.jit
def one_pole_kernel(a, out, keep):
    i = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    if i >= a.shape[0]:
        return
    lane, before = cuda.threadIdx.x, float32(0)
    for first in range(0, a.shape[1], 32):
        k = first + lane
        value = a[i, k] if k < a.shape[1] else float32(0)
        factor, step = keep, 1
        while step < 32:
            other = cuda.shfl_up_sync(ALL, value, step)
            if lane >= step:
                value += factor * other
            factor *= factor
            step *= 2
        power = keep
        for _ in range(lane):
            power *= keep
        value += power * before
        if k < a.shape[1]:
            out[i, k] = value
        before = cuda.shfl_sync(ALL, value, 31)


def one_pole(a, out):
    one_pole_kernel[4, (32, 2)](a, out, np.float32(0.875))


@cuda.jit
def comb_sort_kernel(a):
    s = cuda.shared.array((32, 25), int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i >= a.shape[0]:
        return
    n = a.shape[1]
    for k in range(n):
        s[t, k] = a[i, k]
    gap, swapped = n, True
    while gap > 1 or swapped:
        gap = max(1, gap * 10 // 13)
        swapped = False
        for k in range(n - gap):
            if s[t, k] > s[t, k + gap]:
                s[t, k], s[t, k + gap] = s[t, k + gap], s[t, k]
                swapped = True
    for k in range(n):
        a[i, k] = s[t, k]


def comb_sort(a):
    comb_sort_kernel[2, 32](a)
