"""The sixth set of kernels that no rule of counting was made from, in Numba: ciphers, numbers, statistics, motion."""

import math

from numba import cuda, float32, float64, int32, int64, uint8, uint32, uint64

WORD = 0xFFFFFFFF


@cuda.jit(device=True)
def turned(x, n):
    return uint32(x << uint32(n)) | uint32(x >> uint32(32 - n))


@cuda.jit
def sha_1_kernel(blocks, out):
    w = cuda.local.array(16, uint32)
    i = cuda.grid(1)
    if i >= blocks.shape[1]:
        return
    for k in range(16):
        w[k] = blocks[k, i]
    a, b, c = uint32(0x67452301), uint32(0xEFCDAB89), uint32(0x98BADCFE)
    d, e = uint32(0x10325476), uint32(0xC3D2E1F0)
    for k in range(80):
        if k >= 16:
            w[k & 15] = turned(w[(k + 13) & 15] ^ w[(k + 8) & 15] ^ w[(k + 2) & 15] ^ w[k & 15], 1)
        if k < 20:
            f = uint32((b & c) | (~b & d))
            key = uint32(0x5A827999)
        elif k < 40:
            f = uint32(b ^ c ^ d)
            key = uint32(0x6ED9EBA1)
        elif k < 60:
            f = uint32((b & c) | (b & d) | (c & d))
            key = uint32(0x8F1BBCDC)
        else:
            f = uint32(b ^ c ^ d)
            key = uint32(0xCA62C1D6)
        next_ = uint32(turned(a, 5) + f + e + key + w[k & 15])
        e = d
        d = c
        c = turned(b, 30)
        b = a
        a = next_
    out[0, i] = uint32(a + uint32(0x67452301))
    out[1, i] = uint32(b + uint32(0xEFCDAB89))
    out[2, i] = uint32(c + uint32(0x98BADCFE))
    out[3, i] = uint32(d + uint32(0x10325476))
    out[4, i] = uint32(e + uint32(0xC3D2E1F0))


def sha_1(blocks, out):
    sha_1_kernel[3, 32](blocks, out)


@cuda.jit
def speck_kernel(text, keys, out, rounds):
    key = cuda.shared.array(32, uint64)
    if cuda.threadIdx.x == 0:
        a, b = keys[0], keys[1]
        for k in range(rounds):
            key[k] = a
            b = ((b >> uint64(8) | b << uint64(56)) + a) ^ uint64(k)
            a = (a << uint64(3) | a >> uint64(61)) ^ b
    cuda.syncthreads()
    for i in range(cuda.grid(1), text.shape[0], cuda.gridsize(1)):
        x, y = text[i, 0], text[i, 1]
        for k in range(rounds):
            x = ((x >> uint64(8) | x << uint64(56)) + y) ^ key[k]
            y = (y << uint64(3) | y >> uint64(61)) ^ x
        out[i, 0] = x
        out[i, 1] = y


def speck(text, keys, out):
    speck_kernel[2, 64](text, keys, out, 32)


@cuda.jit
def fractions_kernel(pairs, terms, counts):
    i = cuda.grid(1)
    if i >= pairs.shape[0]:
        return
    a, b = pairs[i, 0], pairs[i, 1]
    count = 0
    while b != 0 and count < terms.shape[0]:
        quotient = a // b
        terms[count, i] = quotient
        a, b = b, a - quotient * b
        count += 1
    counts[i] = count
    for k in range(count, terms.shape[0]):
        terms[k, i] = 0


def fractions(pairs, terms, counts):
    fractions_kernel[3, 48](pairs, terms, counts)


@cuda.jit
def shortest_register_kernel(streams, taps, lengths, size):
    i = cuda.grid(1)
    if i >= streams.size:
        return
    s = streams[i]
    c, b = uint64(1), uint64(1)
    length, since = 0, 1
    for k in range(size):
        window = uint64(0)
        for j in range(length + 1):
            if k - j >= 0:
                window |= (s >> uint64(k - j) & uint64(1)) << uint64(j)
        if cuda.popc(window & c) & 1 == 0:
            since += 1
            continue
        before = c
        c ^= b << uint64(since)
        if 2 * length <= k:
            length = k + 1 - length
            b = before
            since = 1
        else:
            since += 1
    taps[i] = c
    lengths[i] = length


def shortest_register(streams, taps, lengths):
    shortest_register_kernel[3, 32](streams, taps, lengths, 40)


@cuda.jit(device=True)
def inverse(a, p):
    r, s, x, y = p, a, int64(0), int64(1)
    while s > 0:
        q = r // s
        r, s = s, r - q * s
        x, y = y, x - q * y
    return x % p


@cuda.jit
def join_shares_kernel(places, shares, out, p):
    i = cuda.grid(1)
    if i >= out.size:
        return
    total = int64(0)
    for k in range(shares.shape[0]):
        above, below = int64(1), int64(1)
        for j in range(shares.shape[0]):
            if j == k:
                continue
            above = above * places[j, i] % p
            below = below * ((places[j, i] - places[k, i]) % p) % p
        total = (total + shares[k, i] * above % p * inverse(below, p)) % p
    out[i] = total


def join_shares(places, shares, out):
    join_shares_kernel[3, 32](places, shares, out, 65521)


@cuda.jit
def curve_multiples_kernel(factors, out, p, slope):
    i = cuda.grid(1)
    if i >= factors.size:
        return
    n, px, py = factors[i], int64(3), int64(6)
    have, rx, ry = False, int64(0), int64(0)
    while n > 0:
        if n & 1:
            if not have:
                have, rx, ry = True, px, py
            elif rx == px and (ry + py) % p == 0:
                have = False
            else:
                if rx == px:
                    s = (3 * rx * rx + slope) * inverse(2 * ry % p, p) % p
                else:
                    s = (py - ry) * inverse((px - rx) % p, p) % p
                x = (s * s - rx - px) % p
                ry = (s * (rx - x) - ry) % p
                rx = x
        s = (3 * px * px + slope) * inverse(2 * py % p, p) % p
        x = (s * s - 2 * px) % p
        py = (s * (px - x) - py) % p
        px = x
        n >>= 1
    out[0, i] = rx if have else -1
    out[1, i] = ry if have else -1


def curve_multiples(factors, out):
    curve_multiples_kernel[3, 32](factors, out, 9739, 497)


@cuda.jit
def square_roots_kernel(numbers, out):
    for i in range(cuda.grid(1), numbers.size, cuda.gridsize(1)):
        n, root, bit = numbers[i], uint64(0), uint64(1) << uint64(62)
        while bit > n:
            bit >>= uint64(2)
        while bit != uint64(0):
            if n >= root + bit:
                n -= root + bit
                root = (root >> uint64(1)) + bit
            else:
                root >>= uint64(1)
            bit >>= uint64(2)
        out[i] = root


def square_roots(numbers, out):
    square_roots_kernel[2, 96](numbers, out)


@cuda.jit
def levinson_kernel(rows, right, out):
    f = cuda.local.array(12, float64)
    g = cuda.local.array(12, float64)
    x = cuda.local.array(12, float64)
    i = cuda.grid(1)
    if i >= rows.shape[0]:
        return
    n = rows.shape[1]
    t = rows[i]
    f[0] = 1.0 / t[0]
    x[0] = right[i, 0] / t[0]
    for k in range(1, n):
        wrong, left = 0.0, 0.0
        for j in range(k):
            wrong += t[k - j] * f[j]
            left += t[k - j] * x[j]
        scale = 1.0 / (1.0 - wrong * wrong)
        f[k] = 0.0
        for j in range(k + 1):
            g[j] = scale * (f[j] - wrong * f[k - j])
        for j in range(k + 1):
            f[j] = g[j]
        x[k] = 0.0
        for j in range(k + 1):
            x[j] += (right[i, k] - left) * f[k - j]
    for k in range(n):
        out[i, k] = x[k]


def levinson(rows, right, out):
    levinson_kernel[3, 32](rows, right, out)


@cuda.jit
def pendulums_kernel(start, out, steps, dt):
    i = cuda.grid(1)
    if i >= start.shape[1]:
        return
    angle, speed = start[0, i], start[1, i]
    turns = 0
    for _ in range(steps):
        speed -= dt * math.sin(angle)
        angle += dt * speed
        if angle > math.pi:
            angle -= 2 * math.pi
            turns += 1
        elif angle < -math.pi:
            angle += 2 * math.pi
            turns -= 1
    out[0, i] = angle
    out[1, i] = speed
    out[2, i] = turns


def pendulums(start, out):
    pendulums_kernel[2, 48](start, out, 40, 0.1)


@cuda.jit(device=True)
def turn_product(a, b, c, d, e, f, g, h):
    w = a * e - b * f - c * g - d * h
    x = a * f + b * e + c * h - d * g
    y = a * g - b * h + c * e + d * f
    return w, x, y, a * h + b * g - c * f + d * e


@cuda.jit
def chain_of_turns_kernel(turns, out):
    lane = cuda.threadIdx.x & 31
    row = cuda.grid(1) // 32
    if row >= turns.shape[0]:
        return
    a, b, c, d = float32(1), float32(0), float32(0), float32(0)
    if lane < turns.shape[1]:
        a, b, c, d = turns[row, lane, 0], turns[row, lane, 1], turns[row, lane, 2], turns[row, lane, 3]
    step = 1
    while step < 32:
        e = cuda.shfl_down_sync(WORD, a, step)
        f = cuda.shfl_down_sync(WORD, b, step)
        g = cuda.shfl_down_sync(WORD, c, step)
        h = cuda.shfl_down_sync(WORD, d, step)
        if lane + step < 32:
            a, b, c, d = turn_product(a, b, c, d, e, f, g, h)
        step *= 2
    if lane == 0:
        scale = float32(1) / math.sqrt(a * a + b * b + c * c + d * d)
        out[row, 0] = a * scale
        out[row, 1] = b * scale
        out[row, 2] = c * scale
        out[row, 3] = d * scale


def chain_of_turns(turns, out):
    chain_of_turns_kernel[5, 96](turns, out)


@cuda.jit
def concordance_kernel(x, y, counts):
    shared = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t < 2:
        shared[t] = 0
    cuda.syncthreads()
    i, agree, differ = cuda.grid(1), 0, 0
    if i < x.size:
        for k in range(i + 1, x.size):
            side = (x[i] - x[k]) * (y[i] - y[k])
            if side > 0:
                agree += 1
            elif side < 0:
                differ += 1
        cuda.atomic.add(shared, 0, agree)
        cuda.atomic.add(shared, 1, differ)
    cuda.syncthreads()
    if t < 2:
        cuda.atomic.add(counts, t, int64(shared[t]))


def concordance(x, y, counts):
    concordance_kernel[4, 64](x, y, counts)


@cuda.jit
def resampled_medians_kernel(sample, out):
    own = cuda.local.array(15, float32)
    i = cuda.grid(1)
    if i >= out.size:
        return
    state = uint32(i * 747796405 + 1)
    for k in range(15):
        state = uint32(state * uint32(1664525) + uint32(1013904223))
        value = sample[(state >> uint32(8)) % uint32(sample.size)]
        at = k
        while at > 0 and own[at - 1] > value:
            own[at] = own[at - 1]
            at -= 1
        own[at] = value
    out[i] = own[7]


def resampled_medians(sample, out):
    resampled_medians_kernel[3, 64](sample, out)


@cuda.jit
def box_counts_kernel(image, counts):
    some = cuda.shared.array((16, 16), uint8)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    h, w = image.shape
    gx, gy = cuda.blockIdx.x * 16 + x, cuda.blockIdx.y * 16 + y
    some[y, x] = image[gy, gx] if gx < w and gy < h else 0
    cuda.syncthreads()
    size, level = 16, 0
    while size >= 1:
        full = x < size and y < size and some[y, x] != 0
        found = cuda.syncthreads_count(int32(1) if full else int32(0))
        if x == 0 and y == 0 and found > 0:
            cuda.atomic.add(counts, level, found)
        size //= 2
        level += 1
        joined = uint8(0)
        if x < size and y < size:
            joined = some[2 * y, 2 * x] | some[2 * y, 2 * x + 1] | some[2 * y + 1, 2 * x] | some[2 * y + 1, 2 * x + 1]
        cuda.syncthreads()
        if x < size and y < size:
            some[y, x] = joined
        cuda.syncthreads()


def box_counts(image, counts):
    h, w = image.shape
    box_counts_kernel[((w + 15) // 16, (h + 15) // 16), (16, 16)](image, counts)
