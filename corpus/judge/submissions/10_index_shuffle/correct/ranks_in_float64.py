# expect: safety: passed: an expert is chosen if fewer than k others beat it, and so is a place
from numba import cuda, float64


@cuda.jit
def choose_kernel(scores, chosen):
    token, experts = cuda.blockIdx.x, scores.shape[1]
    for expert in range(cuda.threadIdx.x, experts, cuda.blockDim.x):
        score = float64(scores[token, expert])
        score = score if score == score else float64(-float("inf"))
        rank = 0
        for other in range(experts):
            its = float64(scores[token, other])
            its = its if its == its else float64(-float("inf"))
            rank += its > score or (its == score and other < expert)
        if rank < chosen.shape[1]:
            chosen[token, rank] = expert


@cuda.jit
def place_kernel(chosen, count, first, order, position):
    expert, k = cuda.grid(1), chosen.shape[1]
    if expert < count.size:
        lower = own = 0
        for row in range(chosen.size):
            lower += chosen[row // k, row % k] < expert
            own += chosen[row // k, row % k] == expert
        first[expert] = lower
        count[expert] = own
        for row in range(chosen.size):
            if chosen[row // k, row % k] == expert:
                position[row // k, row % k] = lower
                order[lower] = row
                lower += 1


def index_shuffle(k, scores, chosen, count, first, order, position):
    choose_kernel[scores.shape[0], 64](scores, chosen)
    place_kernel[(count.size + 31) // 32, 32](chosen, count, first, order, position)
