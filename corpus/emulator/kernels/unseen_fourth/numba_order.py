"""The fourth set of kernels that no rule of counting was made from, in Numba: order, words, graphs, games, atomics."""

import numpy as np
from numba import cuda, int32, int64, uint8, uint32, uint64

ALL = 0xFFFFFFFF
FAILURES = np.array([0, 0, 1, 0, 1, 2, 3], np.int32)  # of the word that is looked for
WORD = np.array([97, 98, 97, 99, 97, 98, 97], np.uint8)


@cuda.jit
def counting_sort_kernel(a, out):
    counts = cuda.shared.array((32, 33), int32)
    firsts = cuda.shared.array(32, int32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    n = a.shape[1]
    run = (n + 31) // 32
    begin, end = min(t * run, n), min(t * run + run, n)
    for key in range(32):
        counts[key, t] = 0
    for i in range(begin, end):
        counts[a[row, i], t] += 1
    cuda.syncthreads()
    total = int32(0)
    for k in range(32):
        own = counts[t, k]
        counts[t, k] = total
        total += own
    before, step = total, 1
    while step < 32:
        other = cuda.shfl_up_sync(ALL, before, step)
        if t >= step:
            before += other
        step *= 2
    firsts[t] = before - total
    cuda.syncthreads()
    for i in range(begin, end):
        key = a[row, i]
        out[row, firsts[key] + counts[key, t]] = i
        counts[key, t] += 1


def counting_sort(a, out):
    counting_sort_kernel[a.shape[0], 32](a, out)


@cuda.jit
def heap_sort_kernel(a, out):
    h = cuda.local.array(18, int64)
    i = cuda.grid(1)
    n = a.shape[0]
    if i >= a.shape[1]:
        return
    for k in range(n):
        h[k] = a[k, i]
    start, end = n // 2, n
    while end > 1:
        if start > 0:
            start -= 1
            value = h[start]
        else:
            end -= 1
            value = h[end]
            h[end] = h[0]
        hole = start
        while 2 * hole + 1 < end:
            child = 2 * hole + 1
            if child + 1 < end and h[child + 1] > h[child]:
                child += 1
            if h[child] <= value:
                break
            h[hole] = h[child]
            hole = child
        h[hole] = value
    for k in range(n):
        out[k, i] = h[k]


def heap_sort(a, out):
    heap_sort_kernel[3, 32](a, out)


@cuda.jit
def quick_select_kernel(a, ranks, out):
    v = cuda.local.array(21, int32)
    i = cuda.grid(1)
    if i >= ranks.size:
        return
    for k in range(21):
        v[k] = a[i, k]
    low, high, rank = 0, 20, ranks[i]
    while low < high:
        pivot, left, right = v[(low + high) // 2], low, high
        while left <= right:
            while v[left] < pivot:
                left += 1
            while v[right] > pivot:
                right -= 1
            if left <= right:
                v[left], v[right] = v[right], v[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    out[i] = v[rank]


def quick_select(a, ranks, out):
    quick_select_kernel[3, 32](a, ranks, out)


@cuda.jit
def find_words_kernel(text, counts, last, run):
    word, failures = cuda.const.array_like(WORD), cuda.const.array_like(FAILURES)
    t = cuda.grid(1)
    begin = t * run
    if begin >= text.size:
        return
    state, found, at = 0, 0, -1
    # A match belongs to the thread in whose part it begins.
    for i in range(begin, min(begin + run + 6, text.size)):
        c = text[i]
        while state > 0 and (state == 7 or word[state] != c):
            state = failures[state - 1]
        if word[state] == c:
            state += 1
        if state == 7:
            found += 1
            at = i - 6
    counts[t], last[t] = found, at


def find_words(text, counts, last):
    find_words_kernel[2, 64](text, counts, last, 10)


@cuda.jit
def longest_rise_kernel(a, out):
    ends = cuda.local.array(40, int32)
    i = cuda.grid(1)
    if i >= a.shape[1]:
        return
    length = 0
    for k in range(a.shape[0]):
        x = a[k, i]
        low, high = 0, length
        while low < high:
            middle = (low + high) >> 1
            if ends[middle] < x:
                low = middle + 1
            else:
                high = middle
        ends[low] = x
        if low == length:
            length += 1
    out[i] = length


def longest_rise(a, out):
    longest_rise_kernel[2, 64](a, out)


@cuda.jit
def check_grids_kernel(grids, right):
    masks = cuda.shared.array((3, 9), uint32)
    t, g = cuda.threadIdx.x, cuda.blockIdx.x
    if t < 27:
        masks[t // 9, t % 9] = 0
    cuda.syncthreads()
    if t < 81:
        row, column = t // 9, t % 9
        bit = uint32(1) << uint32(grids[g, row, column])
        cuda.atomic.or_(masks, (0, row), bit)
        cuda.atomic.or_(masks, (1, column), bit)
        cuda.atomic.or_(masks, (2, row // 3 * 3 + column // 3), bit)
    cuda.syncthreads()
    whole = t >= 27 or masks[t // 9, t % 9] == 1022
    every = cuda.syncthreads_and(int32(whole))
    if t == 0:
        right[g] = 1 if every else 0


def check_grids(grids, right):
    check_grids_kernel[grids.shape[0], 96](grids, right)


@cuda.jit
def brain_kernel(cells, out):
    tile = cuda.shared.array((10, 34), uint8)
    h, w = cells.shape
    left, top = cuda.blockIdx.x * 32 - 1, cuda.blockIdx.y * 8 - 1
    for k in range(cuda.threadIdx.y * 32 + cuda.threadIdx.x, 340, 256):
        tile[k // 34, k % 34] = cells[(top + k // 34) % h, (left + k % 34) % w]
    cuda.syncthreads()
    i, j = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    x, y = left + i, top + j
    if x >= w or y >= h:
        return
    state = tile[j, i]
    if state == 1:
        state = 2
    elif state == 2:
        state = 0
    else:
        firing = 0
        for k in range(9):
            if k != 4 and tile[j - 1 + k // 3, i - 1 + k % 3] == 1:
                firing += 1
        state = 1 if firing == 2 else 0
    out[y, x] = state


def brain(cells, other):
    for _ in range(2):
        brain_kernel[(2, 3), (32, 8)](cells, other)
        brain_kernel[(2, 3), (32, 8)](other, cells)


@cuda.jit
def find_roots_kernel(parent, root, depth):
    links = cuda.shared.array(128, int32)
    far = cuda.shared.array(128, int32)
    t, forest = cuda.threadIdx.x, cuda.blockIdx.x
    links[t] = parent[forest, t]
    far[t] = 0 if links[t] == t else 1
    while True:
        cuda.syncthreads()
        up = links[t]
        above, more = links[up], far[up]
        changed = cuda.syncthreads_or(int32(above != up))
        if not changed:
            break
        links[t] = above
        far[t] += more
    root[forest, t], depth[forest, t] = links[t], far[t]


def find_roots(parent, root, depth):
    find_roots_kernel[parent.shape[0], 128](parent, root, depth)


@cuda.jit
def alike_kernel(starts, targets, pairs, both, either):
    e = cuda.grid(1)
    if e >= pairs.shape[0]:
        return
    a, b = pairs[e, 0], pairs[e, 1]
    i, j, shared = starts[a], starts[b], 0
    while i < starts[a + 1] and j < starts[b + 1]:
        x, y = targets[i], targets[j]
        if x == y:
            shared += 1
        if x <= y:
            i += 1
        if y <= x:
            j += 1
    both[e] = shared
    either[e] = starts[a + 1] - starts[a] + starts[b + 1] - starts[b] - shared


def alike(starts, targets, pairs, both, either):
    alike_kernel[3, 64](starts, targets, pairs, both, either)


@cuda.jit
def highest_so_far_kernel(a, heads, out):
    lasts = cuda.shared.array(4, int32)
    opened = cuda.shared.array(4, int32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    lane, warp = t & 31, t >> 5
    most, head = a[row, t], int32(heads[row, t])
    step = 1
    while step < 32:
        other, its_head = cuda.shfl_up_sync(ALL, most, step), cuda.shfl_up_sync(ALL, head, step)
        if lane >= step:
            if head == 0 and other > most:
                most = other
            head |= its_head
        step <<= 1
    if lane == 31:
        lasts[warp], opened[warp] = most, head
    cuda.syncthreads()
    if head == 0:
        k = warp - 1
        while k >= 0:
            most = max(most, lasts[k])
            if opened[k]:
                break
            k -= 1
    out[row, t] = most


def highest_so_far(a, heads, out):
    highest_so_far_kernel[a.shape[0], 128](a, heads, out)


@cuda.jit
def min_hashes_kernel(starts, members, factors, out):
    s, h = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y, cuda.threadIdx.x
    if s >= out.shape[0]:
        return
    least, factor = uint64(0xFFFFFFFFFFFFFFFF), factors[h]
    for k in range(starts[s], starts[s + 1]):
        x = uint64(members[k]) * factor
        x ^= x >> uint64(29)
        least = min(least, x)
    out[s, h] = least


def min_hashes(starts, members, factors, out):
    min_hashes_kernel[5, (16, 4)](starts, members, factors, out)


@cuda.jit
def knight_moves_kernel(starts, goals, out):
    i = cuda.grid(1)
    if i >= out.size:
        return
    not_a, not_h = uint64(0xFEFEFEFEFEFEFEFE), uint64(0x7F7F7F7F7F7F7F7F)
    not_ab, not_gh = uint64(0xFCFCFCFCFCFCFCFC), uint64(0x3F3F3F3F3F3F3F3F)
    reached, goal, moves = uint64(1) << uint64(starts[i]), uint64(1) << uint64(goals[i]), 0
    while reached & goal == 0:
        one_left, one_right = (reached >> uint64(1)) & not_h, (reached << uint64(1)) & not_a
        two_left, two_right = (reached >> uint64(2)) & not_gh, (reached << uint64(2)) & not_ab
        near, far = one_left | one_right, two_left | two_right
        reached |= (near << uint64(16)) | (near >> uint64(16)) | (far << uint64(8)) | (far >> uint64(8))
        moves += 1
    out[i] = moves


def knight_moves(starts, goals, out):
    knight_moves_kernel[3, 64](starts, goals, out)


@cuda.jit
def reports_kernel(keys, values, added, less, low, high, all_bits, any_bits, odd_bits):
    own = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        own[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        key, value = keys[i], values[i]
        cuda.atomic.add(own, key, value)
        cuda.atomic.sub(less, key, value)
        cuda.atomic.min(low, key, value)
        cuda.atomic.max(high, key, value)
        cuda.atomic.and_(all_bits, key, value)
        cuda.atomic.or_(any_bits, key, value)
        cuda.atomic.xor(odd_bits, key, value)
    cuda.syncthreads()
    if t < 16 and own[t] != 0:
        cuda.atomic.add(added, t, own[t])


def reports(keys, values, added, less, low, high, all_bits, any_bits, odd_bits):
    reports_kernel[3, 64](keys, values, added, less, low, high, all_bits, any_bits, odd_bits)
