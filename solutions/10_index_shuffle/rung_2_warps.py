"""index_shuffle, rung 2: a warp for each token, and a warp for each expert.

Lanes read neighbouring scores once, keep them in registers and agree on the best by shuffles. A warp that places the
rows of one expert looks at 32 of them at a time: a ballot says which are its own and how many come before each. Still
every expert's warp reads all rows, and five launches follow each other.
"""

from functools import cache

import numpy as np
from numba import cuda, int32

BLOCK = 128
ALL = 0xFFFFFFFF
TAKEN = int32(-(2**31))


@cuda.jit(device=True)
def key(bits):
    """int32 in the order of scores, of their bits: NaN as minus infinity, -0 as +0."""
    magnitude, infinity = bits & int32(0x7FFFFFFF), int32(0x7F800000)
    if magnitude > infinity:
        return -infinity
    return -magnitude if bits < 0 else magnitude


@cache
def choose_kernel_for(experts, k):
    each = (experts + 31) // 32

    @cuda.jit
    def choose_kernel(bits, chosen):
        token, lane = cuda.grid(1) // 32, cuda.threadIdx.x % 32
        if token < bits.shape[0]:
            keys = cuda.local.array(each, int32)
            for e in range(each):
                keys[e] = key(bits[token, e * 32 + lane]) if e * 32 + lane < experts else TAKEN
            for choice in range(k):
                best, expert = TAKEN, int32(experts)
                for e in range(each):
                    if keys[e] > best:
                        best, expert = keys[e], int32(e * 32 + lane)
                for step in range(5):
                    other = cuda.shfl_xor_sync(ALL, best, 16 >> step)
                    other_expert = cuda.shfl_xor_sync(ALL, expert, 16 >> step)
                    if other > best or (other == best and other_expert < expert):
                        best, expert = other, other_expert
                for e in range(each):
                    keys[e] = TAKEN if expert == e * 32 + lane else keys[e]
                if lane == 0:
                    chosen[token, choice] = expert

    return choose_kernel


@cuda.jit
def zero_kernel(count):
    if cuda.grid(1) < count.size:
        count[cuda.grid(1)] = 0


@cuda.jit
def count_kernel(chosen, count):
    row = cuda.grid(1)
    if row < chosen.size:
        cuda.atomic.add(count, chosen[row // chosen.shape[1], row % chosen.shape[1]], 1)


@cuda.jit
def scan_kernel(count, first):
    rows = int32(0)
    for e in range(count.size):
        first[e] = rows
        rows += count[e]


@cuda.jit
def place_kernel(chosen, first, order, position):
    expert, lane, k = cuda.blockIdx.x, cuda.threadIdx.x, chosen.shape[1]
    to = first[expert]
    for rows in range(0, chosen.size, 32):
        row = rows + lane
        mine = row < chosen.size and chosen[row // k, row % k] == expert
        all_mine = cuda.ballot_sync(ALL, mine)
        if mine:
            place = to + cuda.popc(all_mine & ((1 << lane) - 1))
            position[row // k, row % k] = place
            order[place] = row
        to += cuda.popc(all_mine)


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert."""
    tokens, experts = scores.shape
    zero_kernel[(experts + BLOCK - 1) // BLOCK, BLOCK](count)
    choose_kernel_for(experts, k)[(tokens * 32 + BLOCK - 1) // BLOCK, BLOCK](scores.view(np.int32), chosen)
    count_kernel[(tokens * k + BLOCK - 1) // BLOCK, BLOCK](chosen, count)
    scan_kernel[1, 1](count, first)
    place_kernel[experts, 32](chosen, first, order, position)
