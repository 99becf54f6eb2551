"""Lab 10_index_shuffle: the experts that tokens choose, and the rows in the order of their experts."""

# Parts 1 to 3 are yours, one after the other; each earns points by itself. README.md says what each is.

from numba import cuda, float32, int32

BLOCK = 128
LOWEST = float32(-float("inf"))


@cuda.jit
def choose_kernel(scores, chosen):
    """Part 1: the best experts of a thread's token. Of equal scores the lower expert wins; NaN is LOWEST."""
    token = cuda.grid(1)
    if token < scores.shape[0]:
        for choice in range(chosen.shape[1]):
            chosen[token, choice] = int32(choice)


@cuda.jit
def count_kernel(chosen, count, first):
    """Part 2: a thread's expert, how many rows it has and where they begin. This is enough for one row."""
    expert = cuda.grid(1)
    if expert < count.size:
        count[expert] = 1 if chosen[0, 0] == expert else 0
        first[expert] = 1 if chosen[0, 0] < expert else 0


@cuda.jit
def place_kernel(chosen, first, order, position):
    """Part 3: a thread's expert, its rows in the order of their numbers. This is enough for one token."""
    expert = cuda.grid(1)
    if expert < first.size:
        for choice in range(chosen.shape[1]):
            if chosen[0, choice] == expert:
                position[0, choice] = first[expert]
                order[first[expert]] = choice


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert; all but k are arrays (README.md)."""
    tokens, experts = scores.shape
    choose_kernel[(tokens + BLOCK - 1) // BLOCK, BLOCK](scores, chosen)
    count_kernel[(experts + BLOCK - 1) // BLOCK, BLOCK](chosen, count, first)
    place_kernel[(experts + BLOCK - 1) // BLOCK, BLOCK](chosen, first, order, position)
