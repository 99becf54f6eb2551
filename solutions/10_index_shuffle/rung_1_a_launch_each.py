"""index_shuffle, rung 1: a launch for each step, and a thread for each token.

A thread reads its token's scores again for every choice, and its neighbours in the warp read other rows: each request
touches 32 sectors. Experts are counted by an atomic addition a row. Placing by atomics would give rows of one expert an
order of their own in every run, so a thread for each expert walks through all rows instead.
"""

from numba import cuda, float32, int32

BLOCK = 128
LOWEST = float32(-float("inf"))


@cuda.jit
def zero_kernel(count):
    if cuda.grid(1) < count.size:
        count[cuda.grid(1)] = 0


@cuda.jit
def choose_kernel(scores, chosen):
    token = cuda.grid(1)
    if token < scores.shape[0]:
        for choice in range(chosen.shape[1]):
            best, expert = LOWEST, int32(-1)
            for e in range(scores.shape[1]):
                score = scores[token, e]
                score = score if score == score else LOWEST  # NaN
                taken = False
                for earlier in range(choice):
                    taken = taken or chosen[token, earlier] == e
                if not taken and (expert < 0 or score > best):
                    best, expert = score, int32(e)
            chosen[token, choice] = expert


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
    expert = cuda.grid(1)
    if expert < first.size:
        to = first[expert]
        for token in range(chosen.shape[0]):
            for choice in range(chosen.shape[1]):
                if chosen[token, choice] == expert:
                    position[token, choice] = to
                    order[to] = token * chosen.shape[1] + choice
                    to += 1


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert."""
    tokens, experts = scores.shape
    zero_kernel[(experts + BLOCK - 1) // BLOCK, BLOCK](count)
    choose_kernel[(tokens + BLOCK - 1) // BLOCK, BLOCK](scores, chosen)
    count_kernel[(tokens * k + BLOCK - 1) // BLOCK, BLOCK](chosen, count)
    scan_kernel[1, 1](count, first)
    place_kernel[(experts + 31) // 32, 32](chosen, first, order, position)
