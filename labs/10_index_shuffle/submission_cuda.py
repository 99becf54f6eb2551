"""Lab 10_index_shuffle: the experts that tokens choose, and the rows in the order of their experts, in CUDA C++."""

import cupy
import numpy as np

SOURCE = r"""
// Parts 1 to 3 are yours, one after the other; each earns points by itself. README.md says what each is.
// scores has tokens x EXPERTS elements, chosen, order and position tokens x K, count and first EXPERTS.

// Part 1: the best experts of a thread's token. Of equal scores the lower expert wins; NaN is -inf.
extern "C" __global__ void choose_kernel(const float* scores, int* chosen, int tokens)
{
    int token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= tokens) return;
    for (int choice = 0; choice < K; ++choice) chosen[token * K + choice] = choice;
}

// Part 2: a thread's expert, how many rows it has and where they begin. This is enough for one row.
extern "C" __global__ void count_kernel(const int* chosen, int* count, int* first, int tokens)
{
    int expert = blockIdx.x * blockDim.x + threadIdx.x;
    if (expert >= EXPERTS) return;
    count[expert] = chosen[0] == expert;
    first[expert] = chosen[0] < expert;
}

// Part 3: a thread's expert, its rows in the order of their numbers. This is enough for one token.
extern "C" __global__ void place_kernel(const int* chosen, const int* first, int* order, int* position,
                                        int tokens)
{
    int expert = blockIdx.x * blockDim.x + threadIdx.x;
    if (expert >= EXPERTS) return;
    for (int row = 0; row < K; ++row)
        if (chosen[row] == expert) position[row] = first[expert], order[first[expert]] = row;
}
"""


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert; all but k are arrays (README.md)."""
    tokens, experts = scores.shape
    module = cupy.RawModule(code=SOURCE, options=(f"-DK={k}", f"-DEXPERTS={experts}"))
    blocks = [((n + 127) // 128,) for n in (tokens, experts)]
    size = np.int32(tokens)
    module.get_function("choose_kernel")(blocks[0], (128,), (scores, chosen, size))
    module.get_function("count_kernel")(blocks[1], (128,), (chosen, count, first, size))
    module.get_function("place_kernel")(blocks[1], (128,), (chosen, first, order, position, size))
