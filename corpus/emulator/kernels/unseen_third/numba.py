"""The third set of kernels that no rule of counting was made from, in Numba."""

import math

import numpy as np
from numba import complex64, cuda, float32, float64, int32, int64, uint32, uint64

ALL = 0xFFFFFFFF
TAPS = np.array([0.0625, -0.25, 0.5, 1.0, 0.375, -0.125, 0.03125], np.float32)


@cuda.jit
def grey_levels_kernel(image, out):
    y, x = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y, cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if y < image.shape[0] and x < image.shape[1]:
        r, g, b = int32(image[y, x, 0]), int32(image[y, x, 1]), int32(image[y, x, 2])
        out[y, x] = (r * 19 + g * 37 + b * 8 + 32) >> 6


def grey_levels(image, out):
    grey_levels_kernel[(3, 4), (16, 4)](image, out)


@cuda.jit
def emboss_kernel(a, out, strength):
    tile = cuda.shared.array((10, 18), float32)
    left, top = cuda.blockIdx.x * 16 - 1, cuda.blockIdx.y * 8 - 1
    t = cuda.threadIdx.y * 16 + cuda.threadIdx.x
    h, w = a.shape
    for k in range(t, 180, 128):
        y, x = top + k // 18, left + k % 18
        if 0 <= y < h and 0 <= x < w:
            tile[k // 18, k % 18] = a[y, x]
        else:
            tile[k // 18, k % 18] = float32(0)
    cuda.syncthreads()
    i, j = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    if left + i < w and top + j < h:
        edge = tile[j + 1, i + 1] - tile[j - 1, i - 1] + float32(0.5) * (tile[j, i + 1] - tile[j, i - 1])
        out[top + j, left + i] = tile[j, i] + strength * edge


def emboss(a, out):
    emboss_kernel[(3, 3), (16, 8)](a, out, float32(0.75))


@cuda.jit
def row_minima_kernel(a, least, where):
    values = cuda.shared.array(64, float64)
    places = cuda.shared.array(64, int32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    best, at = math.inf, -1
    for i in range(t, a.shape[1], 64):
        if a[row, i] < best:
            best, at = a[row, i], i
    values[t], places[t] = best, at
    step = 32
    while step > 0:
        cuda.syncthreads()
        if t < step:
            other, place = values[t + step], places[t + step]
            if other < values[t] or (other == values[t] and place < places[t]):
                values[t], places[t] = other, place
        step //= 2
    if t == 0:
        least[row], where[row] = values[0], places[0]


def row_minima(a, least, where):
    row_minima_kernel[a.shape[0], 64](a, least, where)


@cuda.jit
def sums_by_key_kernel(keys, values, sums, most):
    own = cuda.shared.array(24, int64)
    t = cuda.threadIdx.x
    if t < 24:
        own[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        cuda.atomic.add(own, keys[i], int64(values[i]))
        cuda.atomic.max(most, keys[i], values[i])
    cuda.syncthreads()
    if t < 24:
        cuda.atomic.add(sums, t, own[t])


def sums_by_key(keys, values, sums, most):
    sums_by_key_kernel[2, 96](keys, values, sums, most)


@cuda.jit
def bitonic_rows_kernel(a, out):
    s = cuda.shared.array(128, uint32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    for k in range(t, 128, 64):
        s[k] = a[row, k] if k < a.shape[1] else uint32(0xFFFFFFFF)
    size = 2
    while size <= 128:
        step = size // 2
        while step > 0:
            cuda.syncthreads()
            i = 2 * step * (t // step) + t % step
            x, y = s[i], s[i + step]
            if (x > y) == ((i & size) == 0):
                s[i], s[i + step] = y, x
            step //= 2
        size *= 2
    cuda.syncthreads()
    for k in range(t, a.shape[1], 64):
        out[row, k] = s[k]


def bitonic_rows(a, out):
    bitonic_rows_kernel[a.shape[0], 64](a, out)


@cuda.jit
def sparse_times_dense_kernel(starts, columns, values, b, out):
    row, column = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y, cuda.threadIdx.x
    if row >= out.shape[0] or column >= out.shape[1]:
        return
    total = float32(0)
    for k in range(starts[row], starts[row + 1]):
        total += values[k] * b[columns[k], column]
    out[row, column] = total


def sparse_times_dense(starts, columns, values, b, out):
    sparse_times_dense_kernel[7, (20, 5)](starts, columns, values, b, out)


@cuda.jit
def mark_kernel(edges, level, now, marks):
    e = cuda.grid(1)
    if e < edges.shape[0] and level[edges[e, 0]] == now:
        cuda.atomic.max(marks, edges[e, 1], 1)


@cuda.jit
def reach_kernel(marks, level, now, changed):
    v = cuda.grid(1)
    if v < level.size and marks[v] == 1 and level[v] < 0:
        level[v] = now + 1
        cuda.atomic.add(changed, now, 1)


def reach(edges, level, marks, changed):
    for now in range(4):
        mark_kernel[4, 64](edges, level, int32(now), marks)
        reach_kernel[2, 64](marks, level, int32(now), changed)


@cuda.jit
def convolve_same_kernel(a, out):
    taps = cuda.const.array_like(TAPS)
    i, row = cuda.grid(2)
    n = a.shape[1]
    if i >= n:
        return
    total = float32(0)
    for k in range(7):
        at = i + 3 - k
        if at >= 0 and at < n:
            total += taps[k] * a[row, at]
    out[row, i] = total


def convolve_same(a, out):
    convolve_same_kernel[(3, a.shape[0]), (64, 1)](a, out)


@cuda.jit
def momentum_kernel(weights, speeds, slopes, rate, decay):
    for i in range(cuda.grid(1), weights.size, cuda.gridsize(1)):
        w = weights[i]
        v = float32(0.9) * speeds[i] - rate * (slopes[i] + decay * w)
        speeds[i] = v
        weights[i] = w + v


def momentum(weights, speeds, slopes):
    momentum_kernel[2, 64](weights, speeds, slopes, float32(0.01), float32(0.001))


@cuda.jit
def attend_kernel(q, k, v, out, scale):
    scores = cuda.shared.array(64, float32)
    found = cuda.shared.array(2, float32)
    t, i = cuda.threadIdx.x, cuda.blockIdx.x
    n, width = k.shape
    if t < n:
        score = float32(0)
        for d in range(width):
            score += q[i, d] * k[t, d]
        scores[t] = score * scale
    cuda.syncthreads()
    if t == 0:
        most = scores[0]
        for j in range(1, n):
            most = max(most, scores[j])
        found[0] = most
    cuda.syncthreads()
    if t < n:
        scores[t] = math.exp(scores[t] - found[0])
    cuda.syncthreads()
    if t == 0:
        whole = float32(0)
        for j in range(n):
            whole += scores[j]
        found[1] = whole
    cuda.syncthreads()
    if t < v.shape[1]:
        total = float32(0)
        for j in range(n):
            total += scores[j] * v[j, t]
        out[i, t] = total / found[1]


def attend(q, k, v, out):
    attend_kernel[q.shape[0], 64](q, k, v, out, float32(0.25))


@cuda.jit
def pi_by_chance_kernel(total, seed, draws):
    own = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        own[0] = 0
    cuda.syncthreads()
    state = uint64(seed) + uint64(cuda.grid(1)) * uint64(0x9E3779B97F4A7C15)
    inside = int32(0)
    for _ in range(draws):
        state = state * uint64(6364136223846793005) + uint64(1442695040888963407)
        x = float64(state >> uint64(40)) * (1.0 / 16777216.0)
        y = float64((state >> uint64(8)) & uint64(0xFFFFFF)) * (1.0 / 16777216.0)
        if x * x + y * y < 1.0:
            inside += 1
    cuda.atomic.add(own, 0, inside)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, own[0])


def pi_by_chance(total):
    pi_by_chance_kernel[2, 96](total, 20260, 12)


@cuda.jit
def american_put_kernel(strikes, out, price, up, chance, discount):
    s = cuda.shared.array(64, float64)
    t, strike = cuda.threadIdx.x, strikes[cuda.blockIdx.x]
    level = price * up ** (2 * t - 63)
    s[t] = max(strike - level, 0.0)
    for step in range(62, -1, -1):
        cuda.syncthreads()
        level *= up
        value = 0.0
        if t <= step:
            value = max(discount * (chance * s[t + 1] + (1.0 - chance) * s[t]), strike - level)
        cuda.syncthreads()
        if t <= step:
            s[t] = value
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def american_put(strikes, out):
    american_put_kernel[strikes.size, 64](strikes, out, 100.0, 1.03, 0.51, 0.9995)


@cuda.jit
def fill_cells_kernel(places, weights, counts, sums):
    i = cuda.grid(1)
    if i >= places.shape[0]:
        return
    x, y = int(places[i, 0] * counts.shape[1]), int(places[i, 1] * counts.shape[0])
    cuda.atomic.add(counts, (y, x), 1)
    cuda.atomic.add(sums, (y, x), uint64(weights[i]))


def fill_cells(places, weights, counts, sums):
    fill_cells_kernel[3, 128](places, weights, counts, sums)


@cuda.jit(device=True)
def pull(x, y):
    square = x * x + y * y
    factor = -1.0 / (square * math.sqrt(square))
    return factor * x, factor * y


@cuda.jit
def leapfrog_kernel(state, out, dt, steps):
    i = cuda.grid(1)
    if i < state.shape[1]:
        x, y, u, v = state[0, i], state[1, i], state[2, i], state[3, i]
        ax, ay = pull(x, y)
        for _ in range(steps):
            u += 0.5 * dt * ax
            v += 0.5 * dt * ay
            x += dt * u
            y += dt * v
            ax, ay = pull(x, y)
            u += 0.5 * dt * ax
            v += 0.5 * dt * ay
        out[0, i], out[1, i], out[2, i], out[3, i] = x, y, u, v


def leapfrog(state, out):
    leapfrog_kernel[2, 64](state, out, 0.05, 10)


@cuda.jit
def pool_kernel(a, out, where):
    x, y, c = cuda.grid(3)
    if x >= out.shape[2] or y >= out.shape[1]:
        return
    best, at = a[c, 2 * y, 2 * x], 0
    for k in range(1, 9):
        value = a[c, 2 * y + k // 3, 2 * x + k % 3]
        if value > best:
            best, at = value, k
    out[c, y, x], where[c, y, x] = best, at


def pool(a, out, where):
    pool_kernel[(2, 2, a.shape[0]), (16, 4, 1)](a, out, where)


@cuda.jit
def vote_kernel(points, labels, queries, out):
    near = cuda.local.array(5, int32)
    kinds = cuda.local.array(5, int32)
    votes = cuda.local.array(4, int32)
    q = cuda.grid(1)
    if q >= queries.shape[0]:
        return
    for k in range(5):
        near[k] = 2147483647
    for i in range(points.shape[0]):
        d = int32(0)
        for c in range(3):
            d += abs(points[i, c] - queries[q, c])
        d = d * 256 + i
        if d < near[4]:
            k = 4
            while k > 0 and near[k - 1] > d:
                near[k], kinds[k] = near[k - 1], kinds[k - 1]
                k -= 1
            near[k], kinds[k] = d, labels[i]
    for k in range(4):
        votes[k] = 0
    for k in range(5):
        votes[kinds[k]] += 1
    best = 0
    for k in range(1, 4):
        if votes[k] > votes[best]:
            best = k
    out[q] = best


def vote(points, labels, queries, out):
    vote_kernel[2, 32](points, labels, queries, out)


@cuda.jit
def bit_reports_kernel(a, out):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        out[i, 0] = cuda.brev(x)
        out[i, 1] = cuda.popc(x)
        out[i, 2] = cuda.clz(x)
        out[i, 3] = x ^ (x >> uint64(1)) ^ (x << uint64(7))


def bit_reports(a, out):
    bit_reports_kernel[2, 64](a, out)


@cuda.jit
def solve_lower_kernel(a, b, out):
    x = cuda.local.array(7, float64)
    i = cuda.grid(1)
    if i >= a.shape[0]:
        return
    for row in range(7):
        total = b[i, row]
        for k in range(row):
            total -= a[i, row, k] * x[k]
        x[row] = total / a[i, row, row]
    for row in range(7):
        out[i, row] = x[row]


def solve_lower(a, b, out):
    solve_lower_kernel[2, 32](a, b, out)


@cuda.jit
def smooth_volume_kernel(a, out):
    x, y = cuda.grid(2)
    d, h, w = a.shape
    if x < 1 or y < 1 or x >= w - 1 or y >= h - 1:
        return
    below, here = a[0, y, x], a[1, y, x]
    for z in range(1, d - 1):
        above = a[z + 1, y, x]
        sides = a[z, y, x - 1] + a[z, y, x + 1] + a[z, y - 1, x] + a[z, y + 1, x]
        out[z, y, x] = float32(0.4) * here + float32(0.1) * (sides + below + above)
        below, here = here, above


def smooth_volume(a, out):
    smooth_volume_kernel[(2, 2), (16, 8)](a, out)


@cuda.jit
def spectra_kernel(a, turns, out):
    s = cuda.shared.array((2, 64), complex64)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[0, t] = complex64(complex(a[row, t, 0], a[row, t, 1]))
    s[0, t + 32] = complex64(complex(a[row, t + 32, 0], a[row, t + 32, 1]))
    now, done = 0, 1
    while done < 64:
        cuda.syncthreads()
        k = t % done
        turn = k * (32 // done)
        x, y = s[now, t], s[now, t + 32] * complex64(complex(turns[turn, 0], turns[turn, 1]))
        place = (t - k) * 2 + k
        s[1 - now, place] = x + y
        s[1 - now, place + done] = x - y
        now, done = 1 - now, done * 2
    cuda.syncthreads()
    for k in range(t, 64, 32):
        out[row, k, 0], out[row, k, 1] = s[now, k].real, s[now, k].imag


def spectra(a, turns, out):
    spectra_kernel[a.shape[0], 32](a, turns, out)


@cuda.jit
def count_blocks_kernel(a, counts, flags, pivot):
    i = cuda.grid(1)
    inside = i < a.size
    above = inside and a[i] > pivot
    number = cuda.syncthreads_count(int32(above))
    every = cuda.syncthreads_and(int32(above or not inside))
    some = cuda.syncthreads_or(int32(inside and a[i] == pivot))
    lanes = cuda.ballot_sync(ALL, above)
    if cuda.laneid == 0:
        flags[i // 32] = lanes
    if cuda.threadIdx.x == 0:
        counts[cuda.blockIdx.x, 0] = number
        counts[cuda.blockIdx.x, 1] = 1 if every else 0
        counts[cuda.blockIdx.x, 2] = 1 if some else 0


def count_blocks(a, counts, flags):
    count_blocks_kernel[counts.shape[0], 64](a, counts, flags, int32(0))


@cuda.jit
def determinants_kernel(a, out):
    m = cuda.local.array((5, 5), float64)
    i = cuda.grid(1)
    if i >= a.shape[0]:
        return
    for j in range(25):
        m[j // 5, j % 5] = a[i, j // 5, j % 5]
    whole = 1.0
    for c in range(5):
        best = c
        for r in range(c + 1, 5):
            if abs(m[r, c]) > abs(m[best, c]):
                best = r
        if m[best, c] == 0.0:
            whole = 0.0
            break
        if best != c:
            whole = -whole
            for k in range(c, 5):
                m[c, k], m[best, k] = m[best, k], m[c, k]
        whole *= m[c, c]
        for r in range(c + 1, 5):
            factor = m[r, c] / m[c, c]
            for k in range(c + 1, 5):
                m[r, k] -= factor * m[c, k]
    out[i] = whole


def determinants(a, out):
    determinants_kernel[2, 32](a, out)


@cuda.jit
def lane_runs_kernel(a, out):
    i = cuda.grid(1)
    key = a[i]
    same = cuda.match_any_sync(ALL, key)
    first = cuda.ffs(same) - 1
    total = cuda.popc(same)
    last = cuda.shfl_sync(ALL, i, first)
    out[i, 0] = total
    out[i, 1] = last


def lane_runs(a, out):
    lane_runs_kernel[2, 64](a, out)
