"""The fourth set of kernels that no rule of counting was made from, in Numba: numbers, images, physics, learning."""

import math

import numpy as np
from numba import complex128, cuda, float32, float64, int32, uint32, uint64

ALL = 0xFFFFFFFF


@cuda.jit
def local_patterns_kernel(image, out):
    x, y = cuda.grid(2)
    h, w = image.shape
    if x < 1 or y < 1 or x >= w - 1 or y >= h - 1:
        return
    centre, code = image[y, x], uint32(0)
    code |= uint32(image[y - 1, x - 1] >= centre)
    code |= uint32(image[y - 1, x] >= centre) << 1
    code |= uint32(image[y - 1, x + 1] >= centre) << 2
    code |= uint32(image[y, x + 1] >= centre) << 3
    code |= uint32(image[y + 1, x + 1] >= centre) << 4
    code |= uint32(image[y + 1, x] >= centre) << 5
    code |= uint32(image[y + 1, x - 1] >= centre) << 6
    code |= uint32(image[y, x - 1] >= centre) << 7
    out[y - 1, x - 1] = code


def local_patterns(image, out):
    local_patterns_kernel[(3, 4), (16, 8)](image, out)


@cuda.jit
def kuwahara_kernel(image, out):
    tile = cuda.shared.array((12, 20), int32)
    left, top = cuda.blockIdx.x * 16 - 2, cuda.blockIdx.y * 8 - 2
    h, w = image.shape
    for k in range(cuda.threadIdx.y * 16 + cuda.threadIdx.x, 240, 128):
        y, x = min(max(top + k // 20, 0), h - 1), min(max(left + k % 20, 0), w - 1)
        tile[k // 20, k % 20] = image[y, x]
    cuda.syncthreads()
    x, y = left + 2 + cuda.threadIdx.x, top + 2 + cuda.threadIdx.y
    if x >= w or y >= h:
        return
    least, best = int32(2147483647), int32(0)
    for corner in range(4):
        i, j = cuda.threadIdx.x + 2 * (corner % 2), cuda.threadIdx.y + 2 * (corner // 2)
        total, squares = int32(0), int32(0)
        for k in range(9):
            value = tile[j + k // 3, i + k % 3]
            total += value
            squares += value * value
        spread = 9 * squares - total * total
        if spread < least:
            least, best = spread, total
    out[y, x] = best // 9


def kuwahara(image, out):
    kuwahara_kernel[(3, 3), (16, 8)](image, out)


@cuda.jit
def burgers_kernel(u, out, steps, rate):
    s = cuda.shared.array((2, 96), float64)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[0, t] = u[row, t]
    cuda.syncthreads()
    now = 0
    for _ in range(steps):
        here = s[now, t]
        before, after = s[now, (t + 95) % 96], s[now, (t + 1) % 96]
        flow = here * (here - before) if here > 0.0 else here * (after - here)
        s[1 - now, t] = here - rate * flow + 0.1 * (before - 2.0 * here + after)
        now = 1 - now
        cuda.syncthreads()
    out[row, t] = s[now, t]


def burgers(u, out):
    burgers_kernel[u.shape[0], 96](u, out, 8, 0.25)


@cuda.jit(device=True)
def integrand(x, k):
    return math.exp(-x) * math.sin(k * x)


@cuda.jit
def simpson_kernel(frequencies, out, intervals):
    i = cuda.grid(1)
    if i >= frequencies.size:
        return
    k, h = frequencies[i], 2.0 / intervals
    total = integrand(0.0, k) + integrand(2.0, k)
    for j in range(1, intervals):
        total += (4.0 if j % 2 else 2.0) * integrand(j * h, k)
    out[i] = total * h / 3.0


def simpson(frequencies, out):
    simpson_kernel[3, 32](frequencies, out, 40)


@cuda.jit
def eliminate_kernel(a, x):
    m = cuda.shared.array((8, 9), float32)
    i, j, system = cuda.threadIdx.y, cuda.threadIdx.x, cuda.blockIdx.x
    m[i, j] = a[system, i, j]
    for k in range(8):
        cuda.syncthreads()
        factor, above, pivot = m[i, k], m[k, j], m[k, k]
        cuda.syncthreads()
        if i == k:
            m[i, j] = above / pivot
        else:
            m[i, j] -= factor * above / pivot
    cuda.syncthreads()
    if j == 8:
        x[system, i] = m[i, 8]


def eliminate(a, x):
    eliminate_kernel[a.shape[0], (9, 8)](a, x)


@cuda.jit
def log_sums_kernel(a, out):
    row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    if row >= a.shape[0]:
        return
    lane = cuda.threadIdx.x
    most, total = float32(-1e30), float32(0)
    for i in range(lane, a.shape[1], 32):
        x = a[row, i]
        if x > most:
            total *= math.exp(most - x)
            most = x
        total += math.exp(x - most)
    step = 16
    while step > 0:
        other, rest = cuda.shfl_xor_sync(ALL, most, step), cuda.shfl_xor_sync(ALL, total, step)
        both = max(most, other)
        total = total * math.exp(most - both) + rest * math.exp(other - both)
        most = both
        step >>= 1
    if lane == 0:
        out[row] = most + math.log(total)


def log_sums(a, out):
    log_sums_kernel[4, (32, 4)](a, out)


@cuda.jit
def squares_dropout_kernel(a, out, key, share):
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        x = uint64(i) * key
        y = x
        z = y + key
        x = x * x + y
        x = (x >> uint64(32)) | (x << uint64(32))
        x = x * x + z
        x = (x >> uint64(32)) | (x << uint64(32))
        x = (x * x + y) >> uint64(32)
        out[i] = a[i] * float32(1.25) if x >= share else float32(0)


def squares_dropout(a, out):
    squares_dropout_kernel[3, 64](a, out, np.uint64(0xC58EFD154CE32F6D), np.uint64(858993459))


@cuda.jit
def mixture_kernel(points, means, widths, shares, out):
    i = cuda.grid(1)
    if i >= points.shape[0]:
        return
    chance = cuda.local.array(6, float64)
    total = 0.0
    for k in range(6):
        dx, dy = points[i, 0] - means[k, 0], points[i, 1] - means[k, 1]
        square = widths[k] * widths[k]
        chance[k] = shares[k] * math.exp(-0.5 * (dx * dx + dy * dy) / square) / square
        total += chance[k]
    for k in range(6):
        out[k, i] = chance[k] / total


def mixture(points, means, widths, shares, out):
    mixture_kernel[2, 64](points, means, widths, shares, out)


@cuda.jit(device=True, inline=True)
def next_uniform(state):
    state = state * uint64(6364136223846793005) + uint64(1442695040888963407)
    return state, (float64(state >> uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@cuda.jit
def calls_by_chance_kernel(strikes, out, paths):
    i = cuda.grid(1)
    if i >= strikes.size:
        return
    state, total = uint64(i) * uint64(0x9E3779B97F4A7C15) + uint64(77), 0.0
    for _ in range(paths):
        state, u = next_uniform(state)
        state, v = next_uniform(state)
        radius, angle = math.sqrt(-2.0 * math.log(u)), 2.0 * math.pi * v
        for normal in (radius * math.cos(angle), radius * math.sin(angle)):
            price = 100.0 * math.exp(-0.02 + 0.2 * normal)
            if price > strikes[i]:
                total += price - strikes[i]
    out[i] = total / (2 * paths)


def calls_by_chance(strikes, out):
    calls_by_chance_kernel[2, 32](strikes, out, 12)


@cuda.jit
def flock_kernel(birds, out, near, far):
    tile = cuda.shared.array((64, 4), float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    n = birds.shape[0]
    x = y = u = v = float32(0)
    if i < n:
        x, y, u, v = birds[i, 0], birds[i, 1], birds[i, 2], birds[i, 3]
    apart_x = apart_y = mean_u = mean_v = float32(0)
    count = int32(0)
    for first in range(0, n, 64):
        cuda.syncthreads()
        if first + t < n:
            for k in range(4):
                tile[t, k] = birds[first + t, k]
        cuda.syncthreads()
        for j in range(min(64, n - first)):
            if first + j == i:
                continue
            dx, dy = tile[j, 0] - x, tile[j, 1] - y
            square = dx * dx + dy * dy
            if square < near:
                apart_x -= dx
                apart_y -= dy
            if square < far:
                mean_u += tile[j, 2]
                mean_v += tile[j, 3]
                count += 1
    if i < n:
        if count > 0:
            mean_u, mean_v = mean_u / float32(count) - u, mean_v / float32(count) - v
        out[i, 0] = u + float32(0.5) * apart_x + float32(0.125) * mean_u
        out[i, 1] = v + float32(0.5) * apart_y + float32(0.125) * mean_v


def flock(birds, out):
    flock_kernel[3, 64](birds, out, np.float32(0.01), np.float32(0.04))


@cuda.jit
def splines_kernel(knots, pieces, places, out):
    i = cuda.grid(1)
    if i >= places.size:
        return
    x = places[i]
    low, high = 0, knots.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle
        else:
            high = middle
    d = x - knots[low]
    out[i] = pieces[low, 0] + d * (pieces[low, 1] + d * (pieces[low, 2] + d * pieces[low, 3]))


def splines(knots, pieces, places, out):
    splines_kernel[4, 64](knots, pieces, places, out)


@cuda.jit
def correlations_kernel(a, out):
    s = cuda.shared.array(160, int32)
    lag, row = cuda.threadIdx.x, cuda.blockIdx.x
    n = a.shape[1]
    for i in range(lag, n, cuda.blockDim.x):
        s[i] = a[row, i]
    cuda.syncthreads()
    total = int32(0)
    for i in range(n - lag):
        total += s[i] * s[i + lag]
    out[row, lag] = total


def correlations(a, out):
    correlations_kernel[a.shape[0], out.shape[1]](a, out)


@cuda.jit
def combs_kernel(a, out, gain):
    line = cuda.local.array(23, float32)
    channel = cuda.grid(1)
    if channel >= a.shape[1]:
        return
    delay = 11 + channel % 13
    for k in range(delay):
        line[k] = float32(0)
    at = 0
    for i in range(a.shape[0]):
        y = line[at]
        line[at] = a[i, channel] + gain * y
        out[i, channel] = y
        at += 1
        if at == delay:
            at = 0


def combs(a, out):
    combs_kernel[2, 32](a, out, np.float32(0.75))


@cuda.jit
def slerp_kernel(a, b, part, out):
    i = cuda.grid(1)
    if i >= part.size:
        return
    dot = float32(0)
    for k in range(4):
        dot += a[i, k] * b[i, k]
    sign = float32(1)
    if dot < float32(0):
        dot, sign = -dot, float32(-1)
    p, q = float32(1) - part[i], part[i]
    if dot < float32(0.999):
        angle = math.acos(dot)
        whole = math.sin(angle)
        p, q = math.sin(p * angle) / whole, math.sin(q * angle) / whole
    for k in range(4):
        out[i, k] = p * a[i, k] + q * sign * b[i, k]


def slerp(a, b, part, out):
    slerp_kernel[2, 64](a, b, part, out)


@cuda.jit
def great_circles_kernel(places, out):
    j, i = cuda.grid(2)
    n = places.shape[0]
    if i >= n or j >= n or j > i:
        return
    down, across = (places[i, 0] - places[j, 0]) * 0.5, (places[i, 1] - places[j, 1]) * 0.5
    s, t = math.sin(down), math.sin(across)
    h = s * s + math.cos(places[i, 0]) * math.cos(places[j, 0]) * t * t
    d = 12742.0 * math.asin(math.sqrt(min(h, 1.0)))
    out[i, j] = d
    out[j, i] = d


def great_circles(places, out):
    great_circles_kernel[(3, 6), (16, 8)](places, out)


@cuda.jit
def all_roots_kernel(polynomials, out, rounds):
    roots = cuda.local.array(4, complex128)
    i = cuda.grid(1)
    if i >= polynomials.shape[0]:
        return
    start = complex(0.4, 0.9)
    roots[0] = complex(1.0, 0.0)
    for k in range(1, 4):
        roots[k] = roots[k - 1] * start
    for _ in range(rounds):
        for k in range(4):
            z = roots[k]
            value, product = complex(1.0, 0.0), complex(1.0, 0.0)
            for c in range(4):
                value = value * z + polynomials[i, c]
            for other in range(4):
                if other != k:
                    product *= z - roots[other]
            roots[k] = z - value / product
    for k in range(4):
        z = roots[k]
        value = complex(1.0, 0.0)
        for c in range(4):
            value = value * z + polynomials[i, c]
        out[i, k] = abs(value) < 1e-8


def all_roots(polynomials, out):
    all_roots_kernel[3, 32](polynomials, out, 40)
