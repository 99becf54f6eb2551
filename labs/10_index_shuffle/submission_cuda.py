"""Lab 10_index_shuffle: the experts that tokens choose, and the rows in the order of their experts, in CUDA C++."""

import cupy
import numpy as np

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
index_shuffle_kernel(const float* __restrict__ scores, int* chosen, int* __restrict__ count, int* __restrict__ first,
                     int* __restrict__ order, int* __restrict__ position, int tokens)
{
    // scores has tokens x EXPERTS elements, chosen, order and position tokens x K, count and first EXPERTS.
}
"""


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert; all but k are arrays (README.md)."""
    tokens, experts = scores.shape
    index_shuffle_kernel = cupy.RawKernel(
        SOURCE, "index_shuffle_kernel", (f"-DK={k}", f"-DEXPERTS={experts}", "-DTHREADS=128")
    )
    arguments = (scores, chosen, count, first, order, position, np.int32(tokens))
    index_shuffle_kernel(((tokens + 3) // 4,), (128,), arguments)
