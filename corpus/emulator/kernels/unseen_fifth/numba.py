"""The fifth set of kernels that no rule of counting was made from, in Numba: numbers, text, tables, images, physics."""

import math

import numpy as np
from numba import cuda, int32, int64, uint8, uint32, uint64

ALL = 0xFFFFFFFF


@cuda.jit(device=True)
def greatest_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@cuda.jit
def totients_kernel(numbers, out):
    i = cuda.grid(1)
    if i >= numbers.size:
        return
    n, count = numbers[i], 0
    for k in range(1, n + 1):
        if greatest_divisor(n, k) == 1:
            count += 1
    out[i] = count


def totients(numbers, out):
    totients_kernel[3, 32](numbers, out)


@cuda.jit
def modular_powers_kernel(bases, exponents, modulus, out):
    for i in range(cuda.grid(1), bases.size, cuda.gridsize(1)):
        base, exponent, result = uint64(bases[i]) % modulus, exponents[i], uint64(1)
        while exponent > uint32(0):
            if exponent & uint32(1):
                result = result * base % modulus
            base = base * base % modulus
            exponent >>= uint32(1)
        out[i] = result


def modular_powers(bases, exponents, out):
    modular_powers_kernel[2, 48](bases, exponents, np.uint64(4294967291), out)


@cuda.jit
def bit_facts_kernel(words, out):
    i = cuda.grid(1)
    if i >= words.size:
        return
    word = words[i]
    out[0, i] = cuda.popc(word)
    out[1, i] = cuda.clz(word)
    out[2, i] = cuda.ffs(word)
    out[3, i] = cuda.brev(word) >> uint32(20)


def bit_facts(words, out):
    bit_facts_kernel[3, 64](words, out)


@cuda.jit
def coin_ways_kernel(purses, out):
    ways = cuda.local.array(64, int64)
    i = cuda.grid(1)
    if i >= purses.shape[0]:
        return
    ways[0] = 1
    for total in range(1, 64):
        ways[total] = 0
    for k in range(purses.shape[1]):
        coin = purses[i, k]
        if coin <= 0:
            continue
        for total in range(coin, 64):
            ways[total] += ways[total - coin]
    out[i] = ways[63]


def coin_ways(purses, out):
    coin_ways_kernel[3, 32](purses, out)


@cuda.jit
def chain_cost_kernel(sizes, out):
    cost = cuda.shared.array((24, 24), int32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    n = sizes.shape[1] - 1
    if t < n:
        cost[t, t] = 0
    cuda.syncthreads()
    for length in range(1, n):
        end = t + length
        if end < n:
            least = int32(2147483647)
            for cut in range(t, end):
                here = cost[t, cut] + cost[cut + 1, end] + sizes[row, t] * sizes[row, cut + 1] * sizes[row, end + 1]
                least = min(least, here)
            cost[t, end] = least
        cuda.syncthreads()
    if t == 0:
        out[row] = cost[0, n - 1]


def chain_cost(sizes, out):
    chain_cost_kernel[sizes.shape[0], 32](sizes, out)


@cuda.jit
def local_threshold_kernel(image, out):
    tile = cuda.shared.array((14, 22), uint8)
    h, w = image.shape
    left, top = cuda.blockIdx.x * 16 - 3, cuda.blockIdx.y * 8 - 3
    for j in range(cuda.threadIdx.y, 14, 8):
        for i in range(cuda.threadIdx.x, 22, 16):
            tile[j, i] = image[min(max(top + j, 0), h - 1), min(max(left + i, 0), w - 1)]
    cuda.syncthreads()
    x, y = left + 3 + cuda.threadIdx.x, top + 3 + cuda.threadIdx.y
    if x < w and y < h:
        total = int32(0)
        for j in range(7):
            for i in range(7):
                total += tile[cuda.threadIdx.y + j, cuda.threadIdx.x + i]
        out[y, x] = uint8(255) if image[y, x] * 49 > total - 245 else uint8(0)


def local_threshold(image, out):
    h, w = image.shape
    local_threshold_kernel[((w + 15) // 16, (h + 7) // 8), (16, 8)](image, out)


@cuda.jit
def ranges_kernel(values, groups, least, most):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.min(least, groups[i], values[i])
        cuda.atomic.max(most, groups[i], values[i])


def ranges(values, groups, least, most):
    ranges_kernel[3, 64](values, groups, least, most)


@cuda.jit
def flags_kernel(masks, groups, some, every, odd):
    known = cuda.shared.array((3, 8), uint32)
    t = cuda.threadIdx.x
    if t < 8:
        known[0, t] = uint32(0)
        known[1, t] = uint32(ALL)
        known[2, t] = uint32(0)
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < masks.size:
        cuda.atomic.or_(known, (0, groups[i]), masks[i])
        cuda.atomic.and_(known, (1, groups[i]), masks[i])
        cuda.atomic.xor(known, (2, groups[i]), masks[i])
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.or_(some, t, known[0, t])
        cuda.atomic.and_(every, t, known[1, t])
        cuda.atomic.xor(odd, t, known[2, t])


def flags(masks, groups, some, every, odd):
    flags_kernel[4, 96](masks, groups, some, every, odd)


@cuda.jit
def polar_kernel(points, out):
    i = cuda.grid(1)
    if i < points.shape[0]:
        x, y = points[i, 0], points[i, 1]
        out[i, 0] = math.hypot(x, y)
        out[i, 1] = math.atan2(y, x)


def polar(points, out):
    polar_kernel[2, 96](points, out)


@cuda.jit(device=True)
def growth(hares, foxes):
    return 1.1 * hares - 0.4 * hares * foxes, 0.1 * hares * foxes - 0.4 * foxes


@cuda.jit
def hares_and_foxes_kernel(start, out, steps, dt):
    i = cuda.grid(1)
    if i >= start.shape[0]:
        return
    x, y = start[i, 0], start[i, 1]
    for _ in range(steps):
        a, b = growth(x, y)
        c, d = growth(x + 0.5 * dt * a, y + 0.5 * dt * b)
        e, f = growth(x + 0.5 * dt * c, y + 0.5 * dt * d)
        g, h = growth(x + dt * e, y + dt * f)
        x += dt / 6.0 * (a + 2.0 * c + 2.0 * e + g)
        y += dt / 6.0 * (b + 2.0 * d + 2.0 * f + h)
    out[i, 0] = x
    out[i, 1] = y


def hares_and_foxes(start, out):
    hares_and_foxes_kernel[3, 32](start, out, 12, 0.05)


@cuda.jit
def contract_four_kernel(a, b, out):
    k, j, i = cuda.grid(3)
    if i >= out.shape[0] or j >= out.shape[1] or k >= out.shape[2]:
        return
    total = int32(0)
    for p in range(a.shape[2]):
        for q in range(a.shape[3]):
            total += a[i, j, p, q] * b[q, k, p]
    out[i, j, k] = total


def contract_four(a, b, out):
    contract_four_kernel[(2, 2, 3), (8, 4, 2)](a, b, out)
