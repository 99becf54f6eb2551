"""The second set of kernels that no rule of counting was made from, in Numba."""

import math

import numpy as np
from numba import cuda, float32, float64, int32, uint32, uint64

ALL = 0xFFFFFFFF
WEIGHTS = np.array([1, 4, 6, 4, 1], np.float32) / np.float32(16)


@cuda.jit
def private_bins_kernel(a, low, high, out):
    bins = cuda.shared.array((4, 32), int32)
    t, warp = cuda.threadIdx.x, cuda.threadIdx.x // 32
    for k in range(t, 128, cuda.blockDim.x):
        bins[k // 32, k % 32] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        x = a[i]
        if low <= x < high:
            cuda.atomic.add(bins, (warp, int((x - low) / (high - low) * 32)), 1)
    cuda.syncthreads()
    if t < 32:
        cuda.atomic.add(out, t, bins[0, t] + bins[1, t] + bins[2, t] + bins[3, t])


def private_bins(a, out):
    private_bins_kernel[2, 128](a, float32(-2), float32(2), out)


@cuda.jit
def product_in_registers_kernel(a, b, c):
    left = cuda.shared.array((8, 36), float32)
    right = cuda.shared.array((8, 32), float32)
    sums = cuda.local.array((4, 4), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    t, top, start = y * 8 + x, cuda.blockIdx.y * 32, cuda.blockIdx.x * 32
    for i in range(4):
        for j in range(4):
            sums[i, j] = 0
    for depth in range(0, a.shape[1], 8):
        for i in range(t, 256, 64):
            left[i % 8, i // 8] = a[top + i // 8, depth + i % 8]
            right[i // 32, i % 32] = b[depth + i // 32, start + i % 32]
        cuda.syncthreads()
        for k in range(8):
            for i in range(4):
                for j in range(4):
                    sums[i, j] += left[k, y * 4 + i] * right[k, x * 4 + j]
        cuda.syncthreads()
    for i in range(4):
        for j in range(4):
            c[top + y * 4 + i, start + x * 4 + j] = sums[i, j]


def product_in_registers(a, b, c):
    product_in_registers_kernel[(2, 1), (8, 8)](a, b, c)


@cuda.jit
def julia_kernel(out, c, most):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        z = complex(-1.5 + 3.0 * x / out.shape[1], -1.0 + 2.0 * y / out.shape[0])
        n = 0
        while n < most and z.real * z.real + z.imag * z.imag < 4.0:
            z = z * z + c
            n += 1
        out[y, x] = n


def julia(out):
    julia_kernel[(3, 4), (16, 8)](out, -0.8 + 0.156j, 60)


@cuda.jit
def gravity_kernel(bodies, out, n):
    tile = cuda.shared.array((64, 4), float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    px, py, pz = bodies[i, 0], bodies[i, 1], bodies[i, 2]
    ax = ay = az = float32(0)
    for base in range(0, n, 64):
        for k in range(4):
            tile[t, k] = bodies[base + t, k]
        cuda.syncthreads()
        for j in range(64):
            dx, dy, dz = tile[j, 0] - px, tile[j, 1] - py, tile[j, 2] - pz
            square = dx * dx + dy * dy + dz * dz + float32(0.01)
            scale = tile[j, 3] / (square * math.sqrt(square))
            ax += dx * scale
            ay += dy * scale
            az += dz * scale
        cuda.syncthreads()
    out[i, 0] = ax
    out[i, 1] = ay
    out[i, 2] = az


def gravity(bodies, out):
    gravity_kernel[2, 64](bodies, out, bodies.shape[0])


@cuda.jit
def blur_constant_kernel(a, out):
    weights = cuda.const.array_like(WEIGHTS)
    x, y = cuda.grid(2)
    h, w = a.shape
    if x >= w or y >= h:
        return
    total = float32(0)
    for j in range(5):
        row = min(max(y + j - 2, 0), h - 1)
        for i in range(5):
            total += weights[j] * weights[i] * a[row, min(max(x + i - 2, 0), w - 1)]
    out[y, x] = total


def blur_constant(a, out):
    blur_constant_kernel[(2, 5), (32, 4)](a, out)


@cuda.jit
def normalise_rows_kernel(a, gain, out):
    lane, row = cuda.threadIdx.x, cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    total = float32(0)
    for i in range(lane, a.shape[1], 32):
        total += a[row, i] * a[row, i]
    step = 16
    while step > 0:
        total += cuda.shfl_xor_sync(ALL, total, step)
        step //= 2
    scale = float32(1) / math.sqrt(total / float32(a.shape[1]) + float32(1e-6))
    for i in range(lane, a.shape[1], 32):
        out[row, i] = a[row, i] * scale * gain[i]


def normalise_rows(a, gain, out):
    normalise_rows_kernel[2, (32, 4)](a, gain, out)


@cuda.jit
def warp_scan_kernel(a, out):
    sums = cuda.shared.array(8, float64)
    t, lane = cuda.threadIdx.x, cuda.laneid
    x = a[cuda.grid(1)]
    step = 1
    while step < 32:
        y = cuda.shfl_up_sync(ALL, x, step)
        if lane >= step:
            x += y
        step *= 2
    if lane == 31:
        sums[t // 32] = x
    cuda.syncthreads()
    for w in range(t // 32):
        x += sums[w]
    out[cuda.grid(1)] = x


def warp_scan(a, out):
    warp_scan_kernel[2, 256](a, out)


@cuda.jit
def edit_distances_kernel(words, lengths, pattern, out):
    row = cuda.local.array(25, int32)
    i = cuda.grid(1)
    if i >= words.shape[0]:
        return
    n = pattern.size
    for j in range(n + 1):
        row[j] = j
    for k in range(lengths[i]):
        corner = row[0]
        row[0] = k + 1
        for j in range(n):
            above = row[j + 1]
            if words[i, k] != pattern[j]:
                corner += 1
            row[j + 1] = min(corner, above + 1, row[j] + 1)
            corner = above
    out[i] = row[n]


def edit_distances(words, lengths, pattern, out):
    edit_distances_kernel[2, 64](words, lengths, pattern, out)


@cuda.jit(device=True)
def turned(q, v):
    """A vector turned by a unit quaternion."""
    tx = 2 * (q[1] * v[2] - q[2] * v[1])
    ty = 2 * (q[2] * v[0] - q[0] * v[2])
    tz = 2 * (q[0] * v[1] - q[1] * v[0])
    return (
        v[0] + q[3] * tx + q[1] * tz - q[2] * ty,
        v[1] + q[3] * ty + q[2] * tx - q[0] * tz,
        v[2] + q[3] * tz + q[0] * ty - q[1] * tx,
    )


@cuda.jit
def rotate_points_kernel(points, turns, out):
    i = cuda.grid(1)
    if i < points.shape[0]:
        x, y, z, w = turns[i, 0], turns[i, 1], turns[i, 2], turns[i, 3]
        size = math.sqrt(x * x + y * y + z * z + w * w)
        v = turned((x / size, y / size, z / size, w / size), (points[i, 0], points[i, 1], points[i, 2]))
        out[i, 0], out[i, 1], out[i, 2] = v


def rotate_points(points, turns, out):
    rotate_points_kernel[3, 64](points, turns, out)


@cuda.jit
def compact_blocks_kernel(a, out, counts):
    starts = cuda.shared.array(4, int32)
    t, lane, warp = cuda.threadIdx.x, cuda.laneid, cuda.threadIdx.x // 32
    x = a[cuda.grid(1)]
    keep = x > 0
    votes = cuda.ballot_sync(ALL, keep)
    if lane == 0:
        starts[warp] = cuda.popc(votes)
    cuda.syncthreads()
    place = cuda.popc(votes & ((1 << lane) - 1))
    total = 0
    for w in range(4):
        if w < warp:
            place += starts[w]
        total += starts[w]
    if keep:
        out[cuda.blockIdx.x, place] = x
    if t == 0:
        counts[cuda.blockIdx.x] = total


def compact_blocks(a, out, counts):
    compact_blocks_kernel[3, 128](a, out, counts)


@cuda.jit(device=True)
def next_random(state):
    state ^= state >> uint64(12)
    state ^= (state << uint64(25)) & uint64(0xFFFFFFFFFFFFFFFF)
    state ^= state >> uint64(27)
    return state


@cuda.jit
def random_walks_kernel(seeds, out, steps):
    i = cuda.grid(1)
    state = seeds[i]
    x = y = int32(0)
    far = 0
    for _ in range(steps):
        state = next_random(state)
        way = (state * uint64(0x2545F4914F6CDD1D)) >> uint64(62)
        if way == 0:
            x += 1
        elif way == 1:
            x -= 1
        elif way == 2:
            y += 1
        else:
            y -= 1
        far = max(far, abs(x) + abs(y))
    out[i, 0] = x
    out[i, 1] = y
    out[i, 2] = far


def random_walks(seeds, out):
    random_walks_kernel[2, 64](seeds, out, 30)


@cuda.jit
def floor_divisions_kernel(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i, 0] = a[i] // b[i]
        out[i, 1] = a[i] % b[i]
        out[i, 2] = (a[i] * 31) >> 3
        out[i, 3] = cuda.clz(a[i]) + cuda.ffs(b[i])


def floor_divisions(a, b, out):
    floor_divisions_kernel[2, 64](a, b, out)


@cuda.jit(fastmath=True)
def softmax_fast_kernel(a, out):
    shared = cuda.shared.array(128, float32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    x = a[row, t]
    shared[t] = x
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            shared[t] = max(shared[t], shared[t + step])
        cuda.syncthreads()
        step >>= 1
    x = math.exp(x - shared[0])
    cuda.syncthreads()
    shared[t] = x
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            shared[t] += shared[t + step]
        cuda.syncthreads()
        step >>= 1
    out[row, t] = x / shared[0]


def softmax_fast(a, out):
    softmax_fast_kernel[4, 128](a, out)


@cuda.jit
def padded_transpose_kernel(a, out):
    tile = cuda.shared.array((32, 33), float64)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * 32, cuda.blockIdx.y * 32
    for j in range(y, 32, 8):
        if top + j < a.shape[0] and left + x < a.shape[1]:
            tile[j, x] = a[top + j, left + x]
    cuda.syncthreads()
    for j in range(y, 32, 8):
        if left + j < a.shape[1] and top + x < a.shape[0]:
            out[left + j, top + x] = tile[x, j]


def padded_transpose(a, out):
    padded_transpose_kernel[(2, 2), (32, 8)](a, out)


@cuda.jit
def median_of_nine_kernel(a, out):
    window = cuda.local.array(9, int32)
    x, y = cuda.grid(2)
    h, w = a.shape
    if x < 1 or y < 1 or x >= w - 1 or y >= h - 1:
        if x < w and y < h:
            out[y, x] = a[y, x]
        return
    n = 0
    for j in range(-1, 2):
        for i in range(-1, 2):
            value = a[y + j, x + i]
            k = n
            while k > 0 and window[k - 1] > value:
                window[k] = window[k - 1]
                k -= 1
            window[k] = value
            n += 1
    out[y, x] = window[4]


def median_of_nine(a, out):
    median_of_nine_kernel[(2, 3), (32, 8)](a, out)


@cuda.jit
def heat_step_kernel(a, out, rate):
    tile = cuda.shared.array((10, 34), float64)
    x, y = cuda.grid(2)
    i, j = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    h, w = a.shape
    if x < w and y < h:
        tile[j, i] = a[y, x]
        if i == 1:
            tile[j, 0] = a[y, max(x - 1, 0)]
        if i == 32 or x == w - 1:
            tile[j, i + 1] = a[y, min(x + 1, w - 1)]
        if j == 1:
            tile[0, i] = a[max(y - 1, 0), x]
        if j == 8 or y == h - 1:
            tile[j + 1, i] = a[min(y + 1, h - 1), x]
    cuda.syncthreads()
    if x < w and y < h:
        around = tile[j, i - 1] + tile[j, i + 1] + tile[j - 1, i] + tile[j + 1, i]
        out[y, x] = tile[j, i] + rate * (around - 4 * tile[j, i])


def heat_steps(a, out):
    between = cuda.device_array(a.shape, np.float64)
    heat_step_kernel[(2, 3), (32, 8)](a, between, 0.2)
    heat_step_kernel[(2, 3), (32, 8)](between, out, 0.2)


@cuda.jit
def newton_kernel(a, out, rounds):
    i = cuda.grid(1)
    if i < a.size:
        target, x = a[i], 1.0
        used = 0
        while used < 40:
            step = (x * x * x + x - target) / (3 * x * x + 1)
            x -= step
            used += 1
            if abs(step) < 1e-12:
                break
        out[i] = x
        rounds[i] = used


def newton(a, out, rounds):
    newton_kernel[2, 64](a, out, rounds)


@cuda.jit
def murmur_kernel(keys, out, seed):
    i = cuda.grid(1)
    if i >= keys.shape[0]:
        return
    h = uint32(seed)
    for k in range(keys.shape[1]):
        x = uint32(keys[i, k] * uint32(0xCC9E2D51))
        x = uint32((x << uint32(15)) | (x >> uint32(17)))
        h ^= uint32(x * uint32(0x1B873593))
        h = uint32((h << uint32(13)) | (h >> uint32(19)))
        h = uint32(h * uint32(5) + uint32(0xE6546B64))
    h ^= uint32(4 * keys.shape[1])
    h ^= h >> uint32(16)
    h = uint32(h * uint32(0x85EBCA6B))
    h ^= h >> uint32(13)
    h = uint32(h * uint32(0xC2B2AE35))
    out[i] = h ^ (h >> uint32(16))


def murmur(keys, out):
    murmur_kernel[2, 64](keys, out, 42)
