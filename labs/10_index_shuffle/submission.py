"""Lab 10_index_shuffle: the experts that tokens choose, and the rows in the order of their experts."""

from numba import cuda

BLOCK = 128


@cuda.jit
def index_shuffle_kernel(scores, chosen, count, first, order, position):
    # scores is tokens x experts, chosen and position tokens x k; count and first have experts elements,
    # order has tokens * k. Choose and sort here.
    pass


def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert; all but k are arrays (README.md)."""
    tokens, experts = scores.shape
    blocks = (tokens + BLOCK - 1) // BLOCK
    index_shuffle_kernel[blocks, BLOCK](scores, chosen, count, first, order, position)
