"""The sixth set of kernels that no rule of counting was made from, in Numba: sorting, stacks, games, mazes, text."""

from numba import cuda, int16, int32, int64, uint8, uint32, uint64

WORD = 0xFFFFFFFF


@cuda.jit
def merge_sort_kernel(rows, out):
    a = cuda.local.array(32, int32)
    b = cuda.local.array(32, int32)
    i = cuda.grid(1)
    if i >= rows.shape[0]:
        return
    n = rows.shape[1]
    for k in range(n):
        a[k] = rows[i, k]
    width = 1
    while width < n:
        low = 0
        while low < n:
            middle, high = min(low + width, n), min(low + 2 * width, n)
            left, right = low, middle
            for k in range(low, high):
                if left < middle and (right >= high or a[left] <= a[right]):
                    b[k] = a[left]
                    left += 1
                else:
                    b[k] = a[right]
                    right += 1
            low = high
        for k in range(n):
            a[k] = b[k]
        width *= 2
    for k in range(n):
        out[i, k] = a[k]


def merge_sort(rows, out):
    merge_sort_kernel[3, 32](rows, out)


@cuda.jit
def last_ones_kernel(sizes, strides, out):
    i = cuda.grid(1)
    if i < sizes.size:
        survivor = int32(0)
        for k in range(2, sizes[i] + 1):
            survivor = (survivor + strides[i]) % k
        out[i] = survivor


def last_ones(sizes, strides, out):
    last_ones_kernel[2, 96](sizes, strides, out)


@cuda.jit
def next_orders_kernel(orders, steps, out):
    own = cuda.shared.array((9, 32), int16)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i >= orders.shape[1]:
        return
    n = orders.shape[0]
    for k in range(n):
        own[k, t] = orders[k, i]
    for _ in range(steps[i]):
        at = n - 2
        while at >= 0 and own[at, t] >= own[at + 1, t]:
            at -= 1
        if at >= 0:
            other = n - 1
            while own[other, t] <= own[at, t]:
                other -= 1
            own[at, t], own[other, t] = own[other, t], own[at, t]
        low, high = at + 1, n - 1
        while low < high:
            own[low, t], own[high, t] = own[high, t], own[low, t]
            low += 1
            high -= 1
    for k in range(n):
        out[k, i] = own[k, t]


def next_orders(orders, steps, out):
    next_orders_kernel[3, 32](orders, steps, out)


@cuda.jit
def longest_nesting_kernel(lines, out):
    stack = cuda.local.array(41, uint8)
    i = cuda.grid(1)
    if i >= lines.shape[0]:
        return
    top, best = 0, 0
    stack[0] = 0
    for k in range(lines.shape[1]):
        if lines[i, k] == 40:
            top += 1
            stack[top] = k + 1
            continue
        if top == 0:
            stack[0] = k + 1
            continue
        top -= 1
        start = int32(stack[top])
        best = max(best, k + 1 - start)
    out[i] = best


def longest_nesting(lines, out):
    longest_nesting_kernel[3, 64](lines, out)


@cuda.jit
def largest_boards_kernel(heights, out):
    stack = cuda.local.array(33, int32)
    i = cuda.grid(1)
    if i >= heights.shape[1]:
        return
    n = heights.shape[0]
    top, best = 0, int32(0)
    for k in range(n + 1):
        height = heights[k, i] if k < n else int32(-1)
        while top > 0 and heights[stack[top - 1], i] >= height:
            tall = heights[stack[top - 1], i]
            top -= 1
            left = stack[top - 1] + 1 if top > 0 else 0
            best = max(best, int32(tall * (k - left)))
        stack[top] = k
        top += 1
    out[i] = best


def largest_boards(heights, out):
    largest_boards_kernel[3, 48](heights, out)


@cuda.jit
def held_water_kernel(walls, out):
    i = cuda.grid(1)
    if i >= walls.shape[0]:
        return
    low, high = 0, walls.shape[1] - 1
    left, right, total = int32(0), int32(0), int64(0)
    while low < high:
        a, b = int32(walls[i, low]), int32(walls[i, high])
        if a < b:
            if a >= left:
                left = a
            else:
                total += left - a
            low += 1
        else:
            if b >= right:
                right = b
            else:
                total += right - b
            high -= 1
    out[i] = total


def held_water(walls, out):
    held_water_kernel[2, 64](walls, out)


@cuda.jit
def wrap_words_kernel(lengths, out, width):
    cost = cuda.shared.array(65, int32)
    sums = cuda.shared.array(65, int32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    n = lengths.shape[1]
    if t == 0:
        sums[0] = 0
        for k in range(n):
            sums[k + 1] = sums[k] + lengths[row, k] + 1
        cost[0] = 0
    cuda.syncwarp()
    for end in range(1, n + 1):
        start = end - 1 - t
        best = int32(1000000000)
        if start >= 0:
            left = width + 1 - (sums[end] - sums[start])
            if left >= 0:
                best = cost[start] + (left * left if end < n else 0)
        step = 16
        while step > 0:
            best = min(best, cuda.shfl_xor_sync(WORD, best, step))
            step //= 2
        if t == 0:
            cost[end] = best
        cuda.syncwarp()
    if t == 0:
        out[row] = cost[n]


def wrap_words(lengths, out):
    wrap_words_kernel[lengths.shape[0], 32](lengths, out, 30)


@cuda.jit
def same_letters_kernel(words, target, out):
    wanted = cuda.shared.array(26, int32)
    t = cuda.threadIdx.x
    if t < 26:
        wanted[t] = 0
    cuda.syncthreads()
    if t < target.size:
        cuda.atomic.add(wanted, int32(target[t]) - 97, 1)
    cuda.syncthreads()
    for i in range(cuda.grid(1), words.shape[0], cuda.gridsize(1)):
        left = uint64(0)
        for k in range(26):
            left |= uint64(wanted[k]) << uint64(2 * k)
        good = True
        for k in range(words.shape[1]):
            at = uint64(2 * (words[i, k] - uint8(97)))
            if (left >> at) & uint64(3) == uint64(0):
                good = False
                break
            left -= uint64(1) << at
        out[i] = uint8(1) if good else uint8(0)


def same_letters(words, target, out):
    same_letters_kernel[2, 64](words, target, out)


@cuda.jit
def nimbers_kernel(moves, out, size):
    values = cuda.local.array(64, uint8)
    i = cuda.grid(1)
    if i >= moves.size:
        return
    mask = moves[i]
    for heap in range(size):
        seen = uint32(0)
        left = mask
        while left != uint32(0):
            take = cuda.ffs(left)
            left &= left - uint32(1)
            if take > heap:
                break
            seen |= uint32(1) << uint32(values[heap - take])
        values[heap] = cuda.ffs(~seen) - 1
    total = uint32(0)
    for heap in range(size):
        total = total * uint32(5) + uint32(values[heap])
    out[i] = total


def nimbers(moves, out):
    nimbers_kernel[3, 48](moves, out, 40)


@cuda.jit
def four_in_a_row_kernel(boards, out):
    i = cuda.grid(1)
    if i >= boards.shape[0]:
        return
    result = int32(0)
    for player in range(2):
        b = boards[i, player]
        for way in range(4):
            step = uint64(7)
            if way == 0:
                step = uint64(1)
            elif way == 1:
                step = uint64(6)
            elif way == 2:
                step = uint64(8)
            twice = b & (b >> step)
            if twice & (twice >> (step + step)) != uint64(0):
                result |= 1 << player
                break
    out[i] = result


def four_in_a_row(boards, out):
    four_in_a_row_kernel[2, 128](boards, out)


@cuda.jit
def leave_maze_kernel(walls, out):
    far = cuda.shared.array((18, 18), int32)
    x, y, block = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.x
    for k in range(y * 16 + x, 18 * 18, 256):
        far[k // 18, k % 18] = -2
    cuda.syncthreads()
    far[y + 1, x + 1] = -2 if walls[block, y, x] else -1
    cuda.syncthreads()
    if x == 0 and y == 0 and far[1, 1] == -1:
        far[1, 1] = 0
    cuda.syncthreads()
    step = 0
    while True:
        reached = False
        if far[y + 1, x + 1] == -1:
            reached = (
                far[y, x + 1] == step or far[y + 2, x + 1] == step or far[y + 1, x] == step or far[y + 1, x + 2] == step
            )
        some = cuda.syncthreads_or(int32(1) if reached else int32(0))
        if some == 0:
            break
        step += 1
        if reached:
            far[y + 1, x + 1] = step
        cuda.syncthreads()
    out[block, y, x] = far[y + 1, x + 1]


def leave_maze(walls, out):
    leave_maze_kernel[walls.shape[0], (16, 16)](walls, out)


@cuda.jit
def islands_kernel(maps, counts, largest):
    stack = cuda.local.array(64, uint8)
    i = cuda.grid(1)
    if i >= maps.size:
        return
    land = maps[i]
    count, most = 0, 0
    for start in range(64):
        if (land >> uint64(start)) & uint64(1) == uint64(0):
            continue
        count += 1
        land ^= uint64(1) << uint64(start)
        stack[0] = start
        top, size = 1, 0
        while top > 0:
            top -= 1
            at = int32(stack[top])
            size += 1
            for way in range(4):
                if way == 0:
                    if at % 8 == 7:
                        continue
                    to = at + 1
                elif way == 1:
                    if at % 8 == 0:
                        continue
                    to = at - 1
                elif way == 2:
                    to = at + 8
                else:
                    to = at - 8
                if to < 0 or to > 63:
                    continue
                if (land >> uint64(to)) & uint64(1) != uint64(0):
                    land ^= uint64(1) << uint64(to)
                    stack[top] = to
                    top += 1
        most = max(most, size)
    counts[i] = count
    largest[i] = most


def islands(maps, counts, largest):
    islands_kernel[3, 32](maps, counts, largest)


@cuda.jit
def code_lengths_kernel(weights, out):
    heavy = cuda.local.array(31, int32)
    parent = cuda.local.array(31, uint8)
    i = cuda.grid(1)
    if i >= weights.shape[1]:
        return
    n = weights.shape[0]
    for k in range(n):
        heavy[k] = weights[k, i]
    leaf, inner = 0, n
    for made in range(n, 2 * n - 1):
        total = int32(0)
        for _ in range(2):
            if leaf < n and (inner >= made or heavy[leaf] <= heavy[inner]):
                total += heavy[leaf]
                parent[leaf] = made
                leaf += 1
            else:
                total += heavy[inner]
                parent[inner] = made
                inner += 1
        heavy[made] = total
    bits = int32(0)
    for k in range(n):
        at, depth = k, 0
        while at != 2 * n - 2:
            at = int32(parent[at])
            depth += 1
        bits += depth * weights[k, i]
    out[i] = bits


def code_lengths(weights, out):
    code_lengths_kernel[3, 32](weights, out)


@cuda.jit
def most_common_kernel(votes, out, counts):
    lane = cuda.threadIdx.x & 31
    row = cuda.grid(1) // 32
    if row >= votes.shape[0]:
        return
    value = votes[row, lane]
    alike = cuda.match_any_sync(WORD, value)
    rank = int32(cuda.popc(alike)) * 256 + (255 - value)
    step = 16
    while step > 0:
        rank = max(rank, cuda.shfl_xor_sync(WORD, rank, step))
        step //= 2
    leaders = cuda.ballot_sync(WORD, cuda.ffs(alike) - 1 == lane)
    if lane == 0:
        out[row] = 255 - (rank & 255)
        counts[row] = cuda.popc(leaders)


def most_common(votes, out, counts):
    most_common_kernel[6, 96](votes, out, counts)
